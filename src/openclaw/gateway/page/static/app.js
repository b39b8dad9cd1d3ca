/* The page as a whole: login, the current view, and passing events to it. */

import { get, hasToken, logOut, openApi, redeem } from "./api.js";
import { ChatView } from "./chat.js";
import { Conversation } from "./conversation.js";
import { announce, h, icon, iconButton } from "./dom.js";
import { GatewayEvents } from "./events.js";
import { installApp } from "./install.js";
import { JobsView } from "./jobs.js";
import { KnowledgeView } from "./knowledge.js";
import { loginView } from "./login.js";
import { LogsView } from "./logs.js";
import { TROUBLED, ServersView } from "./servers.js";
import { SessionList } from "./sessions.js";
import { SettingsView } from "./settings.js";
import { UsageView } from "./usage.js";
import { QuestionsView, WaitingQuestions } from "./waiting.js";
import { count, plainTitle } from "./words.js";

const CONNECTION = { live: "Connected", lost: "Connection lost; trying again", off: "Not connected" };
const THEMES = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };

const VIEWS = { questions: "Questions", servers: "MCP servers", jobs: "Jobs and tasks", knowledge: "Memory and skills", usage: "Usage", settings: "Settings", logs: "Logs" };
const ICONS = { questions: "alert", servers: "servers", jobs: "clock", knowledge: "book", usage: "usage", settings: "settings", logs: "logs" };
const SMALL = window.matchMedia("(max-width: 800px)");

class App {
  constructor(root) {
    this.root = root;
    this.agents = [];
    this.events = null;
    this.view = null;
    this.inside = false;
    this.admin = false;
    this.announced = new Set(); // questions that the person was notified of
    openApi(() => this.inside && this.#leave("The gateway no longer accepts this token."));
    window.addEventListener("hashchange", () => this.inside && this.#route());
    document.addEventListener("keydown", (event) => this.#key(event));
    // A file dropped outside the chat must not replace the page.
    for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
    SMALL.addEventListener("change", () => this.inside && this.#menu(false));
  }

  async start() {
    const code = /^#login=([\w-]+)$/.exec(location.hash)?.[1];
    if (code) {
      history.replaceState(null, "", "/"); // first of all: the code is used up now
      try {
        await redeem(code);
      } catch (error) {
        if (error.status !== 401) return this.#unreachable(error);
        return this.#askIn(error.message);
      }
    }
    try {
      const [{ agents }, { scopes }] = await Promise.all([get("/api/agents"), get("/api/status")]);
      this.agents = agents;
      this.admin = scopes.includes("admin");
      Conversation.mayAnswer = this.admin;
    } catch (error) {
      if (error.status === 401) return this.#askIn();
      return this.#unreachable(error);
    }
    return this.#enter();
  }

  #draw(element) {
    this.root.replaceChildren(element);
    this.root.removeAttribute("aria-busy");
  }

  #askIn(why = "") {
    const login = loginView(() => this.start());
    this.#draw(login.element);
    login.focus();
    if (why) document.getElementById("login-error").textContent = why;
  }

  #unreachable(error) {
    const again = h("button", { type: "button", className: "button", onclick: () => this.start() }, "Try again");
    this.#draw(h("main", { className: "login" }, h("div", { className: "login-box" }, h("h1", {}, "OpenClaw"), h("p", { className: "form-error", role: "alert" }, error.message), h("p", { className: "quiet" }, error.hint), again)));
    if (error.status === 503) setTimeout(() => again.isConnected && this.start(), 1000); // it is starting
  }

  #leave(why = "") {
    this.inside = false;
    this.events.stop();
    this.waitingQuestions.stop();
    this.view?.hide?.();
    this.view = null;
    logOut();
    history.replaceState(null, "", "/");
    this.#askIn(why);
  }

  // ---- the shell

  #enter() {
    this.inside = true;
    this.sessions = new SessionList(this);
    this.chat = new ChatView(this);
    this.waitingQuestions = new WaitingQuestions(() => this.#questionsChanged());
    Conversation.questions = this.admin ? this.waitingQuestions : null;
    this.views = {
      chat: this.chat,
      ...(this.admin ? { questions: new QuestionsView(this) } : {}),
      servers: new ServersView(this),
      jobs: new JobsView(this),
      ...(this.admin ? { knowledge: new KnowledgeView(this) } : {}),
      usage: new UsageView(this),
      ...(this.admin ? { settings: new SettingsView(this) } : {}),
      logs: new LogsView(this),
    };
    this.main = h("main", { id: "main", tabIndex: -1 });
    this.#draw(this.#shell());
    this.#listen();
    if (this.admin) this.waitingQuestions.start();
    this.sessions.refresh(0);
    this.#route();
    this.chat.focus();
  }

