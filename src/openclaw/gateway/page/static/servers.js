/* The MCP servers: how they are, what they offer, and what can be done about them. */

import { call, get, path } from "./api.js";
import { announce, confirmed, emptyState, h, icon, toast } from "./dom.js";
import { PinBox } from "./pins.js";
import { foldedText } from "./pieces.js";
import { count, duration, pretty } from "./words.js";

const WORDS = {
  ready: "Ready", connecting: "Connecting", disconnected: "Not connected", error: "Waiting to retry",
  failed: "Failed", needs_login: "Needs login", disabled: "Disabled", closed: "Closed",
};

const TROUBLED = new Set(["error", "failed", "needs_login"]);
const MANY = 5; // servers that are seen without looking for them

export class ServersView {
  constructor(app) {
    this.app = app;
    this.cards = new Map();
    this.shown = false;
    this.summary = h("p", { className: "quiet", role: "status" });
    this.trouble = h("div", { className: "banner error", role: "alert", hidden: true });
    this.troubled = h("p", { className: "troubled", hidden: true });
    this.list = h("div", { className: "cards" });
    this.element = h(
      "section",
      { className: "view", "aria-label": "MCP servers" },
      h(
        "header",
        { className: "bar" },
        app.menuButton(),
        h("h1", { tabIndex: -1 }, "MCP servers"),
        h("button", { type: "button", className: "button small", onclick: (event) => this.#reload(event.currentTarget) }, "Reload configuration"),
      ),
      h("div", { className: "panel" }, this.trouble, this.summary, this.troubled, this.list),
    );
    this.timer = null;
    setInterval(() => this.shown && this.#tick(), 1000);
  }

  show() {
    this.shown = true;
    this.refresh(0);
  }

  hide() {
    this.shown = false;
  }

  /** Fetch the state again, soon. */
  refresh(delay = 80) {
    if (!this.shown) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#fetch(), delay);
  }

  async #fetch() {
    try {
      const [status, { pins }] = await Promise.all([get("/api/status"), get("/api/pins")]);
      this.#draw(status, new Map(pins.map((one) => [one.server, one.changes])));
    } catch (error) {
      this.#say(error.message);
    }
  }

  #say(trouble) {
    this.trouble.hidden = !trouble;
    this.trouble.textContent = trouble ?? "";
  }

  #draw(status, pins) {
    this.#say(status.reloadError && `The configuration was changed but cannot be used; the one before is in force. ${status.reloadError}`);
    const ready = status.servers.filter((one) => one.state === "ready").length;
    this.summary.textContent = status.servers.length ? `${ready} of ${count(status.servers.length, "server")} ready · OpenClaw ${status.version} · ${status.config}` : "";
    this.#pointOut(status.servers, pins);
    if (!status.servers.length) {
      this.list.replaceChildren(emptyState("servers", "No MCP servers yet", "Add one on the command line; it is started here at once.", h("code", {}, "openclaw mcp add NAME -- COMMAND")));
      this.cards.clear();
      return;
    }
    const before = this.cards;
    this.cards = new Map();
    for (const server of status.servers) {
      const id = JSON.stringify([server.name, server.agents, server.sessions]);
      const card = before.get(id) ?? new ServerCard(() => this.refresh(0));
      card.update(server, pins.get(server.name) ?? []);
      this.cards.set(id, card);
    }
    const wanted = [...this.cards.values()].map((card) => card.element);
    // Nodes that stay are not moved, so that nobody loses the focus or an open fold.
    if (wanted.some((node, n) => this.list.children[n] !== node) || this.list.childElementCount !== wanted.length) this.list.replaceChildren(...wanted);
  }

  /** Among many servers, those that need somebody are a click away. */
  #pointOut(servers, pins) {
    const waiting = servers.filter((one) => TROUBLED.has(one.state) || pins.get(one.name)?.length);
    const key = waiting.map((one) => `${one.name} ${one.state}`).join();
    if (key === this.pointed) return;
    this.pointed = key;
    this.troubled.hidden = waiting.length === 0 || servers.length < MANY;
    const links = waiting.map((one) => h("button", { type: "button", className: "link-button", onclick: () => this.#goTo(one.name) }, one.name));
    this.troubled.replaceChildren("To look at: ", ...links);
  }

  #goTo(name) {
    const card = [...this.cards.values()].find((one) => one.server.name === name);
    card?.name.scrollIntoView({ block: "start" });
    card?.name.focus({ preventScroll: true });
  }

  #tick() {
    for (const card of this.cards.values()) card.tick();
  }

  async #reload(button) {
    button.disabled = true;
    try {
      const { changed } = await call("POST", "/api/reload");
      announce(changed ? "The new configuration is in force" : "The configuration has not changed");
      button.textContent = changed ? "Reloaded" : "Nothing has changed";
      setTimeout(() => (button.textContent = "Reload configuration"), 2500);
    } catch (error) {
      toast(error.message, error.hint);
    }
    button.disabled = false;
    this.refresh(0);
  }
}

