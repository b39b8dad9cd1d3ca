/* One conversation: what was said before, and the turn that runs now. It lives on while hidden. */

import { call, get, path, stream } from "./api.js";
import { asMedia } from "./attachments.js";
import { announce, h } from "./dom.js";
import { StreamedText, Thinking, ToolCall, mediaNode, note, userMessage } from "./pieces.js";
import { count } from "./words.js";

const PAGE = 100; // entries that are fetched at once

/** `change` is dispatched when a turn begins or ends; `grow` when there is more to see. */
export class Conversation extends EventTarget {
  constructor(agent, key, { id = null, title = null } = {}) {
    super();
    Object.assign(this, { agent, key, id, title });
    this.log = h("div", { className: "log", role: "log", "aria-label": "Conversation" });
    this.earlier = h("button", { type: "button", className: "button small earlier", hidden: true, onclick: () => this.#loadEarlier() }, "Show earlier messages");
    this.element = h("div", { className: "conversation" }, this.earlier, this.log);
    this.first = 1;
    this.last = 0;
    this.calls = new Map(); // of turns that another client runs
    this.turn = null;
    this.running = false;
  }

  get isEmpty() {
    return this.log.childElementCount === 0;
  }

  // ---- what was said before

  /** Fetch the latest part of the transcript. */
  async load() {
    const { session, entries } = await this.#entries({ limit: PAGE });
    this.id = session.id;
    this.title = session.title;
    this.#take(entries);
  }

  /** Fetch what came since, from whoever else writes to this session. */
  async refresh() {
    if (this.running || this.id === null) return;
    await this.#catchUp();
  }

  async #loadEarlier() {
    const from = Math.max(0, this.first - 1 - PAGE);
    const { entries } = await this.#entries({ after: from, limit: this.first - 1 - from });
    const part = h("div");
    const calls = new Map();
    for (const entry of entries) drawEntry(entry, part, calls);
    for (const one of calls.values()) one.abandon();
    this.log.prepend(...part.childNodes);
    this.first = entries[0]?.seq ?? 1;
    this.earlier.hidden = this.first <= 1;
  }

  #entries(query) {
    return get(path(["sessions", this.id ?? this.key], { agent: this.agent, ...query }));
  }

  /** Draw new entries, except for those of a turn that was drawn as it ran. */
  #take(entries, drawn = null) {
    for (const entry of entries) {
      if (entry.seq <= this.last) continue; // another refresh was quicker
      if (this.last === 0) this.first = entry.seq;
      this.last = entry.seq;
      if (drawn === null || entry.turn !== drawn) drawEntry(entry, this.log, this.calls);
    }
    this.earlier.hidden = this.first <= 1;
  }

  // ---- the turn that runs

  /** Send a message and show what comes back, until the turn is over. */
  async send(text, attached) {
    const message = userMessage(text, { attached });
    this.log.append(message);
    this.running = true;
    this.turn = new Turn(this);
    this.#changed();
    this.grew();
    try {
      const media = await Promise.all(attached.map(asMedia));
      await this.turn.run({ text, media, sessionKey: this.key, agent: this.agent, origin: "page" });
      return true;
    } catch (error) {
      this.turn.failed(error);
      return this.turn.accepted || (message.remove(), false);
    } finally {
      const drawn = this.turn.id;
      this.turn.close();
      this.turn = null;
      // Still counted as running: until it is known which entries are of this turn, none is drawn.
      if (drawn !== null) await this.#catchUp(drawn).catch(() => {});
      this.running = false;
      this.#changed();
      this.grew();
    }
  }

  async #catchUp(drawn = null) {
    const { session, entries } = await this.#entries({ after: this.last, limit: 500 });
    this.id = session.id;
    this.title = session.title;
    if (this.running && drawn === null) return; // a turn has begun meanwhile, and looks after itself
    this.#take(entries, drawn);
    if (entries.length) this.grew();
  }

  /** Stop the turn. */
  async cancel() {
    await this.turn?.cancel();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }

  /** Say that there is more to see. */
  grew() {
    this.dispatchEvent(new Event("grow"));
  }
}

/** Draws the events of one turn. */
class Turn {
  constructor(conversation) {
    this.conversation = conversation;
    this.accepted = false;
    this.id = null;
    this.abort = new AbortController();
    this.wait = h("div", { className: "waiting", "aria-label": "Working" }, h("i"), h("i"), h("i"));
    this.element = h("article", { className: "message agent", "aria-label": "OpenClaw", "aria-busy": "true" }, this.wait);
    conversation.log.append(this.element);
    this.calls = new Map();
    this.text = null;
    this.thinking = null;
  }

  async run(body) {
    for await (const [name, data] of stream("POST", "/api/messages", { body, signal: this.abort.signal })) {
      this[`on_${name}`]?.(data);
      this.conversation.grew();
      if (name === "reply") return;
      if (name === "error") throw Object.assign(new Error(data.message), { kind: data.type, hint: data.hint ?? "" });
    }
    throw Object.assign(new Error("The connection was lost before the answer was complete"), { hint: "What was done so far is in the session." });
  }

