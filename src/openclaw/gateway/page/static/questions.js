/* Questions of a turn to the person: may a tool be used, and what an MCP server wants to know. */

import { call, path } from "./api.js";
import { announce, copyButton, h, icon, toast } from "./dom.js";
import { anchor } from "./markdown.js";

/** A click this soon was meant for what was there before. In milliseconds. */
const TOO_SOON = 300;
const CLOSED = { answered: "Answered.", expired: "Nobody answered in time: declined.", cancelled: "No longer asked." };

/** One question, in the conversation, until it is answered or its time is up. */
export class Question {
  constructor(question) {
    this.question = question;
    this.fields = fieldsOf(question);
    this.state = h("p", { className: "quiet", role: "status", hidden: true });
    this.buttons = h(
      "div",
      { className: "question-buttons" },
      h("button", { type: "button", className: "button small", onclick: () => this.#answer("decline") }, "Decline"),
      h("button", { type: "submit", className: "button small primary" }, question.kind === "permission" ? "Allow" : "Send"),
    );
    this.element = h(
      "form",
      { className: "question", "aria-label": "Question", onsubmit: (event) => this.#submit(event) },
      h("p", { className: "question-text", dir: "auto" }, icon("alert"), h("span", {}, ...this.#asks())),
      question.kind === "permission" && question.body ? wholeText(question.body) : null,
      question.url ? h("p", {}, anchor(question.url, [question.url]) ?? question.url) : null,
      ...this.fields.map((one) => one.element),
      this.buttons,
      this.state,
    );
    announce(question.text);
    this.#wait();
  }

  /** Nothing can be pressed at first; the time counts from when the question can be seen. */
  #wait() {
    this.#disable(true);
    const seen = () => {
      if (document.hidden) return document.addEventListener("visibilitychange", seen, { once: true });
      requestAnimationFrame(() => setTimeout(() => this.#disable(false), TOO_SOON));
    };
    seen();
  }

  #disable(disabled) {
    for (const button of this.buttons.children) button.disabled = disabled;
  }

  /** It is over, and why. */
  close(why) {
    this.closed = why;
    this.buttons.remove();
    for (const { input } of this.fields) input.disabled = true;
    this.state.hidden = false;
    this.state.textContent = this.said ?? CLOSED[why] ?? "";
  }

  #asks() {
    const { kind, server, text } = this.question;
    return kind === "permission" ? [text] : [h("strong", {}, `The MCP server ${server} asks: `), text];
  }

  #submit(event) {
    event.preventDefault();
    if (this.buttons.lastChild.disabled) return undefined;
    const content = Object.fromEntries(this.fields.map((one) => [one.name, one.value()]).filter(([, value]) => value !== undefined));
    return this.#answer("accept", this.question.kind === "permission" || this.question.mode === "url" ? undefined : content);
  }

  async #answer(action, content) {
    this.#disable(true);
    this.said = action === "decline" ? "Declined." : this.question.kind === "permission" ? "Allowed." : "Answered.";
    try {
      await call("POST", path(["questions", this.question.id]), { action, content });
    } catch (error) {
      this.said = undefined;
      toast(error.message, error.hint);
      this.#disable(false);
      if (this.closed) this.close(this.closed); // somebody else was first, and what is shown is theirs
    }
  }
}

/** A call as it runs, all of it: whoever allows it has it in front of them. */
function wholeText(text) {
  return h("div", { className: "plain-box" }, h("pre", { className: "plain", tabIndex: 0, dir: "ltr" }, text), copyButton(() => text));
}

/** A form's fields, as the schema of the question has them: texts, numbers, choices and yes or no. */
function fieldsOf({ schema }) {
  const needed = new Set(schema?.required ?? []);
  return Object.entries(schema?.properties ?? {}).map(([name, rule]) => field(name, rule ?? {}, needed.has(name)));
}

function field(name, rule, required) {
  const words = rule.title || name;
  const choices = rule.enum ?? rule.oneOf?.map((one) => one.const);
  let input;
  let value = () => input.value || undefined;
  if (rule.type === "boolean") {
    input = h("input", { type: "checkbox", checked: rule.default === true });
    value = () => input.checked;
  } else if (Array.isArray(choices)) {
    const named = rule.enumNames ?? rule.oneOf?.map((one) => one.title) ?? [];
    input = h("select", { className: "select", required }, ...choices.map((one, n) => h("option", { value: String(n), selected: one === rule.default }, String(named[n] ?? one))));
    value = () => choices[Number(input.value)];
  } else if (rule.type === "number" || rule.type === "integer") {
    input = h("input", { type: "number", step: rule.type === "integer" ? "1" : "any", required, value: rule.default ?? "" });
    value = () => (input.value === "" ? undefined : Number(input.value));
  } else input = h("input", { type: "text", required, value: rule.default ?? "", autocomplete: "off" });
  const element = h("label", { className: rule.type === "boolean" ? "question-field choice" : "question-field" }, h("span", {}, words, required || rule.type === "boolean" ? "" : h("small", {}, " (may be left out)")), input, rule.description ? h("small", { dir: "auto" }, rule.description) : null);
  return { name, input, value, element };
}
