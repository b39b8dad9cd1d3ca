/* The agent's settings: model, rules, approvals, secrets. */

import { call, get, path } from "./api.js";
import { at, propose, readConfig } from "./config.js";
import { anchor } from "./markdown.js";
import { announce, bar, confirmed, field, h, icon, iconButton, inDialog, toast, Trouble } from "./dom.js";

const EXEC = { off: "Off: no commands", ask: "Ask before each new command", allow: "Allow every command" };
const LISTS = {
  ask: ["Ask me first", "The agent asks you before each call of these tools."],
  deny: ["Never", "The agent never sees these tools. This overrides every other list."],
  allow: ["Only these", "If this list is empty, every tool that isn't under “Never” is allowed."],
};

export class SettingsView {
  constructor(app) {
    this.app = app;
    this.trouble = new Trouble();
    this.tools = h("datalist", { id: "tool-names" });
    this.models = h("datalist", { id: "model-names" });
    this.sections = {
      model: section("Model", "The model that the agent uses."),
      providers: section("Providers and keys", "Where models come from. A key is checked and stored as a secret; this page never shows it."),
      rules: section("Tool rules", "What the agent may do. Names can contain *, as in mcp_files_*."),
      approvals: section("Remembered approvals", "What you allowed for longer than one call. Revoke an approval to be asked again."),
      secrets: section("Secrets", "Keys and passwords, stored in the system keyring or a private file. The configuration refers to them by name; this page never shows them."),
      notices: section("Notifications", "Tell you when a question is waiting and this page isn't in view."),
    };
    this.element = h("section", { className: "view", "aria-label": "Settings" }, bar(app, "Settings"), h("div", { className: "panel" }, this.trouble.element, ...Object.values(this.sections).map((one) => one.element), this.tools, this.models));
  }

  async show() {
    await this.#fetch();
  }

