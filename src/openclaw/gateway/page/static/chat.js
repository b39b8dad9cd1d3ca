/* The chat view. */

import { call, get, path } from "./api.js";
import { COMMANDS, commandOf } from "./commands.js";
import { announce, field, h, icon, iconButton, inDialog, toast } from "./dom.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { exported } from "./export.js";
import { chooseFolder, folderName } from "./folders.js";
import { diffText } from "./pieces.js";
import { count, plainTitle } from "./words.js";

const PROMPTS = ["What can you do, and which tools do you have?", "What is in this folder? Explain it to me in five sentences.", "Every weekday at 8:00, tell me what is new in this folder."];
const NEAR_THE_END = 80; // pixels: don't scroll down somebody who reads further up

/** Conversations stay alive while another view or conversation is shown. */
export class ChatView {
  constructor(app) {
    this.app = app;
    this.open = new Map();
    this.current = null;
    this.pinned = true;
    this.top = 0; // the last scroll position
    this.title = h("h1", { tabIndex: -1 });
    this.agents = h("select", { className: "select", "aria-label": "Agent", onchange: () => app.show(["chat", this.agents.value]) });
    this.composer = new Composer({ onsend: (text, attached) => this.#send(text, attached), oncancel: () => this.cancel(), onleave: () => this.#edit(null), agent: () => this.current.agent });
    this.edited = null; // the message that is being edited
    this.scroller = h("div", { className: "scroller", tabIndex: 0, role: "region", "aria-label": "Messages", onscroll: () => this.#scrolled() });
    this.jump = iconButton("down", "Go to the latest message", () => this.#toEnd(true), { className: "icon-button jump", hidden: true });
    this.asking = h("button", { type: "button", className: "button primary asking", hidden: true, onclick: () => this.#toQuestion() }, icon("alert"), "Your answer is needed");
    this.options = this.#options();
    this.folder = h("button", { type: "button", className: "button small folder", onclick: () => this.#chooseFolder() });
    this.models = h("select", { className: "select model", "aria-label": "Model", onchange: () => (this.current.model = this.models.value) });
    this.queue = h("ul", { className: "queue", "aria-label": "Queued messages", hidden: true });
    this.element = h(
      "section",
      { className: "view chat", "aria-label": "Chat" },
      h("header", { className: "bar" }, app.menuButton(), this.title, this.folder, this.agents, this.options),
      h("div", { className: "scroll-box" }, this.scroller, this.jump, this.asking),
      h("div", { className: "dock" }, this.queue, this.composer.element, h("div", { className: "dock-foot" }, this.models, this.composer.hint)),
      h("div", { className: "drop-veil", "aria-hidden": "true" }, h("div", {}, icon("clip"), "Drop images or files to attach them")),
    );
    this.#drops();
    // Keep a question visible when a phone's keyboard or a smaller window takes its space.
    new ResizeObserver(() => {
      this.size = this.#measured();
      if (this.pinned) this.#toEnd(true);
    }).observe(this.scroller);
    window.addEventListener("beforeunload", (event) => {
      // A turn continues without the page, but anything not yet sent to the gateway would be lost.
      if ([...this.open.values()].some((one) => one.turn?.id === null)) event.preventDefault();
    });
  }

  /** Show a conversation: of `session`, or of `key`, or a new one. */
  async show(agent, key = null) {
    const wanted = this.app.agents.find((one) => one.id === agent) ?? this.app.agents[0];
    this.#fillAgents(wanted.id);
    const known = key && this.open.get(`${wanted.id}/${key}`);
    if (known) return this.#attach(known);
    const folder = key === null ? (this.current?.folder ?? null) : null; // a new chat starts where the last one was
    const fresh = new Conversation(wanted.id, key ?? newKey(folder), { folder });
    this.#attach(fresh);
    if (key === null) return undefined;
    this.#keep(fresh);
    this.scroller.replaceChildren(h("div", { className: "loading" }, h("span", { className: "spinner" }), "Loading the conversation"));
    try {
      await fresh.load();
    } catch (error) {
      this.open.delete(`${fresh.agent}/${fresh.key}`);
      if (this.current === fresh) this.scroller.replaceChildren(failure(error, () => this.show(agent, key)));
      return undefined;
    }
    if (this.current === fresh) this.#attach(fresh);
    return undefined;
  }

  /** Actions for the whole conversation. */
  #options() {
    const button = (name, words, act) => h("button", { type: "button", className: "menu-item", onclick: () => ((menu.open = false), act()) }, icon(name), words);
    const menu = h(
      "details",
      { className: "options", onkeydown: (event) => leave(event) },
      h("summary", { className: "icon-button", title: "Chat options", "aria-label": "Chat options" }, icon("more")),
      h(
        "div",
        { className: "menu-items" },
        button("edit", "Rename", () => this.#rename()),
        button("down", "Export as Markdown", () => this.#export("md")),
        button("down", "Export as JSON", () => this.#export("json")),
        button("file", "Show file changes", () => this.#showChanges()),
        button("undo", "Undo file changes", () => this.#undo(false)),
        button("restart", "Redo file changes", () => this.#undo(true)),
      ),
    );
    const leave = (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      event.stopPropagation();
      menu.open = false;
      menu.firstChild.focus();
    };
    document.addEventListener("click", (event) => !menu.contains(event.target) && (menu.open = false));
    return menu;
  }

  async #rename() {
    const { current } = this;
    const input = h("input", { type: "text", value: current.title ?? "", maxLength: 200, autocomplete: "off" });
    const work = () => call("POST", path(["sessions", current.id ?? current.key, "title"], { agent: current.agent }), { title: input.value.trim() || null });
    if (!(await inDialog("Rename this chat", { action: "Rename", work }, field("Title", input)))) return;
    current.title = input.value.trim() || null;
    this.#state();
    this.app.sessionsChanged();
  }

  async #export(kind) {
    const { current } = this;
    try {
      await exported(current, kind);
    } catch (error) {
      toast(error.message, error.hint);
    }
  }

  async #undo(redo) {
    const { current } = this;
    try {
      await call("POST", path(["sessions", current.key, "undo"], { agent: current.agent, ...(redo ? { redo } : {}) }), {});
      await current.refresh();
      announce(redo ? "Redone" : "Undone");
    } catch (error) {
      toast(error.message, error.hint);
    }
  }

  /** What this conversation changed in files. */
  async #showChanges() {
    const { current } = this;
    try {
      const { changes } = current.id === null ? { changes: [] } : await get(path(["sessions", current.id, "changes"], { agent: current.agent }));
      const parts = changes.flatMap(({ path: file, what, diff }) => [h("h3", {}, `${file} (${what})`), diff ? diffText(diff.join("\n")) : h("p", { className: "quiet" }, "Not text, or too long to be shown.")]);
      const none = h("p", { className: "dialog-detail" }, "This chat changed no files, apart from what commands did.");
      await inDialog("File changes", { action: "Close", wide: true, cancel: false }, ...(parts.length ? parts : [none]));
    } catch (error) {
      toast(error.message, error.hint);
    }
  }

  async #chooseFolder() {
    const { current } = this;
    const chosen = await chooseFolder(current.agent, current.folder, this.#home(current.agent));
    if (chosen === undefined || this.current !== current) return;
    const fresh = new Conversation(current.agent, newKey(chosen), { folder: chosen });
    fresh.model = current.model;
    this.#attach(fresh);
    this.app.address(["chat", fresh.agent]);
    this.focus();
  }

  /** The directory that an agent works in if no other is chosen. */
  #home(agent) {
    return this.app.agents.find((one) => one.id === agent)?.settings.directories[0] ?? "";
  }

  /** Carry out a command of the page itself. */
  async #obey(name) {
    if (name === "/new") this.app.newChat();
    else if (name === "/diff") await this.#showChanges();
    else if (name === "/model") this.models.focus();
    else if (name === "/usage") this.app.show(["usage"]);
    else {
      const rows = Object.entries(COMMANDS).map(([one, about]) => h("div", {}, h("dt", {}, h("code", {}, one)), h("dd", {}, about)));
      await inDialog("Commands", { action: "Close", wide: true, cancel: false }, h("dl", { className: "command-list" }, ...rows), h("p", { className: "dialog-detail" }, "A / also lists the prompts of your MCP servers."));
    }
  }

  /** Start editing a sent message, or with null stop editing. */
  #edit(asked) {
    this.edited = asked;
    this.composer.editing = asked !== null;
    this.composer.fill(asked?.text ?? "");
  }

  /** Ask something else, or the same again, in a copy of the conversation that ends before it. */
  async #branch(asked, text, attached) {
    const { current } = this;
    try {
      const seq = asked.seq ?? (await current.refresh(), asked.seq);
      const made = await call("POST", path(["sessions", current.id ?? current.key, "fork"], { agent: current.agent }), { before: seq });
      const files = attached ?? (await asked.attachments());
      const copy = new Conversation(made.agent, made.sessionKey);
      copy.model = current.model;
      copy.folder = current.folder;
      await copy.load();
      this.#keep(copy);
      this.app.address(["chat", made.agent, made.sessionKey]);
      this.#attach(copy);
      await this.#send(text, files);
    } catch (error) {
      toast(error.message, error.hint);
      this.composer.restore(text, attached ?? []);
    }
  }

  /** Forget a deleted conversation; true if it was shown. */
  forget(agent, key) {
    this.open.delete(`${agent}/${key}`);
    return this.current?.key === key && this.current.agent === agent;
  }

  /** Fetch what another client did in this session. */
  async refresh(agent, key) {
    const one = [...this.open.values()].find((other) => other.key === key && (agent === null || other.agent === agent));
    try {
      await one?.refresh();
    } catch {
      // Retried with the next turn.
    }
  }

  /** A turn began: if its conversation is open, show it as it runs. */
  turnStarted({ agent, session, turn }) {
    this.open.get(`${agent}/${session}`)?.watch(turn);
  }

  /** The agents or their models may have changed. */
  agentsChanged() {
    if (!this.current) return;
    this.#fillAgents(this.current.agent);
    this.#fillModels();
    if (this.current.isEmpty && this.current.id === null) this.scroller.replaceChildren(this.#welcome());
  }

  /** Other questions wait for an answer. */
  questionsChanged() {
    for (const one of this.open.values()) one.waitingChanged();
  }

  /** The gateway is back: show what was missed. */
  async recover() {
    await Promise.allSettled([...this.open.values()].map((one) => one.recover()));
  }

  cancel() {
    if (!this.current?.running) return;
    this.current.cancel().catch((error) => toast(error.message, error.hint));
  }

  focus() {
    this.composer.focus();
  }

  #keep(conversation) {
    this.open.set(`${conversation.agent}/${conversation.key}`, conversation);
    conversation.addEventListener("change", () => {
      if (this.current === conversation) this.#state();
      this.app.sessionsChanged();
      this.app.waitingChanged();
      this.#next(conversation);
    });
    conversation.addEventListener("edit", ({ detail }) => this.#edit(detail));
    conversation.addEventListener("regenerate", ({ detail }) => this.#branch(detail, detail.text, null));
    conversation.addEventListener("retry", async ({ detail }) => this.#send(detail.text, await detail.attachments()));
    conversation.addEventListener("grow", () => {
      if (this.current === conversation) this.#grown();
    });
  }

  /** Conversations with a waiting question, the current one first. */
  get waiting() {
    return [...this.open.values()].filter((one) => one.waiting !== null).sort((one) => (one === this.current ? -1 : 1));
  }

  /** The turn is over: send what was written meanwhile, or put it back if the turn failed. */
  #next(conversation) {
    if (conversation.running || !conversation.queue.length || conversation.ended === undefined) return;
    if (conversation.ended === "ok") {
      const [first, ...rest] = conversation.queue;
      conversation.queue = rest;
      conversation.ended = undefined;
      this.#deliver(conversation, first.text, first.attached);
      return;
    }
    const { queue } = conversation;
    conversation.queue = [];
    if (this.current === conversation) {
      this.composer.restore(queue.map((one) => one.text).join("\n\n"), queue.flatMap((one) => one.attached));
      this.#state();
    }
  }

  #attach(conversation) {
    if (this.edited) this.#edit(null);
    this.current = conversation;
    this.scroller.replaceChildren(conversation.isEmpty ? this.#welcome() : conversation.element);
    this.#state();
    this.#toEnd(true);
  }

  #state() {
    const { current } = this;
    this.title.textContent = current.title ? plainTitle(current.title) : current.isEmpty ? "New chat" : "Chat";
    this.title.title = this.title.textContent;
    this.composer.busy = current.running;
    this.options.hidden = current.id === null;
    const place = current.folder?.path ?? this.#home(current.agent);
    this.folder.hidden = !place || !this.app.admin;
    this.folder.disabled = !current.isEmpty;
    this.folder.title = current.isEmpty ? `Works in ${place}. Choose another folder` : `Works in ${place}`;
    this.folder.setAttribute("aria-label", this.folder.title);
    this.folder.replaceChildren(icon("folder"), h("span", {}, folderName(place)));
    this.queue.hidden = current.queue.length === 0;
    this.queue.replaceChildren(...current.queue.map((one) => h("li", {}, h("span", { dir: "auto" }, one.text || one.attached[0].file.name), iconButton("close", "Don't send this message", () => current.unqueue(one)))));
    this.#fillModels();
    this.#point();
    this.app.selected(current.agent, current.key);
    this.app.titleChanged();
  }

  #fillModels() {
    const { agent: id, model } = this.current;
    const agent = this.app.agents.find((one) => one.id === id);
    const choices = (agent?.settings.modelChoices ?? []).filter((one) => one !== agent.model);
    this.models.hidden = choices.length === 0;
    const known = JSON.stringify([agent?.model, choices]);
    if (this.models.dataset.known !== known) {
      this.models.dataset.known = known;
      this.models.replaceChildren(h("option", { value: "" }, agent?.model ?? "no model"), ...choices.map((one) => h("option", { value: one }, one)));
    }
    this.models.value = model;
  }

  #grown() {
    if (this.pinned) this.#toEnd(false);
    else this.jump.hidden = false;
  }

  #toEnd(now) {
    this.pinned = true;
    this.jump.hidden = true;
    const down = () => {
      if (this.pinned) this.scroller.scrollTop = this.scroller.scrollHeight;
      this.#point();
    };
    if (now) down();
    requestAnimationFrame(() => setTimeout(down, 20)); // after the text was drawn
  }

  #measured() {
    return `${this.scroller.clientWidth}x${this.scroller.clientHeight}`;
  }

  #scrolled() {
    if (this.size !== this.#measured()) return; // not by the person: the window was resized
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const up = scrollTop < this.top;
    this.top = scrollTop;
    // Being further up because text was added below doesn't count as scrolling.
    if (scrollHeight - scrollTop - clientHeight < NEAR_THE_END) this.pinned = true;
    else if (up) this.pinned = false;
    if (this.pinned) this.jump.hidden = true;
    this.#point();
  }

  /** Show a button if a question is out of sight. */
  #point() {
    const box = this.current.waiting?.element.getBoundingClientRect();
    const frame = this.scroller.getBoundingClientRect();
    this.asking.hidden = !box || (box.top < frame.bottom - 40 && box.bottom > frame.top + 40);
  }

  #toQuestion() {
    const { element } = this.current.waiting;
    element.scrollIntoView({ block: "nearest" });
    element.focus({ preventScroll: true });
  }

  async #send(text, attached) {
    const { current, edited } = this;
    const command = edited === null && !attached.length ? commandOf(text) : null;
    if (command !== null) return this.#obey(command);
    if (edited !== null) {
      this.#edit(null);
      return this.#branch(edited, text, attached.length ? attached : null);
    }
    if (current.running) return current.later(text, attached);
    return this.#deliver(current, text, attached);
  }

