/* Questions of a turn to the person: may a tool be used, and what an MCP server wants to know. */

import { call, path } from "./api.js";
import { announce, copyButton, h, icon, toast } from "./dom.js";
import { anchor } from "./markdown.js";

/** A click this soon was meant for what was there before. In milliseconds. */
const TOO_SOON = 300;
const MARKS = { "+ ": "added", "- ": "removed" };
const CLOSED = { answered: "Answered.", expired: "Nobody answered in time: declined.", cancelled: "No longer asked." };

/** One question, in the conversation, until it is answered or its time is up. */
export class Question {
  constructor(question) {
    this.question = question;
    this.fields = fieldsOf(question);
    this.state = h("p", { className: "quiet", role: "status", hidden: true });
    this.reason = question.kind === "permission" ? h("input", { type: "text", "aria-label": "Reason for a no", placeholder: "Reason for a no, for the agent to read", maxLength: 2000, autocomplete: "off", onkeydown: (event) => this.#refuse(event) }) : null;
    this.buttons = h("div", { className: "question-buttons" }, ...this.#buttons());
    this.element = h(
      "form",
      { className: "question", "aria-label": "Question", onsubmit: (event) => this.#submit(event) },
      h("p", { className: "question-text", dir: "auto" }, icon("alert"), h("span", {}, ...this.#asks())),
      question.kind === "permission" && question.body ? wholeText(question.body) : null,
      question.url ? h("p", {}, anchor(question.url, [question.url]) ?? question.url) : null,
      ...this.fields.map((one) => one.element),
      this.reason && h("label", { className: "question-field" }, this.reason),
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

  /** Refusals first, so that the answer for this one call is the last and the one that stands out. */
  #buttons() {
    if (this.question.kind !== "permission") {
      return [
        h("button", { type: "button", className: "button small", onclick: () => this.#answer({ action: "decline" }, "Declined.") }, "Decline"),
        h("button", { type: "submit", className: "button small primary" }, "Send"),
      ];
    }
    const [first, ...others] = this.question.choices.filter((one) => one.allows);
    const button = (choice, className, type = "button") => h("button", { type, className, onclick: type === "button" ? () => this.#choose(choice) : null }, choice.id === "once" ? "Allow once" : choice.label);
    return [
      ...this.question.choices.filter((one) => !one.allows).map((one) => button(one, "button small")),
      ...others.reverse().map((one) => button(one, "button small")),
      button(first, "button small primary", "submit"),
    ];
  }

  /** Enter behind a reason is a no: the form's own answer would be a yes. */
  #refuse(event) {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (!this.buttons.lastChild.disabled) this.#choose(this.question.choices.find((one) => !one.allows));
  }

  #choose(choice) {
    const reason = choice.allows ? undefined : this.reason.value.trim() || undefined;
    return this.#answer({ action: choice.allows ? "accept" : "decline", choice: choice.id, reason }, said(choice, reason));
  }

  /** It is over, and why. */
  close(why) {
    this.closed = why;
    this.buttons.remove();
    this.reason?.parentElement.remove();
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
    if (this.question.kind === "permission") return this.#choose(this.question.choices.find((one) => one.allows));
    const content = Object.fromEntries(this.fields.map((one) => [one.name, one.value()]).filter(([, value]) => value !== undefined));
    return this.#answer({ action: "accept", content: this.question.mode === "url" ? undefined : content }, "Answered.");
  }

  async #answer(answer, words) {
    this.#disable(true);
    this.said = words;
    try {
      await call("POST", path(["questions", this.question.id]), answer);
    } catch (error) {
      this.said = undefined;
      toast(error.message, error.hint);
      this.#disable(false);
      if (this.closed) this.close(this.closed); // somebody else was first, and what is shown is theirs
    }
  }
}

function said(choice, reason) {
  if (!choice.allows) return reason ? `Not allowed: ${reason}` : "Not allowed.";
  return choice.id === "once" ? "Allowed once." : `Allowed. ${choice.label}.`;
}

/** A call as it runs, all of it: whoever allows it has it in front of them. */
function wholeText(text) {
  const parts = []; // a run of lines of one kind each
  for (const line of text.split(/(?<=\n)/)) {
    const className = MARKS[line.slice(0, 2)] ?? "";
    if (parts.at(-1)?.className === className) parts.at(-1).lines.push(line);
    else parts.push({ className, lines: [line] });
  }
  const shown = parts.map(({ className, lines }) => h("span", { className }, lines.join("")));
  return h("div", { className: "plain-box" }, h("pre", { className: "plain", tabIndex: 0, dir: "ltr" }, ...shown), copyButton(() => text));
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
