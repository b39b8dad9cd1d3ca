/* Asks for the gateway's token. */

import { get, logIn, logOut } from "./api.js";
import { h } from "./dom.js";

/** A form; `done` is called once a token is accepted. */
export function loginView(done) {
  const field = h("input", { type: "password", id: "token", autocomplete: "current-password", required: true, spellcheck: false, "aria-describedby": "login-error" });
  const error = h("p", { className: "form-error", id: "login-error", role: "alert" });
  const button = h("button", { type: "submit", className: "button primary" }, "Log in");

  async function submit(event) {
    event.preventDefault();
    const value = field.value.trim();
    if (!value) return;
    button.disabled = true;
    error.textContent = "";
    logIn(value);
    try {
      await get("/api/agents");
      done();
    } catch (failure) {
      logOut();
      error.textContent = failure.status === 401 ? "The gateway doesn't recognise this token." : failure.message;
      field.select();
      field.focus();
    }
    button.disabled = false;
  }

  const element = h(
    "main",
    { className: "login" },
    h(
      "form",
      { className: "login-box", onsubmit: submit, noValidate: true },
      h("img", { src: "icon.svg", alt: "", width: 44, height: 44 }),
      h("h1", {}, "OpenClaw"),
      h("label", { for: "token" }, "Gateway token"),
      h("input", { type: "text", autocomplete: "username", value: "openclaw", hidden: true, readOnly: true }),
      field,
      error,
      button,
      h("p", { className: "quiet" }, "On the computer that runs the gateway, ", h("code", {}, "openclaw page"), " opens this page logged in. A token from ", h("code", {}, "openclaw gateway token add"), " works here too."),
    ),
  );
  return { element, focus: () => field.focus() };
}