  async #deliver(current, text, attached) {
    if (current.isEmpty && this.current === current) this.scroller.replaceChildren(current.element);
    if (!this.open.has(`${current.agent}/${current.key}`)) this.#keep(current);
    if (this.current === current) {
      this.pinned = true;
      this.app.address(["chat", current.agent, current.key]);
    }
    current.title ??= text.split("\n")[0].slice(0, 80) || null;
    const sent = await current.send(text, attached);
    if (!sent && this.current === current) this.composer.restore(text, attached);
    if (this.current === current) this.#state();
    this.app.sessionsChanged();
  }

  #fillAgents(selected) {
    const { agents } = this.app;
    this.agents.hidden = agents.length < 2;
    this.agents.replaceChildren(...agents.map((one) => h("option", { value: one.id, selected: one.id === selected }, one.name || one.id)));
  }

  #welcome() {
    const agent = this.app.agents.find((one) => one.id === this.current.agent);
    const place = this.current.folder?.path ?? this.#home(agent.id);
    const facts = [agent.model ?? "no model yet", agent.servers.length ? count(agent.servers.length, "MCP server") : null];
    const prompt = (text) => h("button", { type: "button", className: "button prompt", onclick: () => this.composer.fill(text) }, text);
    return h(
      "div",
      { className: "welcome" },
      h("img", { src: "icon.svg", alt: "", width: 44, height: 44 }),
      h("h2", {}, "What can I do for you?"),
      h("p", {}, `${agent.name || agent.id} · ${facts.filter(Boolean).join(" · ")}`),
      place && h("p", {}, "It works in ", h("code", {}, place), ", and asks before it runs a command."),
      agent.model ? h("div", { className: "prompts" }, ...PROMPTS.map(prompt)) : h("a", { className: "button primary", href: "#/settings" }, "Choose a model"),
      agent.model && h("p", { className: "quiet" }, "Drop, paste or attach images and documents. Type / for commands."),
    );
  }

  #drops() {
    let depth = 0;
    const veil = (shown) => this.element.classList.toggle("dropping", shown);
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    this.element.addEventListener("dragenter", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      depth += 1;
      veil(true);
    });
    this.element.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
    this.element.addEventListener("dragleave", () => {
      depth = Math.max(0, depth - 1);
      if (depth === 0) veil(false);
    });
    this.element.addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      depth = 0;
      veil(false);
      this.composer.attachments.take(event.dataTransfer.files);
      this.focus();
    });
  }
}

function failure(error, retry) {
  return h("div", { className: "empty" }, h("h2", {}, "This chat cannot be shown"), h("p", {}, error.message), h("button", { type: "button", className: "button", onclick: retry }, "Try again"));
}

function newKey(folder) {
  const random = [...crypto.getRandomValues(new Uint8Array(6))].map((byte) => byte.toString(36).padStart(2, "0")).join("");
  return `${folder?.keyPrefix ?? "page-"}${Date.now().toString(36)}${folder ? "" : "-"}${random}`;
}
