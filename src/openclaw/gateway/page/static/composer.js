/* The input for the next message. */

import { ACCEPT, Attachments } from "./attachments.js";
import { h, icon, iconButton } from "./dom.js";
import { Suggestions } from "./suggestions.js";

const TOUCH = window.matchMedia("(pointer: coarse)");

/** Calls `onsend(text, attached)`, `oncancel()` and, when editing is cancelled, `onleave()`; asks `agent()` whose prompts to suggest. */
export class Composer {
  constructor({ onsend, oncancel, onleave, agent }) {
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
    this.suggestions = new Suggestions(this.input, agent);
    this.picker = h("input", { type: "file", multiple: true, accept: ACCEPT, hidden: true, "aria-label": "Files", onchange: () => this.#picked() });
    this.go = h("button", { type: "submit", className: "send" });
    this.stop = h("button", { type: "button", className: "send stop", title: "Stop", "aria-label": "Stop", onclick: () => this.oncancel() }, icon("stop"));
    this.banner = h(
      "div",
      { className: "composer-banner", hidden: true },
      h("span", {}, "Editing an earlier message. It continues in a copy of this chat; this chat stays as it is."),
      iconButton("close", "Cancel editing", () => onleave()),
    );
    this.element = h(
      "form",
      { className: "composer", onsubmit: (event) => this.#submit(event) },
      this.suggestions.element,
      this.banner,
      this.attachments.element,
      h("div", { className: "composer-row" }, iconButton("clip", "Attach images or files", () => this.picker.click()), this.input, this.go, this.stop),
      this.picker,
    );
    this.hint = h("p", { className: "hint", id: "composer-hint" });
    this.#update();
  }

  /** Whether a turn is running: it can be stopped, and new messages wait until it is over. */
  set busy(running) {
    this.running = running;
    this.#update();
  }

  /** Whether an earlier message is being edited. */
  set editing(editing) {
    this.banner.hidden = !editing;
  }

  /** Only with a physical keyboard: an on-screen one would cover the text. */
  focus() {
    if (!TOUCH.matches) this.input.focus({ preventScroll: true });
  }

  /** Replace the text with this. */
  fill(text) {
    this.input.value = text;
    this.#update();
    this.input.focus({ preventScroll: true });
    this.input.setSelectionRange(text.length, text.length);
  }

  /** Put back a message that could not be sent. */
  restore(text, attached) {
    this.input.value = [text, this.input.value].filter(Boolean).join("\n");
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
    const label = running ? "Queue message" : "Send";
    if (go.title !== label) {
      go.title = label;
      go.setAttribute("aria-label", label);
      go.replaceChildren(icon(running ? "plus" : "send"));
    }
    go.disabled = !this.#ready;
    go.hidden = running && !this.#ready;
    this.stop.hidden = !running;
    this.hint.textContent = running ? "Esc to stop · Enter to send after this answer" : "Enter to send · Shift+Enter for a new line";
  }

  #key(event) {
    if (this.suggestions.takes(event)) return;
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return; // Enter belongs to the input method
    event.preventDefault();
    this.#send();
  }

  #submit(event) {
    event.preventDefault();
    this.#send();
  }

  #send() {
    if (!this.#ready) return;
    const text = this.input.value.trim();
    this.input.value = "";
    this.suggestions.close();
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