  async cancel() {
    this.wait.classList.add("stopping");
    if (this.id === null) this.abort.abort();
    else await call("POST", path(["turns", this.id, "cancel"]));
  }

  #put(node) {
    this.wait.before(node);
  }

  on_accepted(data) {
    this.accepted = true;
    this.id = data.turn;
  }

  on_text_delta({ text }) {
    this.thinking = null;
    if (this.text === null) {
      if (!text.trim()) return;
      this.text = new StreamedText();
      this.#put(this.text.element);
    }
    this.text.add(text);
  }

  on_thinking_delta({ text }) {
    if (this.thinking === null) {
      this.thinking = new Thinking();
      this.#put(this.thinking.element);
    }
    this.thinking.add(text);
  }

  on_block_reply({ blocks }) {
    const words = blocks.filter((one) => one.type === "text").map((one) => one.text).join("\n");
    this.#settle(words);
  }

  on_tool_started({ callId, label, name, arguments: args }) {
    this.#settle();
    const one = new ToolCall(label, args, name);
    this.calls.set(callId, one);
    this.#put(one.element);
    announce(`${label} is running`);
  }

  on_tool_progress({ callId, message }) {
    this.calls.get(callId)?.progress(message);
  }

  on_tool_finished({ callId, name, result, durationMs }) {
    if (!this.calls.has(callId)) this.on_tool_started({ callId, name, label: name, arguments: {} });
    this.calls.get(callId).finish(result, durationMs, this.conversation.agent);
  }

  on_notice({ level, message }) {
    this.#put(note(message, level));
  }

  on_reply({ text, media, outcome, usage }) {
    this.#settle(text);
    for (const one of media) this.#put(mediaNode(one, { agent: this.conversation.agent, eager: true }));
    if (outcome === "limit") this.#put(note("This turn reached one of its limits.", "warning"));
    const tokens = usage.inputTokens + usage.outputTokens;
    if (tokens) this.#put(h("small", { className: "usage" }, `${tokens.toLocaleString()} tokens · ${count(usage.requests, "request")}`));
    announce("The answer is complete");
  }

  /** The text that is being written is over; `text` is what it says, where that is known. */
  #settle(text = this.text?.text ?? "") {
    this.thinking = null;
    if (this.text === null && text.trim()) {
      this.text = new StreamedText();
      this.#put(this.text.element);
    }
    this.text?.finish(text);
    this.text = null;
  }

  failed(error) {
    this.#settle();
    const stopped = error.kind === "Cancelled" || error.name === "AbortError";
    if (stopped) this.#put(note("Stopped."));
    else this.#put(note(error.hint ? `${error.message}. ${error.hint}` : error.message, "error"));
  }

  close() {
    this.#settle();
    this.wait.remove();
    for (const one of this.calls.values()) one.abandon();
    this.element.removeAttribute("aria-busy");
    if (this.element.childElementCount === 0) this.element.append(note("There was nothing to say."));
  }
}

// ---- a transcript's entries

const ENDINGS = { turn_cancelled: ["Stopped.", "info"], turn_error: ["This turn failed", "error"], turn_lost: ["The program ended during this turn.", "warning"] };

function drawEntry({ kind, data, text, at, callId }, into, calls) {
  if (kind === "user_message") {
    const labels = (data.media ?? []).map((one) => one.name ?? one.label);
    into.append(userMessage(data.text ?? text, { labels, at, origin: data.origin }));
  } else if (kind === "assistant_message") {
    if (!(data.text ?? "").trim()) return;
    const body = new StreamedText();
    body.finish(data.text);
    agentPart(into).append(body.element);
  } else if (kind === "tool_call") {
    const one = new ToolCall(shownTool(data.name), data.arguments, data.name);
    calls.set(callId, one);
    agentPart(into).append(one.element);
  } else if (kind === "tool_result") {
    calls.get(callId)?.finishFromEntry(data);
  } else if (kind === "compaction") {
    into.append(h("p", { className: "divider" }, h("span", {}, "Earlier messages were summarised for the model")));
  } else if (kind === "notice") {
    agentPart(into).append(note(data.message ?? text, data.level ?? "info"));
  } else if (kind.startsWith("turn_") && kind !== "turn_started") {
    for (const one of calls.values()) one.abandon();
    calls.clear();
    if (!(kind in ENDINGS)) return;
    const [words, level] = ENDINGS[kind];
    const detail = kind === "turn_error" && (data.detail || text);
    agentPart(into).append(note(detail ? `${words}: ${detail}` : words, level));
  }
}

/** The agent's message that is being drawn: everything between two messages of the person. */
function agentPart(into) {
  const last = into.lastElementChild;
  if (last?.classList.contains("agent")) return last;
  const part = h("article", { className: "message agent", "aria-label": "OpenClaw" });
  into.append(part);
  return part;
}

function shownTool(name) {
  return name.startsWith("mcp_") ? `MCP: ${name.slice(4)}` : name;
}
