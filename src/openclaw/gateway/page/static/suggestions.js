/* Completions after a "/": MCP servers' prompts, their arguments, and servers' suggestions for values. */

import { call, path } from "./api.js";
import { COMMANDS } from "./commands.js";
import { h } from "./dom.js";

const MOST = 50;
const PROMPTS_SECONDS = 10; // a server's prompts may change

/** A list above `input`, with the prompts of `agent()`. */
export class Suggestions {
  constructor(input, agent) {
    this.input = input;
    this.agent = agent;
    this.known = { agent: null, until: 0, prompts: [] };
    this.asked = 0;
    this.chosen = -1;
    this.element = h("ul", { className: "suggestions", id: "suggestions", role: "listbox", "aria-label": "Suggestions", hidden: true });
    input.setAttribute("aria-controls", "suggestions");
    input.setAttribute("aria-autocomplete", "list");
    input.addEventListener("input", () => this.#look());
    input.addEventListener("blur", () => this.close());
  }

  /** Whether a key was meant for the list. */
  takes(event) {
    const { length } = this.element.children;
    if (this.element.hidden || !length || event.isComposing) return false;
    if (event.key === "ArrowDown") this.#choose((this.chosen + 1) % length);
    else if (event.key === "ArrowUp") this.#choose((this.chosen <= 0 ? length : this.chosen) - 1);
    else if (event.key === "Tab" && !event.shiftKey) this.#accept(Math.max(this.chosen, 0));
    else if (event.key === "Enter" && this.chosen >= 0) this.#accept(this.chosen);
    else if (event.key === "Escape") this.close();
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }

  close() {
    this.asked += 1; // ignore answers still to come
    this.chosen = -1;
    this.element.hidden = true;
    this.input.removeAttribute("aria-activedescendant");
  }

  async #look() {
    const typed = this.input.value;
    this.close();
    const asked = this.asked;
    const atEnd = this.input.selectionEnd === typed.length;
    if (!typed.startsWith("/") || !atEnd) return;
    const found = await this.#found(typed).catch(() => []); // typing works without suggestions
    if (asked === this.asked && found.length) this.#show(found.slice(0, MOST));
  }

  /** The completed text, its label, and a description. */
  async #found(typed) {
    const own = Object.entries(COMMANDS).filter(([name]) => name.startsWith(typed) && name !== typed);
    const prompts = await this.#prompts().catch(() => []);
    const [, command, rest = null] = /^(\S+)(?:\s([^]*))?$/.exec(typed) ?? [];
    if (rest === null) {
      const found = prompts.map((one) => [`/${one.server}:${one.name}`, one]).filter(([text]) => text.startsWith(command) && text !== command);
      return [...own.map(([name, about]) => [name, name, about]), ...found.map(([text, one]) => [one.arguments.length ? `${text} ` : text, text, one.description])];
    }
    const prompt = prompts.find((one) => `/${one.server}:${one.name}` === command);
    if (!prompt) return [];
    const words = rest.match(/(?:[^\s"']|"[^"]*"?|'[^']*'?)+/g) ?? [];
    const last = /\s$/.test(rest) || !words.length ? "" : words.pop();
    const given = Object.fromEntries(words.map((word) => [word.split("=", 1)[0], unquoted(word)]));
    const before = typed.slice(0, typed.length - last.length);
    const name = last.split("=", 1)[0];
    if (!last.includes("=")) {
      const free = prompt.arguments.filter((one) => one.name.startsWith(name) && !Object.hasOwn(given, one.name));
      return free.map((one) => [`${before}${one.name}=`, `${one.name}=`, one.description]);
    }
    const { values } = await call("POST", path(["completions"]), { agent: this.agent(), server: prompt.server, prompt: prompt.name, argument: name, value: unquoted(last), given });
    return values.map((value) => [`${before}${name}=${quoted(value)}`, value]).filter(([text]) => text !== typed);
  }

  async #prompts() {
    const agent = this.agent();
    const now = performance.now() / 1000;
    if (this.known.agent !== agent || now > this.known.until) {
      const { prompts } = await call("GET", path(["prompts"], { agent }));
      this.known = { agent, until: now + PROMPTS_SECONDS, prompts };
    }
    return this.known.prompts;
  }

  #show(found) {
    const option = ([text, shown, about], at) => {
      const act = (event) => (event.preventDefault(), this.#accept(at)); // before the input loses its focus
      return h("li", { id: `suggestion-${at}`, role: "option", "aria-selected": "false", "data-text": text, onpointerdown: act }, h("b", { dir: "auto" }, shown), about && h("span", {}, about));
    };
    this.element.replaceChildren(...found.map(option));
    this.element.hidden = false;
  }

  #choose(at) {
    this.element.children[this.chosen]?.setAttribute("aria-selected", "false");
    this.chosen = at;
    const one = this.element.children[at];
    one.setAttribute("aria-selected", "true");
    one.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", one.id);
  }

  #accept(at) {
    const { text } = this.element.children[at].dataset;
    this.input.value = text;
    this.input.setSelectionRange(text.length, text.length);
    this.input.dispatchEvent(new Event("input", { bubbles: true })); // there may be completions for what comes next
  }
}

function unquoted(word) {
  return word.slice(word.indexOf("=") + 1).replace(/^["']|["']$/g, "");
}

function quoted(value) {
  if (!/[\s"'\\]/.test(value)) return value;
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}
