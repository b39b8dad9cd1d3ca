/* A turn's questions to the person: tool approvals and MCP servers' questions. */

import { call, path } from "./api.js";
import { announce, copyButton, h, icon, toast } from "./dom.js";
import { anchor } from "./markdown.js";

/** A click this soon was meant for what was there before. In milliseconds. */
const TOO_SOON = 300;
const MARKS = { "+ ": "added", "- ": "removed" };
const CLOSED = { answered: "Answered", cancelled: "No longer needed" };

/** One question, in the conversation, until it is answered or its time is up. */
export class Question {
  constructor(question) {
    this.question = question;
    this.fields = fieldsOf(question);
    this.buttons = [];
    this.element = h(
      "form",
      { className: "question", "aria-label": "Question", tabIndex: -1, onsubmit: (event) => this.#submit(event) },
      h("p", { className: "question-text", dir: "auto" }, icon("alert"), h("span", {}, ...this.#asks())),
      question.kind === "permission" && question.body ? wholeText(question.body) : null,
      question.url ? h("p", {}, anchor(question.url, [question.url]) ?? question.url) : null,
      ...this.fields.map((one) => one.element),
      ...(question.kind === "permission" ? this.#choices() : this.#plainButtons()),
    );
    announce(question.text);
    this.#wait();
  }

  /** Buttons are disabled at first, for a moment after the question becomes visible. */
  #wait() {
    this.#disable(true);
    const seen = () => {
      if (document.hidden) return document.addEventListener("visibilitychange", seen, { once: true });
      requestAnimationFrame(() => setTimeout(() => this.#disable(false), TOO_SOON));
    };
    seen();
  }

  #disable(disabled) {
    for (const button of this.buttons) button.disabled = disabled;
  }

  get #disabled() {
    return this.buttons.some((one) => one.disabled);
  }

  #button(words, className, act) {
    const button = h("button", { type: act ? "button" : "submit", className: `button ${className}`, onclick: act }, words);
    this.buttons.push(button);
    return button;
  }

  #plainButtons() {
    return [
      h(
        "div",
        { className: "question-buttons" },
        this.#button("Send", "primary", null),
        this.#button("Decline", "", () => this.#answer({ action: "decline" }, "Declined")),
      ),
    ];
  }

  /** Allowing this one call is the primary button; refusing is next to its reason. */
  #choices() {
    const [first, ...others] = this.question.choices.filter((one) => one.allows);
    const refusals = this.question.choices.filter((one) => !one.allows);
    this.reason = h("input", { type: "text", "aria-label": "Reason for refusing", placeholder: "Reason for refusing (optional)", maxLength: 2000, autocomplete: "off", onkeydown: (event) => this.#refuse(event) });
    return [
      h(
        "div",
        { className: "question-buttons" },
        this.#button(first.id === "once" ? "Allow once" : first.label, "primary", null),
        ...others.map((one) => this.#button(one.label, "", () => this.#choose(one))),
      ),
      h("div", { className: "question-refusal" }, ...refusals.map((one) => this.#button(one.label, "", () => this.#choose(one))), this.reason),
    ];
  }

  /** Enter in the reason field refuses: submitting the form would allow. */
  #refuse(event) {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (!this.#disabled) this.#choose(this.question.choices.find((one) => !one.allows));
  }

  #choose(choice) {
    const reason = choice.allows ? undefined : this.reason.value.trim() || undefined;
    return this.#answer({ action: choice.allows ? "accept" : "decline", choice: choice.id, reason }, said(choice, reason));
  }

  /** Close it and say why; it becomes a line that can be opened. */
  close(why) {
    this.closed = why;
    const { kind, title, body, text } = this.question;
    const words = this.said ?? CLOSED[why] ?? "Closed";
    const record = kind === "permission" ? { words, allowed: this.allows, title, body } : { words, allowed: why === "answered", title: `${this.question.server}: ${text}`, body: "" };
    this.replace(recordNode(record));
  }

  /** Replace the question with this node. */
  replace(node) {
    const focused = this.answering || this.element.contains(document.activeElement);
    this.answering = false;
    this.element.replaceWith(node);
    this.element = node;
    if (focused) node.querySelector("summary")?.focus({ preventScroll: true });
  }

  #asks() {
    const { kind, server, text } = this.question;
    return kind === "permission" ? [text] : [h("strong", {}, `The MCP server ${server} asks: `), text];
  }

  #submit(event) {
    event.preventDefault();
    if (this.#disabled) return undefined;
    if (this.question.kind === "permission") return this.#choose(this.question.choices.find((one) => one.allows));
    const content = Object.fromEntries(this.fields.map((one) => [one.name, one.value()]).filter(([, value]) => value !== undefined));
    return this.#answer({ action: "accept", content: this.question.mode === "url" ? undefined : content }, "Answered");
  }

  async #answer(answer, words) {
    this.answering = this.element.contains(document.activeElement); // a disabled button loses the focus
    this.#disable(true);
    this.said = words;
    this.allows = answer.action === "accept";
    try {
      await call("POST", path(["questions", this.question.id]), { ...answer, continue: this.question.continues });
      if (this.question.continues) this.close("answered"); // no event says so
      this.question.onanswered?.();
    } catch (error) {
      this.said = undefined;
      this.allows = undefined;
      toast(error.message, error.hint);
      this.#disable(false);
      if (this.closed) this.close(this.closed); // somebody else was first: show their answer
    }
  }
}

const SCOPES = { once: "Allowed once", session: "Allowed in this session", always: "Always allowed" };

function said(choice, reason) {
  if (!choice.allows) return reason ? `Not allowed: ${reason}` : "Not allowed";
  return SCOPES[choice.id] ?? `Allowed: ${choice.label}`;
}

/** What was answered to a question about a call, from the transcript. */
export function answerTo({ choice, choiceLabel, allowed, reason }) {
  return said({ id: choice, label: choiceLabel, allows: allowed }, reason);
}

const ANSWERS = { accept: "Answered", decline: "Declined", cancel: "Not answered" };

/** An MCP server's question and its answer. */
export function questionNode({ server, message, action, url, content }) {
  const lines = Object.entries(content ?? {}).map(([name, value]) => `${name}: ${Array.isArray(value) ? value.join(", ") : value}`);
  return recordNode({ words: ANSWERS[action] ?? action, allowed: action === "accept", title: `${server}: ${message}`, body: (url ? [url, ...lines] : lines).join("\n") });
}

function recordNode({ words, allowed, title, body }) {
  const state = allowed ? "allowed" : "refused";
  const summary = [icon(allowed ? "check" : "close"), h("span", { className: "record-words" }, words), h("span", { className: "record-title", dir: "auto" }, title)];
  if (!body) return h("p", { className: "record", "data-state": state }, ...summary);
  return h("details", { className: "record", "data-state": state }, h("summary", {}, ...summary), wholeText(body));
}

/** The complete call, or a diff, so that whoever allows it can see all of it. */
export function wholeText(text) {
  const parts = []; // each a run of lines of one kind
  for (const line of text.split(/(?<=\n)/)) {
    const className = MARKS[line.slice(0, 2)] ?? "";
    if (parts.length && parts.at(-1).className === className) parts.at(-1).lines.push(line);
    else parts.push({ className, lines: [line] });
  }
  const shown = parts.map(({ className, lines }) => h("span", { className }, lines.join("")));
  return h("div", { className: "plain-box" }, h("pre", { className: "plain", tabIndex: 0, dir: "ltr", "aria-label": "The whole call" }, ...shown), copyButton(() => text));
}

/** A form's fields, from the question's schema: text, numbers, choices, and yes or no. */
function fieldsOf({ schema }) {
  const needed = new Set(schema?.required ?? []);
  return Object.entries(schema?.properties ?? {}).map(([name, rule]) => field(name, rule ?? {}, needed.has(name)));
}

function field(name, rule, required) {
  const words = rule.title || name;
  const choices = rule.enum ?? rule.oneOf?.map((one) => one.const);
  let input;
  let value = () => input.value || undefined;
  const several = rule.type === "array" ? (rule.items?.enum ?? (rule.items?.anyOf ?? rule.items?.oneOf)?.map((one) => one.const)) : null;
  if (Array.isArray(several)) return choicesField(name, rule, words, several, required);
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

/** A field with any number of choices. */
function choicesField(name, rule, words, values, required) {
  const titles = rule.items.enumNames ?? (rule.items.anyOf ?? rule.items.oneOf)?.map((one) => one.title) ?? [];
  const boxes = values.map((one) => h("input", { type: "checkbox", checked: (rule.default ?? []).includes(one) }));
  const input = h("fieldset", { className: "question-field several" }, h("legend", {}, words, required ? "" : h("small", {}, " (may be left out)")), ...values.map((one, n) => h("label", { className: "check" }, boxes[n], String(titles[n] ?? one))), rule.description ? h("small", { dir: "auto" }, rule.description) : null);
  const value = () => {
    const chosen = values.filter((_, n) => boxes[n].checked);
    return chosen.length || required ? chosen : undefined;
  };
  return { name, input, value, element: input };
}