  async #fetch() {
    await this.trouble.during(async () => {
      const [config, { secrets }, { approvals }, { tools }, { providers }] = await Promise.all([readConfig(), get("/api/secrets"), get("/api/approvals"), get("/api/tools"), get("/api/providers")]);
      this.config = config;
      this.tools.replaceChildren(...tools.map((one) => one.name).map((value) => h("option", { value })));
      this.#model();
      this.#providers(providers, secrets);
      this.#rules();
      this.#approvals(approvals);
      this.#secrets(secrets);
      this.#notices();
    });
  }

  /** Run a button's action, and show the result. */
  async #act(work) {
    try {
      await work();
      await this.#fetch();
    } catch (error) {
      toast(error.message, error.hint); // keep what was typed
    }
  }

  // ---- the model

  /** Providers that need a key: checked, stored as a secret, never shown. */
  #providers(providers, secrets) {
    const keys = at(this.config, ["models", "providers"]) ?? {};
    const rows = providers.map((one) => {
      const set = keys[one.name]?.apiKey !== undefined || secrets.some((secret) => secret.stored && secret.name === one.secret);
      return h("li", {}, h("div", {}, h("strong", {}, one.name), h("small", { className: "quiet" }, set ? "has a key" : "no key yet")), h("button", { type: "button", className: "button small", "aria-label": `${set ? "Replace" : "Set"} the key of ${one.name}`, onclick: () => this.#act(() => this.#setKey(one)) }, set ? "Replace the key" : "Set a key"));
    });
    this.sections.providers.fill(h("ul", { className: "rows" }, ...rows));
  }

  async #setKey({ name, model, keyPage }) {
    const key = h("input", { type: "password", autocomplete: "new-password", spellcheck: false });
    let stored = null;
    const work = async () => {
      if (!key.value.trim()) throw new Error("The key is missing");
      stored = await call("POST", path(["providers", name, "key"]), { key: key.value.trim() });
    };
    const help = h("p", { className: "dialog-detail" }, "Create one at ", anchor(keyPage, [keyPage]) ?? keyPage, ". It is checked, stored as a secret, and never shown again.");
    if (!(await inDialog(`Key of ${name}`, { action: "Check and store", work }, help, field("Key", key)))) return;
    if (stored.unchecked) toast("The key is stored, but could not be checked", stored.unchecked);
    else announce("The key works and is stored");
    const changes = [{ path: ["models", "providers", name, "apiKey"], value: stored.reference }];
    const primary = at(this.config, ["agents", "defaults", "model"]);
    if (primary === undefined) changes.push({ path: ["agents", "defaults", "model"], value: model });
    await propose(`Use this key for ${name}?`, changes);
  }

  #model() {
    const choices = [...new Set(this.app.agents.flatMap((one) => [one.model, ...(one.settings.modelChoices ?? [])]).filter(Boolean))];
    this.models.replaceChildren(...choices.map((value) => h("option", { value })));
    const own = (this.config.agents?.list ?? []).map((one, n) => [one.name || one.id, ["agents", "list", n]]).filter(([, place]) => at(this.config, [...place, "model"]) !== undefined);
    const rows = [[own.length ? "All other agents" : "Model of every agent", ["agents", "defaults"]], ...own];
    this.sections.model.fill(...rows.map(([words, place]) => this.#modelRow(words, [...place, "model"])));
  }

  #modelRow(words, place) {
    const written = at(this.config, place);
    const primary = typeof written === "object" ? written?.primary : written;
    const input = h("input", { type: "text", value: primary ?? "", placeholder: "provider/model", autocomplete: "off", spellcheck: false });
    input.setAttribute("list", "model-names");
    const save = h("button", { type: "submit", className: "button" }, "Change");
    return h(
      "form",
      {
        className: "line",
        onsubmit: (event) => {
          event.preventDefault();
          const value = input.value.trim();
          const change = typeof written === "object" ? { path: [...place, "primary"], value } : { path: place, value };
          this.#act(() => value && propose(`Use ${value}?`, [change]));
        },
      },
      field(words, input, "As provider/model, such as anthropic/claude-sonnet-5-5."),
      save,
    );
  }

  // ---- rules

  #rules() {
    const exec = at(this.config, ["tools", "exec"]);
    const known = typeof exec === "string" || exec === undefined;
    const select = h("select", { className: "select", disabled: !known, onchange: () => this.#act(() => propose("Change what commands may do?", [{ path: ["tools", "exec"], value: select.value }])) }, ...Object.entries(EXEC).map(([value, words]) => h("option", { value, selected: value === (exec ?? "ask") }, words)));
    if (!known) select.prepend(h("option", { selected: true }, "Configured in detail in openclaw.json"));
    this.sections.rules.fill(field("Shell commands", select), ...Object.entries(LISTS).map(([name, [words, help]]) => this.#ruleList(name, words, help)));
  }

  #ruleList(name, words, help) {
    const place = ["tools", name];
    const rules = at(this.config, place) ?? [];
    const input = h("input", { type: "text", placeholder: "Tool name", "aria-label": `Add to “${words}”`, autocomplete: "off", spellcheck: false });
    input.setAttribute("list", "tool-names");
    const add = (event) => {
      event.preventDefault();
      const value = input.value.trim();
      if (value) this.#act(() => propose(`Add ${value} to “${words}”?`, [{ path: place, value, append: true }]));
    };
    const chips = rules.map((rule, n) => h("li", { className: "chip" }, h("code", {}, rule), iconButton("close", `Remove ${rule} from “${words}”`, () => this.#act(() => propose(`Remove ${rule} from “${words}”?`, [{ path: [...place, n], remove: true }])))));
    return h(
      "div",
      { className: "rule-list" },
      h("h3", {}, words),
      h("p", { className: "quiet" }, help),
      chips.length ? h("ul", { className: "chips" }, ...chips) : null,
      h("form", { className: "line", onsubmit: add }, input, h("button", { type: "submit", className: "button" }, "Add")),
    );
  }

  // ---- approvals

  #approvals(session) {
    const agents = (this.config.agents?.list ?? []).map((one, n) => [one.name || one.id, ["agents", "list", n, "tools", "approved"]]);
    const always = [["every agent", ["tools", "approved"]], ["every agent", ["agents", "defaults", "tools", "approved"]], ...agents].flatMap(([whose, place]) => (at(this.config, place) ?? []).map((rule, n) => ({ rule, note: `always, for ${whose}`, path: [...place, n] })));
    const sources = (at(this.config, ["dataflow", "allow"]) ?? []).map((one, n) => ({ rule: one.tool, note: `always, with values from ${one.source}`, path: ["dataflow", "allow", n] }));
    const rows = [
      ...[...always, ...sources].map((one) => [one, () => propose(`Ask again before ${one.rule}?`, [{ path: one.path, remove: true }])]),
      ...session.map((one) => [{ rule: one.rule, note: `for the rest of a chat (${one.sessionKey})` }, () => call("POST", "/api/approvals/revoke", one).then(() => announce("Revoked"))]),
    ];
    const none = h("p", { className: "quiet" }, "None yet. Calls that you allow “always” or “in this session” appear here.");
    const list = rows.map(([{ rule, note }, revoke]) => h("li", {}, h("div", {}, h("code", {}, rule), h("small", { className: "quiet" }, note)), h("button", { type: "button", className: "button small", "aria-label": `Revoke ${rule}, ${note}`, onclick: () => this.#act(revoke) }, "Revoke")));
    this.sections.approvals.fill(list.length ? h("ul", { className: "rows" }, ...list) : none);
  }

  // ---- secrets

  #secrets(secrets) {
    const list = secrets.map(({ name, stored, usedBy }) => {
      const note = usedBy.length ? `used by ${usedBy.join(", ")}` : "not used by the configuration";
      return h(
        "li",
        {},
        h("div", {}, h("code", {}, name), stored ? null : h("span", { className: "tag warning" }, "missing"), h("small", { className: "quiet" }, note)),
        h("div", { className: "row-buttons" }, h("button", { type: "button", className: "button small", "aria-label": `${stored ? "Replace" : "Set"} ${name}`, onclick: () => this.#act(() => storeSecret(name)) }, stored ? "Replace" : "Set"), stored && h("button", { type: "button", className: "button small", "aria-label": `Remove ${name}`, onclick: () => this.#act(() => this.#removeSecret(name, usedBy)) }, "Remove")),
      );
    });
    this.sections.secrets.fill(list.length ? h("ul", { className: "rows" }, ...list) : h("p", { className: "quiet" }, "No secrets are stored."), h("button", { type: "button", className: "button", onclick: () => this.#act(() => storeSecret()) }, icon("plus"), "Add a secret"));
  }

  async #removeSecret(name, usedBy) {
    const detail = usedBy.length ? `It is used by ${usedBy.join(", ")}, which will stop working without it.` : "The configuration doesn't use it.";
    if (!(await confirmed(`Remove ${name}?`, detail, "Remove"))) return;
    await call("DELETE", path(["secrets", name]));
    announce("Removed");
  }

  // ---- notifications

  #notices() {
    const state = "Notification" in window ? Notification.permission : "unsupported";
    const words = { granted: "On: this browser tells you when an answer is needed.", denied: "Off: this browser blocks notifications from this page. You can change that in its settings for this site.", unsupported: "This browser doesn't support notifications." };
    const ask = h("button", { type: "button", className: "button", onclick: () => Notification.requestPermission().then(() => this.#notices()) }, "Notify me when an answer is needed");
    this.sections.notices.fill(state === "default" ? ask : h("p", { className: "quiet" }, words[state]));
  }
}

async function storeSecret(name = null) {
  const called = h("input", { type: "text", value: name ?? "", disabled: name !== null, autocomplete: "off", spellcheck: false, placeholder: "GITHUB_TOKEN" });
  const value = h("input", { type: "password", autocomplete: "new-password", spellcheck: false });
  const work = async () => {
    if (!value.value) throw new Error("The value is missing");
    await call("POST", "/api/secrets", { name: called.value.trim(), value: value.value });
  };
  const help = "It will be stored and never shown again.";
  if (await inDialog(name === null ? "Add a secret" : `Set ${name}`, { action: "Store", work }, h("div", { className: "fields" }, field("Name", called, "The configuration refers to it as secret://store/NAME."), field("Value", value, help)))) announce("Stored");
}

function section(title, help) {
  const body = h("div", { className: "section-body" });
  const element = h("article", { className: "card" }, h("div", {}, h("h2", {}, title), h("p", { className: "quiet" }, help)), body);
  return { element, fill: (...nodes) => body.replaceChildren(...nodes.filter(Boolean)) };
}
