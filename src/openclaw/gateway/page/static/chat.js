/* The view in which one talks with the agent. */

import { toast, h, icon, iconButton } from "./dom.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { count } from "./words.js";

const NEAR_THE_END = 80; // pixels: who reads further up is not dragged down

/** Conversations stay alive while another view or conversation is shown. */
export class ChatView {
  constructor(app) {
    this.app = app;
    this.open = new Map();
    this.current = null;
    this.pinned = true;
    this.title = h("h1", { tabIndex: -1 });
    this.agents = h("select", { className: "select", "aria-label": "Agent", onchange: () => app.show(["chat", this.agents.value]) });
    this.composer = new Composer({ onsend: (text, attached) => this.#send(text, attached), oncancel: () => this.cancel() });
    this.scroller = h("div", { className: "scroller", tabIndex: -1, onscroll: () => this.#scrolled() });
    this.jump = iconButton("down", "Go to the latest message", () => this.#toEnd(true), { className: "icon-button jump", hidden: true });
    this.element = h(
      "section",
      { className: "view chat", "aria-label": "Chat" },
      h("header", { className: "bar" }, app.menuButton(), this.title, this.agents),
      h("div", { className: "scroll-box" }, this.scroller, this.jump),
      h("div", { className: "dock" }, this.composer.element, this.composer.hint),
      h("div", { className: "drop-veil", "aria-hidden": "true" }, h("div", {}, icon("clip"), "Drop images or files to attach them")),
    );
    this.#drops();
    window.addEventListener("beforeunload", (event) => {
      // A turn goes on without the page, but what has not arrived at the gateway would be lost.
      if ([...this.open.values()].some((one) => one.turn?.id === null)) event.preventDefault();
    });
  }

  /** Show a conversation: of `session`, or of `key`, or a new one. */
  async show(agent, key = null) {
    const wanted = this.app.agents.find((one) => one.id === agent) ?? this.app.agents[0];
    this.#fillAgents(wanted.id);
    const known = key && this.open.get(`${wanted.id}/${key}`);
    if (known) return this.#attach(known);
    const fresh = new Conversation(wanted.id, key ?? newKey());
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

  /** Forget a conversation that was deleted; true where it was shown. */
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
      // It is tried again with the next turn.
    }
  }

  /** A turn began: where its conversation is open, it is shown as it runs. */
  turnStarted({ agent, session, turn }) {
    this.open.get(`${agent}/${session}`)?.watch(turn);
  }

  /** The gateway is there again: show what was missed. */
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
    });
    conversation.addEventListener("grow", () => {
      if (this.current === conversation) this.#grown();
    });
  }

  #attach(conversation) {
    this.current = conversation;
    this.scroller.replaceChildren(conversation.isEmpty ? this.#welcome() : conversation.element);
    this.#state();
    this.#toEnd(true);
  }

  #state() {
    const { current } = this;
    this.title.textContent = current.title ?? (current.isEmpty ? "New chat" : "Chat");
    this.composer.busy = current.running;
    this.app.selected(current.agent, current.key);
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
    };
    if (now) down();
    requestAnimationFrame(() => setTimeout(down, 20)); // after the text was drawn
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    this.pinned = scrollHeight - scrollTop - clientHeight < NEAR_THE_END;
    if (this.pinned) this.jump.hidden = true;
  }

  async #send(text, attached) {
    const { current } = this;
    if (current.isEmpty) this.scroller.replaceChildren(current.element);
    if (!this.open.has(`${current.agent}/${current.key}`)) this.#keep(current);
    this.pinned = true;
    current.title ??= text.split("\n")[0].slice(0, 80) || null;
    this.app.address(["chat", current.agent, current.key]);
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
    const facts = [agent.model ?? "no model is configured", agent.servers.length ? count(agent.servers.length, "MCP server") : null];
    return h(
      "div",
      { className: "welcome" },
      h("img", { src: "icon.svg", alt: "", width: 44, height: 44 }),
      h("h2", {}, "What shall we do?"),
      h("p", {}, `${agent.name || agent.id} · ${facts.filter(Boolean).join(" · ")}`),
      h("p", { className: "quiet" }, "Drop, paste or attach images and files: documents are read, pictures are looked at."),
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
  return h("div", { className: "empty" }, h("h2", {}, "This conversation cannot be shown"), h("p", {}, error.message), h("button", { type: "button", className: "button", onclick: retry }, "Try again"));
}

function newKey() {
  const random = [...crypto.getRandomValues(new Uint8Array(6))].map((byte) => byte.toString(36).padStart(2, "0")).join("");
  return `page-${Date.now().toString(36)}-${random}`;
}
