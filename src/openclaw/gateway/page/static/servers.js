/* The MCP servers: their state, what they offer, and actions. */

import { call, get, path, stream } from "./api.js";
import { at, readConfig } from "./config.js";
import { announce, bar, confirmed, emptyState, h, icon, toast, Trouble } from "./dom.js";
import { anchor } from "./markdown.js";
import { PinBox } from "./pins.js";
import { foldedText } from "./pieces.js";
import { disabledServers, editServer, placesOf, removeServer, setEnabled } from "./serverform.js";
import { count, duration, pretty } from "./words.js";

const WORDS = {
  ready: "Ready", connecting: "Connecting", disconnected: "Not connected", error: "Waiting to retry",
  failed: "Failed", needs_login: "Needs login", disabled: "Disabled", closed: "Closed",
};

/** States in which a server needs attention. */
export const TROUBLED = new Set(["error", "failed", "needs_login"]);

function loginSteps(name, url) {
  const field = h("input", { type: "url", required: true, autocomplete: "off", spellcheck: false, "aria-label": "Address that the browser ended at" });
  const send = async (event) => {
    event.preventDefault();
    try {
      await call("POST", path(["servers", name, "login", "address"]), { address: field.value });
    } catch (error) {
      toast(error.message, error.hint);
    }
  };
  return [
    h("p", {}, anchor(url, ["Open the login page"]) ?? url, ". This page notices when you are done."),
    h("form", { className: "login-address", onsubmit: send }, h("p", { className: "quiet" }, "If your browser is on another computer than the gateway, it ends at an address that it can't open. Paste that address here:"), field, h("button", { type: "submit", className: "button small" }, "Finish login")),
  ];
}
const KINDS = { stdio: "program", http: "address (HTTP)", sse: "address (SSE)" };
const PINNED = { pinned: "as you accepted them" };
const MANY = 5; // from this many servers on, those that need attention are listed on top