  #shell() {
    this.connection = h("span", { className: "connection", role: "status" });
    this.nav = Object.fromEntries(Object.keys(VIEWS).filter((name) => name in this.views).map((name) => [name, navLink(name)]));
    this.broken = h("span", { className: "count", hidden: true });
    this.nav.servers.append(this.broken);
    this.unanswered = h("span", { className: "count", hidden: true });
    this.nav.questions?.append(this.unanswered);
    this.theme = iconButton("auto", "", () => this.#theme(window.openclawTheme.next()));
    this.#theme(window.openclawTheme.current());
    this.side = h(
      "nav",
      { className: "side", "aria-label": "Main", id: "side" },
      h("div", { className: "brand" }, h("img", { src: "icon.svg", alt: "", width: 26, height: 26 }), h("span", {}, "OpenClaw"), iconButton("close", "Close the menu", () => this.#menu(false), { className: "icon-button menu-close" })),
      h("button", { type: "button", className: "button new-chat", onclick: () => this.newChat() }, icon("plus"), "New chat"),
      this.sessions.element,
      h("div", { className: "nav" }, ...Object.values(this.nav)),
      h(
        "div",
        { className: "side-foot" },
        this.connection,
        this.theme,
        hasToken() ? iconButton("leave", "Log out", () => this.#leave()) : null,
      ),
    );
    this.lost = h("div", { className: "lost", role: "alert", hidden: true }, icon("alert"), h("span", {}, "The connection to the gateway is lost. Trying again …"), h("button", { type: "button", className: "button small", onclick: () => this.events.retry() }, "Try now"));
    this.veil = h("div", { className: "veil", onclick: () => this.#menu(false) });
    this.shell = h("div", { className: "shell" }, h("a", { className: "skip", href: "#main", onclick: (event) => this.#skip(event) }, "Skip to content"), this.side, this.veil, this.main, this.lost);
    return this.shell;
  }

  /** The button that opens the menu on a small screen; every view has one. */
  menuButton() {
    return iconButton("menu", "Menu", () => this.#menu(true), { className: "icon-button menu-open", "aria-controls": "side" });
  }

  #menu(wanted) {
    const open = wanted && SMALL.matches;
    this.shell.classList.toggle("menu", open);
    this.main.inert = open;
    if (open) this.side.querySelector(".menu-close").focus();
    else if (this.side.contains(document.activeElement)) this.view?.element.querySelector(".menu-open")?.focus();
  }

  #theme(theme) {
    this.theme.replaceChildren(icon(theme));
    this.theme.title = THEMES[theme];
    this.theme.setAttribute("aria-label", THEMES[theme]);
  }

  #skip(event) {
    event.preventDefault();
    this.main.focus();
  }

  // ---- addresses

  /** Go to a view, given its name and its subject. */
  show(parts) {
    this.#menu(false);
    const wanted = `#/${parts.map(encodeURIComponent).join("/")}`;
    if (location.hash === wanted) this.#route();
    else location.hash = wanted;
  }

  newChat() {
    const agent = this.chat.current?.agent ?? this.agents[0].id;
    if (this.view === this.chat && this.chat.current?.isEmpty) return this.chat.focus();
    this.show(["chat", agent]);
    this.chat.focus();
  }

  /** Update the address to what is already shown. */
  address(parts) {
    history.replaceState(null, "", `#/${parts.map(encodeURIComponent).join("/")}`);
  }

  #route() {
    const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
    const chosen = name in this.views ? name : "chat";
    const view = this.views[chosen];
    if (this.view !== view) {
      this.view?.hide?.();
      this.view = view;
      this.main.replaceChildren(view.element);
      for (const [key, link] of Object.entries(this.nav)) {
        if (key === chosen) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      }
    }
    if (chosen === "chat") {
      view.show(rest[0] ?? this.agents[0].id, rest[1] ?? null);
      view.focus();
    } else {
      this.sessions.select("", "");
      view.show();
      view.element.querySelector("h1").focus();
    }
    this.titleChanged();
    this.#menu(false);
  }

  /** The tab's title: whether an answer is needed, then what is shown. */
  titleChanged() {
    const waiting = this.chat?.waiting.length || this.waitingQuestions?.list.length;
    const name = Object.keys(this.views).find((one) => this.views[one] === this.view);
    const shown = name === "chat" ? this.chat.current?.title && plainTitle(this.chat.current.title) : VIEWS[name];
    document.title = [waiting ? "❗ Answer needed" : null, shown, "OpenClaw"].filter(Boolean).join(" · ");
  }

  /** A question appeared or was answered: show that wherever the person may be looking. */
  waitingChanged() {
    const asked = this.chat.waiting.map((one) => ({ id: one.waiting.question.id, text: one.waiting.question.text, agent: one.agent, key: one.key }));
    asked.push(...this.waitingQuestions.list.map((one) => ({ id: one.id, text: one.title, agent: one.agent, key: one.sessionKey })));
    this.titleChanged();
    this.sessions.mark();
    const fresh = asked.filter((one) => !this.announced.has(one.id));
    this.announced = new Set(asked.map((one) => one.id));
    if (!fresh.length || !document.hidden || !("Notification" in window) || Notification.permission !== "granted") return;
    const note = new Notification("OpenClaw needs your answer", { body: fresh[0].text, tag: "openclaw-question", icon: "icon.svg" });
    note.onclick = () => {
      window.focus();
      this.show(["chat", fresh[0].agent, fresh[0].key]);
      note.close();
    };
  }

  // ---- events between the parts

  selected(agent, key) {
    if (this.view === this.chat) this.sessions.select(agent, key);
  }

  sessionsChanged() {
    this.sessions.refresh();
  }

  deleted(agent, key) {
    if (this.chat.forget(agent, key) && this.view === this.chat) this.show(["chat", agent]);
  }

  #listen() {
    this.events = new GatewayEvents();
    const on = (name, act) => this.events.addEventListener(name, (event) => act(event.detail));
    let before = null;
    on("state", (state) => {
      this.connection.dataset.state = state;
      this.connection.textContent = CONNECTION[state];
      this.lost.hidden = state !== "lost";
      if (before === "lost" && state === "live") announce("Connected again");
      before = state;
    });
    on("hello", () => this.#catchUp());
    on("server_changed", () => {
      this.views.servers.refresh();
      this.countBroken();
    });
    on("notice", () => this.#configurationChanged());
    on("turn_started", (started) => {
      this.sessions.refresh();
      this.chat.turnStarted(started);
    });
    on("turn_finished", ({ session }) => {
      this.sessions.refresh();
      this.chat.refresh(null, session);
    });
    this.events.start();
  }

  async #catchUp() {
    this.views.servers.refresh(0);
    this.countBroken(0);
    this.sessions.refresh(0);
    this.chat.recover();
    await this.#configurationChanged();
  }

  async #configurationChanged() {
    try {
      ({ agents: this.agents } = await get("/api/agents"));
      this.chat.agentsChanged();
    } catch {
      // Keep the ones known before.
    }
  }

  #questionsChanged() {
    const { length } = this.waitingQuestions.list;
    this.unanswered.hidden = length === 0;
    this.unanswered.replaceChildren();
    if (length) this.unanswered.append(String(length), h("span", { className: "unseen" }, " waiting for your answer"));
    this.views.questions.draw();
    this.chat.questionsChanged();
    this.waitingChanged();
  }

  /** Show in the navigation how many servers need attention. */
  countBroken(delay = 300) {
    clearTimeout(this.counting);
    this.counting = setTimeout(async () => {
      const { servers } = await get("/api/servers").catch(() => ({ servers: [] }));
      const broken = servers.filter((one) => TROUBLED.has(one.state)).length;
      this.broken.hidden = broken === 0;
      this.broken.replaceChildren();
      if (broken) this.broken.append(String(broken), h("span", { className: "unseen" }, ` ${broken === 1 ? "needs" : "need"} attention`));
      this.broken.title = !broken ? "" : `${count(broken, "server")} ${broken === 1 ? "needs" : "need"} attention`;
    }, delay);
  }

  #key(event) {
    if (!this.inside || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && !event.isComposing && event.target.type !== "search") {
      if (this.shell.classList.contains("menu")) this.#menu(false);
      else if (this.view === this.chat) this.chat.cancel();
    } else if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.#menu(true);
      this.sessions.search.focus();
    }
  }
}

function navLink(view) {
  return h("a", { href: `#/${view}`, className: "nav-link" }, icon(ICONS[view]), h("span", {}, VIEWS[view]));
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

installApp();
new App(document.getElementById("app")).start();
