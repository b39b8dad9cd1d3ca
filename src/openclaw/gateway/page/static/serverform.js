/* Adding and editing MCP servers. */

import { call } from "./api.js";
import { at, propose, readConfig } from "./config.js";
import { confirmed, field, h, iconButton, inDialog } from "./dom.js";

const DEFAULTS = ["agents", "defaults", "mcp", "servers"];
const TOP = ["mcp", "servers"];
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
const HIDDEN = "[REDACTED]";
const SECRET_NAME = /key|token|secret|password|auth|credential/i;

/** The paths of a server's entries in the file. */
export function placesOf(config, name) {
  const agents = (config.agents?.list ?? []).map((_, n) => ["agents", "list", n, "mcp", "servers"]);
  return [DEFAULTS, TOP, ...agents].map((place) => [...place, name]).filter((place) => at(config, place) !== undefined);
}

/** The disabled servers, which the gateway doesn't report. */
export function disabledServers(config) {
  const named = [DEFAULTS, TOP].flatMap((place) => Object.entries(at(config, place) ?? {}));
  return named.filter(([, entry]) => entry.enabled === false).map(([name, entry]) => ({ name, entry }));
}

/** Enable or disable a server; true once that is done. */
export async function setEnabled(name, enabled) {
  const config = await readConfig();
  const changes = placesOf(config, name).map((place) => (enabled ? { path: [...place, "enabled"], remove: true } : { path: [...place, "enabled"], value: false }));
  return propose(`${enabled ? "Enable" : "Disable"} ${name}?`, changes);
}

/** Remove a server from the file; true once that is done. */
export async function removeServer(name) {
  const places = placesOf(await readConfig(), name);
  if (!places.length) throw new Error(`${name} is not in the configuration file`);
  if (!(await confirmed(`Remove ${name}?`, "The agent can no longer use its tools. Disable it instead to keep its settings.", "Remove"))) return false;
  return propose(`Remove ${name}?`, places.map((place) => ({ path: place, remove: true })));
}

/** Show the form for a new server, or for the one of this name; true once it is saved. */
export async function editServer(name = null) {
  const config = await readConfig();
  const place = name === null ? null : placesOf(config, name)[0];
  if (name !== null && !place) throw new Error(`${name} is not in the configuration file`);
  const before = place ? at(config, place) : {};
  const form = new ServerForm(name, before);
  let wanted = null;
  const work = () => {
    wanted = form.read();
    if (name === null && placesOf(config, wanted.name).length) throw new Error(`A server called ${wanted.name} already exists`);
  };
  if (!(await inDialog(name === null ? "Add an MCP server" : `Edit ${name}`, { action: "Continue", wide: true, work }, form.element))) return false;
  const root = place ?? [...(at(config, DEFAULTS) === undefined && at(config, TOP) !== undefined ? TOP : DEFAULTS), wanted.name];
  const store = async () => {
    for (const one of wanted.secrets) await call("POST", "/api/secrets", one);
  };
  const changes = place ? differences(root, before, wanted.entry) : [{ path: root, value: wanted.entry }];
  return propose(name === null ? `Add the server ${wanted.name}?` : `Change the server ${name}?`, changes, store);
}

/** Only changes are written, so that settings not shown stay the same. */
function differences(root, before, after) {
  const changes = [];
  for (const key of new Set([...SHOWN, ...Object.keys(after)])) {
    if (key === "env" || key === "headers") {
      const [old, now] = [before[key] ?? {}, after[key] ?? {}];
      for (const name of Object.keys(old)) if (!(name in now)) changes.push({ path: [...root, key, name], remove: true });
      for (const [name, value] of Object.entries(now)) if (value !== undefined && value !== old[name]) changes.push({ path: [...root, key, name], value });
    } else if (after[key] === undefined) {
      if (before[key] !== undefined) changes.push({ path: [...root, key], remove: true });
    } else if (JSON.stringify(before[key]) !== JSON.stringify(after[key])) changes.push({ path: [...root, key], value: after[key] });
  }
  return changes;
}

const SHOWN = ["command", "args", "url", "auth", "sandbox", "env", "headers"];

