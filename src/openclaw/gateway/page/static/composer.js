/* Where the next message is written. */

import { ACCEPT, Attachments } from "./attachments.js";
import { h, icon, iconButton } from "./dom.js";

const TOUCH = window.matchMedia("(pointer: coarse)");

/** Calls `onsend(text, attached)` and `oncancel()`. */
export class Composer {
  constructor({ onsend, oncancel }) {
    this.onsend = onsend;
    this.oncancel = oncancel;
    this.running = false;
    this.attachments = new Attachments(() => this.#update());
    this.input = h("textarea", {
      rows: 1,
      placeholder: "Write a message",
      "aria-label": "Message",
      "aria-describedby": "composer-hint",
      autocomplete: "off",
      dir: "auto",
      oninput: () => this.#update(),
      onkeydown: (event) => this.#key(event),
      onpaste: (event) => this.#paste(event),
    });
    this.picker = h("input", { type: "file", multiple: true, accept: ACCEPT, hidden: true, onchange: () => this.#picked() });
    this.go = h("button", { type: "submit", className: "send" });
    this.element = h(
      "form",
      { className: "composer", onsubmit: (event) => this.#submit(event) },
      this.attachments.element,
      h("div", { className: "composer-row" }, iconButton("clip", "Attach images or files", () => this.picker.click()), this.input, this.go),
      this.picker,
    );
    this.hint = h("p", { className: "hint", id: "composer-hint" });
    this.#update();
  }

  /** Whether a turn runs, so that the button stops instead of sends. */
  set busy(running) {
    this.running = running;
    this.#update();
  }

  /** Where there is a real keyboard: one on the screen would cover what is there to read. */
  focus() {
    if (!TOUCH.matches) this.input.focus({ preventScroll: true });
  }

  /** Put a message that could not be sent back where it was. */
  restore(text, attached) {
    if (!this.input.value) this.input.value = text;
    this.attachments.restore(attached);
    this.#update();
  }

  get #ready() {
    return Boolean(this.input.value.trim()) || this.attachments.taken.length > 0;
  }

  #update() {
    const { input, go, running } = this;
    input.style.height = "auto";
    input.style.height = `${Math.min(input.scrollHeight, window.innerHeight * 0.4)}px`;
    const label = running ? "Stop" : "Send";
    if (go.title !== label) {
      go.title = label;
      go.setAttribute("aria-label", label);
      go.replaceChildren(icon(running ? "stop" : "send"));
    }
    go.disabled = !running && !this.#ready;
    this.hint.textContent = running ? "Esc stops" : "Enter sends · Shift+Enter starts a new line";
  }

  #key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return; // an input method's Enter is its own
    event.preventDefault();
    if (!this.running) this.#send();
  }

  #submit(event) {
    event.preventDefault();
    if (this.running) this.oncancel();
    else this.#send();
  }

  #send() {
    if (!this.#ready) return;
    const text = this.input.value.trim();
    this.input.value = "";
    this.onsend(text, this.attachments.release());
    this.focus();
  }

  #paste(event) {
    const { files } = event.clipboardData;
    if (!files.length) return;
    event.preventDefault();
    this.attachments.take(files);
  }

  #picked() {
    this.attachments.take(this.picker.files);
    this.picker.value = "";
    this.focus();
  }
}