export class ServersView {
  constructor(app) {
    this.app = app;
    this.cards = new Map();
    this.shown = false;
    this.summary = h("p", { className: "quiet", role: "status" });
    this.trouble = new Trouble();
    this.troubled = h("p", { className: "troubled", hidden: true });
    this.list = h("div", { className: "cards" });
    this.off = h("div", { className: "cards" });
    const buttons = [
      h("button", { type: "button", className: "button small", onclick: () => this.act(() => editServer()) }, icon("plus"), "Add"),
      h("button", { type: "button", className: "button small", onclick: (event) => this.#reload(event.currentTarget), title: "Read openclaw.json again" }, "Reload"),
    ];
    this.element = h(
      "section",
      { className: "view", "aria-label": "MCP servers" },
      bar(app, "MCP servers", ...(app.admin ? buttons : [])),
      h("div", { className: "panel" }, this.trouble.element, this.summary, this.troubled, this.list, this.off),
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

  /** Run a button's action; errors are shown. */
  async act(work) {
    try {
      await work();
    } catch (error) {
      toast(error.message, error.hint);
    }
    this.refresh(0);
  }

  async #fetch() {
    try {
      const [status, { pins }, config] = await Promise.all([get("/api/status"), get("/api/pins"), this.app.admin ? readConfig() : {}]);
      this.config = config;
      this.#draw(status, new Map(pins.map((one) => [one.server, one.changes])));
      this.#drawOff(disabledServers(config));
    } catch (error) {
      this.trouble.say(error.message);
    }
  }

  #draw(status, pins) {
    this.trouble.say(status.reloadError && `The changed configuration is invalid, so the previous one is still in use. ${status.reloadError}`);
    const ready = status.servers.filter((one) => one.state === "ready").length;
    this.summary.textContent = status.servers.length ? `${ready} of ${count(status.servers.length, "server")} ready · OpenClaw ${status.version} · ${status.config}` : "";
    this.#pointOut(status.servers, pins);
    if (!status.servers.length) {
      this.list.replaceChildren(emptyState("servers", "No MCP servers yet", "Add one here or on the command line; the agent can use its tools at once.", h("code", {}, "openclaw mcp add NAME -- COMMAND")));
      this.cards.clear();
      return;
    }
    const before = this.cards;
    this.cards = new Map();
    for (const server of status.servers) {
      const id = JSON.stringify([server.name, server.agents, server.sessions]);
      const card = before.get(id) ?? new ServerCard(this);
      card.update(server, pins.get(server.name) ?? []);
      this.cards.set(id, card);
    }
    const wanted = [...this.cards.values()].map((card) => card.element);
    // Remaining nodes are not moved, so that no click, focus or open fold is lost.
    for (const node of [...this.list.children]) if (!wanted.includes(node)) node.remove();
    wanted.forEach((node, n) => this.list.children[n] !== node && this.list.insertBefore(node, this.list.children[n] ?? null));
  }

  /** Disabled servers, each with a button to enable it. */
  #drawOff(servers) {
    const key = JSON.stringify(servers);
    if (key === this.drawnOff) return;
    this.drawnOff = key;
    const button = (words, label, act) => h("button", { type: "button", className: "button small", "aria-label": label, onclick: () => this.act(act) }, words);
    this.off.replaceChildren(
      ...servers.map(({ name, entry }) =>
        h(
          "article",
          { className: "card server", "data-state": "disabled" },
          h("div", { className: "card-head" }, h("h2", { className: "card-title" }, name), h("span", { className: "badge" }, WORDS.disabled)),
          h("p", { className: "quiet" }, entry.url ?? [entry.command, ...(entry.args ?? [])].join(" ")),
          h("div", { className: "card-buttons" }, button("Enable", `Enable ${name}`, () => setEnabled(name, true)), button("Edit", `Edit ${name}`, () => editServer(name)), button("Remove", `Remove ${name}`, () => removeServer(name))),
        ),
      ),
    );
  }

  /** With many servers, link to those that need attention. */
  #pointOut(servers, pins) {
    const waiting = servers.filter((one) => TROUBLED.has(one.state) || pins.get(one.name)?.length);
    const key = waiting.map((one) => `${one.name} ${one.state}`).join();
    if (key === this.pointed) return;
    this.pointed = key;
    this.troubled.hidden = waiting.length === 0 || servers.length < MANY;
    const links = waiting.map((one) => h("button", { type: "button", className: "link-button", onclick: () => this.#goTo(one.name) }, one.name));
    this.troubled.replaceChildren("Need attention: ", ...links);
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
      announce(changed ? "The new configuration is now in use" : "The configuration has not changed");
      button.textContent = changed ? "Reloaded" : "Nothing has changed";
      setTimeout(() => (button.textContent = "Reload"), 2500);
    } catch (error) {
      toast(error.message, error.hint);
    }
    button.disabled = false;
    this.refresh(0);
  }
}

class ServerCard {
  constructor(view) {
    this.view = view;
    this.name = h("h2", { className: "card-title", tabIndex: -1 });
    this.badge = h("span", { className: "badge" });
    this.command = h("p", { className: "server-command", hidden: true });
    this.facts = h("dl", { className: "facts" });
    this.details = h("details", { className: "server-details" }, h("summary", {}, "Details"), this.facts);
    this.error = h("div", { className: "banner error", hidden: true });
    this.notes = h("ul", { className: "left-out", hidden: true });
    this.pins = new PinBox(() => view.refresh(0), view.app.admin);
    this.restart = h("button", { type: "button", className: "button small", onclick: () => this.#restart() }, icon("restart"), "Restart");
    this.login = h("button", { type: "button", className: "button small primary", hidden: true, onclick: () => this.#logIn() }, icon("leave"), "Log in");
    this.loginBox = h("div", { className: "banner warning", role: "status", hidden: true });
    const button = (words, act) => h("button", { type: "button", className: "button small", onclick: () => view.act(() => act(this.server.name)) }, words);
    this.edit = button("Edit", editServer);
    this.disable = button("Disable", (name) => setEnabled(name, false));
    this.remove = button("Remove", removeServer);
    this.buttons = h("div", { className: "card-buttons" }, this.login, this.restart, this.edit, this.disable, this.remove);
    this.toolList = h("div", { className: "tools" });
    this.toolsTitle = h("summary", {});
    this.tools = h("details", { className: "tools-fold", ontoggle: () => this.tools.open && this.#loadTools() }, this.toolsTitle, this.toolList);
    this.element = h(
      "article",
      { className: "card server" },
      h("div", { className: "card-head" }, this.name, this.badge),
      this.command,
      this.error,
      this.loginBox,
      this.notes,
      this.pins.element,
      this.tools,
      this.details,
      view.app.admin ? this.buttons : null,
    );
    this.loadedFor = null;
  }

  update(server, changes) {
    this.server = server;
    this.received = Date.now();
    this.name.textContent = server.name;
    this.badge.textContent = WORDS[server.state] ?? server.state;
    this.element.dataset.state = server.state;
    for (const one of [this.restart, this.login, this.edit, this.disable, this.remove]) one.setAttribute("aria-label", `${one.textContent} ${one === this.login ? "to " : ""}${server.name}`);
    const entry = startOf(this.view.config, server.name);
    this.command.hidden = !entry;
    this.command.replaceChildren(entry?.url ? entry.url : h("code", {}, entry ? [entry.command, ...(entry.args ?? [])].join(" ") : ""));
    this.login.hidden = server.state !== "needs_login";
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
      ["Kind", KINDS[server.transport] ?? server.transport],
      ["Agents", server.agents.join(", ")],
      ["Software", made],
      ["Protocol", server.protocol],
      ["Process", server.pid],
      ["Up", server.uptimeMs === null ? null : duration(Math.max(1000, Math.floor((server.uptimeMs + passed) / 1000) * 1000))],
      ["Next attempt", retry === null || server.state === "ready" ? null : `in ${Math.ceil(retry / 1000)} s`],
      ["Restarts", server.restarts || null],
      ["Resources", server.resources || null],
      ["Prompts", server.prompts || null],
      ["Tool descriptions", PINNED[server.pin] ?? server.pin],
    ].filter(([, value]) => value !== null && value !== undefined && value !== "");
    const key = JSON.stringify(rows);
    if (key === this.drawn) return;
    this.drawn = key;
    this.facts.replaceChildren(...rows.map(([word, value]) => h("div", {}, h("dt", {}, word), h("dd", {}, String(value)))));
  }

  async #restart() {
    const { name, state } = this.server;
    if (state === "ready" && !(await confirmed(`Restart ${name}?`, "Calls that are running now will be lost, and may or may not have taken effect.", "Restart"))) return;
    this.restart.disabled = true;
    try {
      await call("POST", path(["servers", this.server.name, "restart"]));
      announce(`${this.server.name} is being restarted`);
    } catch (error) {
      toast(error.message, error.hint);
    }
    this.restart.disabled = false;
  }

  /** The page says when the login is done. A browser on another computer ends at an address to paste. */
  async #logIn() {
    const { name } = this.server;
    this.login.disabled = true;
    this.loginBox.hidden = false;
    this.loginBox.replaceChildren(h("span", { className: "spinner" }), " Asking the server where to log in");
    try {
      for await (const [kind, data] of stream("POST", path(["servers", name, "login"]), { body: {} })) {
        if (kind === "error") throw new Error(data.message);
        if (kind === "address") this.loginBox.replaceChildren(...loginSteps(name, data.url));
        if (kind === "problem") toast(data.message, "Paste the whole address that the browser ended at.");
        if (kind === "done") announce(`Logged in to ${name}`);
      }
    } catch (error) {
      toast(error.message, error.hint);
    }
    this.loginBox.hidden = true;
    this.login.disabled = false;
    this.view.refresh(0);
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

/** A server's entry in the configuration, if it can be seen. */
function startOf(config, name) {
  const [place] = placesOf(config ?? {}, name);
  const entry = place ? at(config, place) : null;
  return entry?.url || entry?.command ? entry : null;
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
    h("p", { className: "part" }, "Input schema"),
    foldedText(pretty(tool.inputSchema)),
  );
}