class ServerForm {
  constructor(name, entry) {
    this.name = name;
    this.before = entry;
    this.called = h("input", { type: "text", value: name ?? "", disabled: name !== null, autocomplete: "off", spellcheck: false, placeholder: "files" });
    this.kind = h("select", { className: "select", onchange: () => this.#kind() }, h("option", { value: "program" }, "A program on this computer"), h("option", { value: "address", selected: Boolean(entry.url) }, "An address on the network"));
    this.command = h("input", { type: "text", value: entry.command ? quoted([entry.command, ...(entry.args ?? [])]) : "", autocomplete: "off", spellcheck: false, placeholder: "npx -y @modelcontextprotocol/server-filesystem /home/me" });
    this.url = h("input", { type: "url", value: entry.url ?? "", autocomplete: "off", placeholder: "https://example.com/mcp" });
    this.auth = h("select", { className: "select" }, h("option", { value: "" }, "None, or a header below"), h("option", { value: "oauth", selected: Boolean(entry.auth) }, "In a browser (OAuth)"));
    const sandbox = typeof entry.sandbox === "string" ? entry.sandbox : entry.sandbox?.mode;
    const chosen = sandbox ?? (name === null ? "auto" : "off");
    this.sandbox = h("select", { className: "select", disabled: typeof entry.sandbox === "object" }, ...[["auto", "On: only the workspace and paths in its command"], ["strict", "Strict: only what the configuration lists"], ["off", "Off: everything that you can reach"]].map(([value, words]) => h("option", { value, selected: value === chosen }, words)));
    this.rows = h("div", { className: "pairs" });
    this.rowsTitle = h("h3", { id: "pairs-title" });
    this.program = h("div", { className: "fields" }, field("Command", this.command), field("Sandbox", this.sandbox));
    this.address = h("div", { className: "fields" }, field("Address", this.url), field("Login", this.auth));
    this.element = h(
      "div",
      { className: "fields" },
      field("Name", this.called, "Letters, digits, - and _. It becomes part of the tools' names."),
      field("Type", this.kind),
      this.program,
      this.address,
      h("div", { role: "group", "aria-labelledby": "pairs-title" }, this.rowsTitle, this.rows, h("button", { type: "button", className: "link-button", onclick: () => this.#row("", "", true) }, "Add another")),
    );
    this.#kind();
  }

  get #map() {
    return this.kind.value === "program" ? "env" : "headers";
  }

  #kind() {
    const program = this.kind.value === "program";
    this.program.hidden = !program;
    this.address.hidden = program;
    this.rowsTitle.textContent = program ? "Environment variables" : "Headers";
    this.rows.replaceChildren();
    for (const [name, value] of Object.entries(this.before[this.#map] ?? {})) this.#row(name, String(value), false);
  }

  #row(name, value, fresh) {
    const hidden = value.includes(HIDDEN);
    const key = h("input", { type: "text", value: name, "aria-label": "Name", placeholder: "Name", autocomplete: "off", spellcheck: false, disabled: !fresh, oninput: () => (secret.checked = SECRET_NAME.test(key.value)) });
    const text = h("input", { type: fresh || hidden ? "password" : "text", value: hidden ? "" : value, "aria-label": `Value of ${name || "the new one"}`, placeholder: hidden ? "unchanged" : "Value", autocomplete: "new-password", spellcheck: false });
    const secret = h("input", { type: "checkbox", checked: fresh && SECRET_NAME.test(name) });
    const row = h("div", { className: "pair" }, key, text, h("label", { className: "check" }, secret, "secret"), iconButton("close", `Remove ${name || "this one"}`, () => row.remove()));
    row.read = () => ({ name: key.value.trim(), value: text.value, secret: secret.checked, kept: hidden && !text.value });
    this.rows.append(row);
    if (fresh) key.focus();
  }

  /** The form's values; throws if they are invalid. */
  read() {
    const name = this.called.value.trim();
    if (!NAME.test(name)) throw new Error("Use only letters, digits, - and _ in the name, at most 64");
    const entry = {};
    if (this.kind.value === "program") {
      const [command, ...args] = words(this.command.value);
      if (!command) throw new Error("The command is missing");
      entry.command = command;
      if (args.length) entry.args = args;
      if (this.sandbox.disabled) entry.sandbox = this.before.sandbox;
      else if (this.sandbox.value !== "off" || this.before.sandbox) entry.sandbox = this.sandbox.value;
    } else {
      if (!URL.canParse(this.url.value) || !/^https?:/.test(this.url.value)) throw new Error("The address must start with https:// or http://");
      entry.url = this.url.value.trim();
      if (this.auth.value) entry.auth = this.before.auth ?? "oauth";
    }
    const secrets = [];
    const pairs = {};
    for (const one of [...this.rows.children].map((row) => row.read()).filter((row) => row.name)) {
      if (one.kept) pairs[one.name] = undefined;
      else if (one.secret && !one.value.includes("secret://")) {
        const scheme = /^(Bearer|Basic|Token) +/i.exec(one.value)?.[0] ?? "";
        const called = `${name}_${one.name}`.replace(/[^A-Za-z0-9_.-]/g, "_");
        secrets.push({ name: called, value: one.value.slice(scheme.length) });
        pairs[one.name] = `${scheme}secret://store/${called}`;
      } else pairs[one.name] = one.value;
    }
    if (Object.keys(pairs).length) entry[this.#map] = pairs;
    return { name, entry, secrets };
  }
}

/** A command line split into words; quotes keep spaces. */
export function words(text) {
  const found = text.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|((?:[^\s"'\\]|\\.)+)/g);
  const out = [];
  let end = -1;
  for (const one of found) {
    const word = one[1]?.replace(/\\(.)/g, "$1") ?? one[2] ?? one[3].replace(/\\(.)/g, "$1");
    if (one.index === end) out[out.length - 1] += word;
    else out.push(word);
    end = one.index + one[0].length;
  }
  return out;
}

function quoted(list) {
  return list.map((one) => (/^[^\s"'\\]+$/.test(one) ? one : `"${one.replace(/(["\\])/g, "\\$1")}"`)).join(" ");
}
