/* What the agent remembers, and its skills. */

import { call, get, path } from "./api.js";
import { announce, bar, confirmed, emptyState, h, toast, Trouble } from "./dom.js";

const FILES = { "MEMORY.md": "What you told it", "HEARD.md": "What it heard elsewhere" };

export class KnowledgeView {
  constructor(app) {
    this.app = app;
    this.agent = null;
    this.trouble = new Trouble();
    this.agents = h("select", { className: "select", "aria-label": "Agent", onchange: () => this.#fetch() });
    this.memory = h("div", { className: "cards" });
    this.skills = h("div", { className: "cards" });
    this.element = h(
      "section",
      { className: "view", "aria-label": "Memory and skills" },
      bar(app, "Memory and skills", this.agents),
      h("div", { className: "panel" }, this.trouble.element, h("h2", {}, "Memory"), this.memory, h("h2", {}, "Skills"), this.skills),
    );
  }

  show() {
    const { agents } = this.app;
    const chosen = this.agents.value;
    this.agents.hidden = agents.length < 2;
    this.agents.replaceChildren(...agents.map((one) => h("option", { value: one.id, selected: one.id === chosen }, one.name || one.id)));
    this.#fetch();
  }

  async #fetch() {
    const agent = this.agents.value;
    await this.trouble.during(async () => {
      const [memory, { skills, problems }] = await Promise.all([get(path(["memory"], { agent })), get(path(["skills"], { agent }))]);
      this.#drawMemory(memory);
      const list = skills.map((one) => h("article", { className: "card" }, h("h3", { className: "card-title" }, one.name), h("p", { dir: "auto" }, one.description), h("p", { className: "quiet" }, one.path)));
      const none = emptyState("book", "No skills yet", "A skill is a folder with a SKILL.md that tells the agent how to do something.", h("code", {}, "openclaw skills add FOLDER"));
      this.skills.replaceChildren(...problems.map((one) => h("p", { className: "banner warning" }, one)), ...(list.length ? list : [none]));
    });
  }

  #drawMemory({ directory, lines }) {
    const files = [...new Set(lines.map((one) => one.file))];
    if (!files.length) {
      this.memory.replaceChildren(emptyState("book", "Nothing is remembered yet", "Tell the agent to remember something, and it appears here."));
      return;
    }
    const row = (one) => h("li", {}, h("div", { dir: "auto" }, one.text.replace(/^- /, "")), h("button", { type: "button", className: "button small", "aria-label": `Forget: ${one.text}`, onclick: () => this.#forget(one) }, "Forget"));
    const card = (file) => h("article", { className: "card" }, h("div", { className: "card-head" }, h("h3", { className: "card-title" }, FILES[file] ?? file)), h("ul", { className: "rows" }, ...lines.filter((one) => one.file === file).map(row)));
    this.memory.replaceChildren(...files.map(card), h("p", { className: "quiet" }, `These are files that you can edit, in ${directory}.`));
  }

  async #forget(line) {
    if (!(await confirmed("Forget this?", line.text.replace(/^- /, ""), "Forget"))) return;
    try {
      await call("POST", path(["memory", "forget"], { agent: this.agents.value }), line);
      announce("Forgotten");
    } catch (error) {
      toast(error.message, error.hint);
    }
    await this.#fetch();
  }
}