class ServerCard {
  constructor(onaccepted) {
    this.name = h("h2", { className: "card-title", tabIndex: -1 });
    this.badge = h("span", { className: "badge" });
    this.facts = h("dl", { className: "facts" });
    this.error = h("div", { className: "banner error", hidden: true });
    this.notes = h("ul", { className: "left-out", hidden: true });
    this.pins = new PinBox(onaccepted);
    this.restart = h("button", { type: "button", className: "button small", onclick: () => this.#restart() }, icon("restart"), "Restart");
    this.toolList = h("div", { className: "tools" });
    this.toolsTitle = h("summary", {});
    this.tools = h("details", { className: "tools-fold", ontoggle: () => this.tools.open && this.#loadTools() }, this.toolsTitle, this.toolList);
    this.element = h(
      "article",
      { className: "card server" },
      h("div", { className: "card-head" }, this.name, this.badge, this.restart),
      this.facts,
      this.error,
      this.notes,
      this.pins.element,
      this.tools,
    );
    this.loadedFor = null;
  }

  update(server, changes) {
    this.server = server;
    this.received = Date.now();
    this.name.textContent = server.name;
    this.badge.textContent = WORDS[server.state] ?? server.state;
    this.element.dataset.state = server.state;
    this.restart.setAttribute("aria-label", `Restart ${server.name}`);
    this.restart.disabled = server.state === "disabled";
    this.error.hidden = !server.lastError || server.state === "ready";
    this.error.replaceChildren(h("strong", {}, "Last error: "), server.lastError ?? "");
    const notes = [...(server.suspicions ?? []), ...server.leftOut];
    this.notes.hidden = !notes.length;
    this.notes.replaceChildren(...notes.slice(0, 20).map((one) => h("li", {}, one)));
    this.toolsTitle.textContent = count(server.tools, "tool");
    this.tools.hidden = server.tools === 0 && !this.tools.open;
    this.pins.update(server.name, changes);
    this.tick();
    if (this.tools.open) this.#loadTools();
  }

  tick() {
    const { server } = this;
    const passed = Date.now() - this.received;
    const made = [server.serverName, server.serverVersion].filter(Boolean).join(" ");
    const retry = server.nextRetryIn === null ? null : Math.max(0, server.nextRetryIn * 1000 - passed);
    const rows = [
      ["Transport", server.transport],
      ["Agents", server.agents.join(", ")],
      ["Software", made],
      ["Protocol", server.protocol],
      ["Process", server.pid],
      ["Up", server.uptimeMs === null ? null : duration(Math.max(1000, Math.floor((server.uptimeMs + passed) / 1000) * 1000))],
      ["Next try", retry === null || server.state === "ready" ? null : `in ${Math.ceil(retry / 1000)} s`],
      ["Restarts", server.restarts || null],
      ["Resources", server.resources || null],
      ["Prompts", server.prompts || null],
      ["Pins", server.pin],
    ].filter(([, value]) => value !== null && value !== undefined && value !== "");
    const key = JSON.stringify(rows);
    if (key === this.drawn) return;
    this.drawn = key;
    this.facts.replaceChildren(...rows.map(([word, value]) => h("div", {}, h("dt", {}, word), h("dd", {}, String(value)))));
  }

  async #restart() {
    const { name, state } = this.server;
    if (state === "ready" && !(await confirmed(`Restart ${name}?`, "What it is doing for a turn just now is lost, and may or may not have happened.", "Restart"))) return;
    this.restart.disabled = true;
    try {
      await call("POST", path(["servers", this.server.name, "restart"]));
      announce(`${this.server.name} is being restarted`);
    } catch (error) {
      toast(error.message, error.hint);
    }
    this.restart.disabled = false;
  }

  async #loadTools() {
    const { server } = this;
    const version = `${server.since}/${server.tools}`;
    if (this.loadedFor === version) return;
    this.loadedFor = version;
    if (!this.toolList.childElementCount) this.toolList.replaceChildren(h("p", { className: "quiet" }, "Loading"));
    try {
      const { tools } = await get(path(["tools"], { agent: server.agents[0] }));
      const own = tools.filter((one) => one.server === server.name);
      const hidden = server.tools - own.length;
      this.toolList.replaceChildren(
        ...own.map(toolNode),
        ...(hidden > 0 ? [h("p", { className: "quiet" }, `${count(hidden, "tool")} not shown: kept from the agent by a policy.`)] : []),
      );
    } catch (error) {
      this.loadedFor = null;
      this.toolList.replaceChildren(h("p", { className: "banner error" }, error.message));
    }
  }
}

function toolNode(tool) {
  const marks = [
    tool.readOnly && h("span", { className: "tag" }, "says it only reads"),
    tool.destructive && h("span", { className: "tag warning" }, "may destroy"),
  ];
  const words = tool.description.replace(/^\[MCP server: [^\]]*\] /, "");
  return h(
    "details",
    { className: "tool" },
    h("summary", {}, h("code", {}, tool.tool ?? tool.name), ...marks),
    h("p", { className: "tool-words", dir: "auto" }, words || "No description."),
    h("p", { className: "quiet" }, "The model calls it ", h("code", {}, tool.name)),
    h("h4", {}, "Input schema"),
    foldedText(pretty(tool.inputSchema)),
  );
}
