/* The list of conversations: open, search, delete. */

import { call, get, path } from "./api.js";
import { afterClick, announce, confirmed, h, icon, iconButton, toast } from "./dom.js";
import { count, day, plainTitle, when } from "./words.js";

const SEARCH_DELAY = 200;

export class SessionList {
  constructor(app) {
    this.app = app;
    this.cursor = null;
    this.selectedId = "";
    this.search = h("input", { type: "search", placeholder: "Search chats", "aria-label": "Search chats", autocomplete: "off", oninput: () => this.#typed() });
    this.list = h("ul", { className: "session-list" });
    this.more = h("button", { type: "button", className: "link-button more", hidden: true, onclick: () => this.#fetch(this.cursor) }, "Show more");
    this.state = h("p", { className: "quiet session-state" }, "Loading");
    this.element = h(
      "section",
      { className: "sessions", "aria-label": "Chats" },
      h("div", { className: "search" }, icon("search"), this.search),
      this.list,
      this.state,
      this.more,
    );
    this.timer = null;
    this.asked = 0;
  }

  /** Fetch the list again, soon: several calls make one request. */
  refresh(delay = 150) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#fetch(null), delay);
  }

  select(agent, key) {
    this.selectedId = `${agent}/${key}`;
    this.mark();
  }

  /** Update which one is open and which ones need an answer. */
  mark() {
    for (const item of this.list.querySelectorAll("[data-id]")) this.#mark(item);
  }

  #typed() {
    this.refresh(SEARCH_DELAY);
  }

  async #fetch(cursor) {
    const number = ++this.asked;
    try {
      const { sessions, cursor: next } = await get(path(["sessions"], { search: this.search.value.trim(), limit: 40, cursor }));
      await afterClick();
      if (number !== this.asked) return; // a later request was made
      const items = sessions.map((one) => this.#item(one));
      if (cursor === null) this.#replace(items);
      else this.list.append(...items);
      this.#headDays();
      this.cursor = next;
      this.more.hidden = next === null;
      this.#say();
    } catch (error) {
      if (number === this.asked) this.state.textContent = error.message;
    }
  }

  /** Redraw the list; a focused button keeps the focus. */
  #replace(items) {
    const focused = document.activeElement;
    const id = focused?.closest(".session-list > li")?.dataset.id;
    const deletes = focused?.classList.contains("delete");
    this.list.replaceChildren(...items);
    const same = id === undefined ? undefined : items.find((item) => item.dataset.id === id);
    same?.querySelector(deletes ? ".delete" : ".session").focus({ preventScroll: true });
  }

  /** A heading before the first chat of each day. */
  #headDays() {
    for (const old of this.list.querySelectorAll(".day")) old.remove();
    let before = null;
    for (const item of [...this.list.children]) {
      const words = day(Number(item.dataset.at));
      if (words !== before) item.before(h("li", { className: "day" }, words));
      before = words;
    }
  }

  #say() {
    const shown = this.list.querySelectorAll("[data-id]").length;
    const empty = shown === 0;
    const searched = this.search.value.trim() !== "";
    this.state.textContent = empty ? (searched ? "No chats match." : "No chats yet.") : "";
    if (searched) announce(`${count(shown, "chat")} found`);
  }

  #item(session) {
    const title = session.title ? plainTitle(session.title) : session.key;
    const label = this.app.agents.length > 1 ? `${session.agent} · ${when(session.updatedAt)}` : when(session.updatedAt);
    const item = h(
      "li",
      { "data-id": `${session.agent}/${session.key}`, "data-at": String(session.updatedAt) },
      h(
        "button",
        { type: "button", className: "session", title: session.key, onclick: () => this.app.show(["chat", session.agent, session.key]) },
        h("span", { className: "session-title", dir: "auto" }, title),
        h("small", {}, h("span", { className: "session-waits", hidden: true }, "Your answer is needed · "), `${label} · ${count(session.messages, "message")}`),
      ),
      iconButton("trash", `Delete ${title}`, () => this.#delete(session, title), { className: "icon-button delete" }),
    );
    this.#mark(item);
    return item;
  }

  #mark(item) {
    const current = item.dataset.id === this.selectedId;
    item.classList.toggle("current", current);
    item.querySelector(".session-waits").hidden = !this.app.chat.waiting.some((one) => `${one.agent}/${one.key}` === item.dataset.id);
    if (current) item.firstElementChild.setAttribute("aria-current", "true");
    else item.firstElementChild.removeAttribute("aria-current");
  }

  async #delete(session, title) {
    if (!(await confirmed("Delete this chat?", `“${title}” and its ${count(session.messages, "message")} will be deleted for good. If a turn is running, it is stopped.`, "Delete"))) return;
    try {
      await call("POST", path(["sessions", session.key, "cancel"], { agent: session.agent }));
      await call("DELETE", path(["sessions", session.id], { agent: session.agent }));
      announce("Deleted");
      this.app.deleted(session.agent, session.key);
    } catch (error) {
      toast(error.message, error.hint);
    }
    this.refresh(0);
  }
}
