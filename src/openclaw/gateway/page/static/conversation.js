/* One conversation: its history and the running turn. It stays alive while hidden. */

import { call, get, path, stream } from "./api.js";
import { asMedia, fetched } from "./attachments.js";
import { announce, copyButton, h, iconButton } from "./dom.js";
import { StreamedText, Thinking, ToolCall, addNote, answerFoot, fixFor, handedMedia, keptMedia, mediaNode, note, userMessage } from "./pieces.js";
import { planNode } from "./plan.js";
import { Question, questionNode } from "./questions.js";
import { WaitingBox } from "./waiting.js";
import { nameOf } from "./words.js";

const MOST_ASKED = 10_000; // characters of a server's question that the gateway passes on
const PAGE = 100; // entries fetched at once

/**
 * The person's message in a turn: enough to show it, resend it and go back to it. `seq` is its number in
 * the transcript, once known.
 */
class Asked {
  constructor(conversation, text, { attached = [], media = [], seq = null, ...shown } = {}) {
    Object.assign(this, { conversation, text, attached, media, seq });
    const actions = [copyButton(() => text), iconButton("edit", "Edit and ask again", () => this.#tell("edit"), { className: "copy" })];
    this.element = userMessage(text, { attached, actions, labels: media.map(nameOf), ...shown });
    const list = this.element.querySelector(".attached");
    if (!attached.length) media.forEach((one, n) => list.children[n].replaceChildren(keptMedia(one, conversation.mediaPath)));
  }

  /** Its attachments, ready to be sent again. */
  async attachments() {
    if (this.attached.length) return this.attached;
    const kept = this.media.filter((one) => one.digest);
    return Promise.all(kept.map((one) => fetched(one, this.conversation.mediaPath(one.digest))));
  }

  /** The buttons below its answer. */
  buttons(textOf) {
    return [copyButton(textOf), iconButton("restart", "Answer again", () => this.#tell("regenerate"), { className: "copy" })];
  }

  retry() {
    return h("button", { type: "button", className: "button small", onclick: () => this.#tell("retry") }, "Retry");
  }

  #tell(name) {
    this.conversation.dispatchEvent(new CustomEvent(name, { detail: this }));
  }
}

/**
 * Dispatches `change` when a turn begins, ends or waits for an answer; `grow` when there is more to see;
 * `edit`, `regenerate` and `retry` when the person requests that for a message.
 */
export class Conversation extends EventTarget {
  constructor(agent, key, { id = null, title = null, folder = null } = {}) {
    super();
    Object.assign(this, { agent, key, id, title, folder });
    this.model = ""; // the agent's own
    this.queue = []; // messages written while a turn runs
    this.asks = new Map(); // what was asked, by turn
    this.handed = new Map(); // what tools returned in the turn being read, by call
    this.mediaPath = (digest) => path(["sessions", this.id ?? this.key, "media", digest], { agent: this.agent });
    this.log = h("div", { className: "log", role: "log", "aria-label": "Conversation" });
    this.earlier = h("button", { type: "button", className: "button small earlier", hidden: true, onclick: () => this.#loadEarlier() }, "Show earlier messages");
    this.waitingBox = new WaitingBox(() => Conversation.questions?.look());
    this.element = h("div", { className: "conversation" }, h("h2", { className: "unseen" }, "Conversation"), this.earlier, this.log, this.waitingBox.element);
    this.first = 1;
    this.last = 0;
    this.calls = new Map(); // of turns that another client runs
    this.live = new Map(); // turns drawn live: "own" if the person's message is shown too, else "followed"
    this.unwatchable = new Set();
    this.turn = null;
    this.running = false;
    this.broken = false; // the end of a turn was missed
    this.missed = false; // another turn ended while one was being drawn
  }

  get isEmpty() {
    return this.log.childElementCount === 0;
  }

  /** The question waiting for the person, or null. */
  get waiting() {
    return this.turn ? ([...this.turn.questions.values()][0] ?? null) : null;
  }

  // ---- history

  /** Fetch the latest part of the transcript, and follow the running turn, whoever began it. */
  async load() {
    const running = await this.#runningTurn();
    const { session, entries } = await this.#entries({ limit: PAGE }).catch((error) => {
      if (running !== null && error.status === 404) return { session: { id: null, title: null }, entries: [] }; // not begun yet
      throw error;
    });
    this.broken = false;
    this.live.clear();
    this.calls.clear();
    this.asks.clear();
    this.first = 1;
    this.last = 0;
    this.log.replaceChildren();
    this.id = session.id;
    this.title = session.title;
    if (running !== null) this.live.set(running, "followed");
    this.#take(entries);
    this.waitingChanged();
    if (running !== null) this.#follow(running);
  }

  /** Show the questions of this conversation that wait for an answer. */
  waitingChanged() {
    this.waitingBox.show(Conversation.questions?.of(this.agent, this.key) ?? []);
    this.grew();
  }

  /** Fetch new entries from other clients of this session. */
  async refresh() {
    this.missed = this.running; // fetch it when the turn being drawn is over
    if (this.running || this.id === null) return;
    if (this.broken) await this.load(); // the live drawing is incomplete
    else await this.#catchUp();
  }

  /** Show a running turn of another client, or of this page before a reload. */
  async watch(turn) {
    if (this.running || this.id === null || this.live.has(turn) || this.unwatchable.has(turn)) return;
    this.live.set(turn, "followed");
    await this.#catchUp().catch(() => {}); // the other client's message
    await this.#follow(turn);
  }

  /** The connection was lost for a while: fetch what was missed, and follow turns still running. */
  async recover() {
    if (this.running || this.id === null) return;
    if (this.broken) return this.load();
    const running = await this.#runningTurn();
    if (running !== null) await this.watch(running);
    else await this.#catchUp();
  }

  async #runningTurn() {
    const { turns } = await get("/api/turns");
    const here = turns.filter((one) => one.sessionKey === this.key && one.agent === this.agent);
    return here.find((one) => !this.unwatchable.has(one.turn))?.turn ?? null;
  }

  async #loadEarlier() {
    const from = Math.max(0, this.first - 1 - PAGE);
    const { entries } = await this.#entries({ after: from, limit: this.first - 1 - from });
    const part = h("div");
    const calls = new Map();
    for (const entry of entries) this.#drawEntry(entry, part, calls);
    for (const one of calls.values()) one.abandon();
    this.log.prepend(...part.childNodes);
    this.first = entries[0]?.seq ?? 1;
    this.earlier.hidden = this.first <= 1;
  }

  #entries(query) {
    return get(path(["sessions", this.id ?? this.key], { agent: this.agent, ...query }));
  }

  /** Draw new entries, except for those drawn live. */
  #take(entries) {
    for (const entry of entries) {
      if (entry.seq <= this.last) continue; // another refresh was faster
      if (this.last === 0) this.first = entry.seq;
      this.last = entry.seq;
      const drawn = this.live.get(entry.turn);
      if (entry.kind === "user_message") {
        if (drawn === "own") {
          const asked = this.asks.get(entry.turn);
          if (asked) Object.assign(asked, { seq: entry.seq, media: entry.data.media ?? [] });
          continue;
        }
        if (drawn === "followed") this.live.set(entry.turn, "own"); // from here on like our own
      } else if (drawn !== undefined) continue;
      this.#drawEntry(entry, this.log, this.calls);
    }
    this.earlier.hidden = this.first <= 1;
  }

  // ---- the running turn

  /** Send a message and show the answer until the turn is over. The turn continues without this page. */
  async send(text, attached) {
    const asked = new Asked(this, text, { attached });
    this.log.append(asked.element);
    const sent = await this.#shown(
      async (turn) => {
        turn.asked = asked;
        const media = await Promise.all(attached.map(asMedia));
        const body = { text, media, sessionKey: this.key, agent: this.agent, model: this.model || null, origin: "page", detached: true, promptCalls: true, questions: Conversation.mayAnswer, ...(this.folder ? { workspace: this.folder.path } : {}) };
        await turn.run("POST", "/api/messages", body);
      },
      (turn) => turn.accepted || (asked.element.remove(), false),
    );
    return sent;
  }

  /** Send this after the running turn and the messages already queued. */
  later(text, attached) {
    this.queue.push({ text, attached });
    this.#changed();
  }

  /** Remove a message from the queue. */
  unqueue(one) {
    this.queue = this.queue.filter((other) => other !== one);
    this.#changed();
  }

  #follow(id) {
    return this.#shown(
      async (turn) => {
        turn.id = id;
        try {
          await turn.run("GET", path(["turns", id, "events"], { questions: Conversation.mayAnswer }));
        } catch (error) {
          if (error.status !== 404) throw error;
          // It is over, or cannot be watched: draw it from the store, including what was left out for
          // drawing it live.
          this.broken = true;
          this.live.delete(id);
          this.unwatchable.add(id);
          turn.element.remove();
        }
      },
      () => false,
    );
  }

  /** A followed turn reports the person's message, in case it isn't stored yet. */
  asked(turn, text, labels) {
    if (this.live.get(turn.id) !== "followed") return;
    this.live.set(turn.id, "own");
    turn.asked = new Asked(this, text, { media: labels.map((label) => ({ label })) });
    turn.element.before(turn.asked.element);
  }

  /** Draw a turn while `work` runs it; `failed` says whether it counts as sent after a failure. */
  async #shown(work, failed) {
    const turn = new Turn(this);
    this.turn = turn;
    this.running = true;
    this.#changed();
    this.grew();
    try {
      await work(turn);
      turn.ok = true;
      return true;
    } catch (error) {
      this.broken = Boolean(error.lost) && turn.id !== null;
      turn.failed(error);
      return failed(turn);
    } finally {
      turn.close();
      this.turn = null;
      if (turn.id !== null && turn.asked) this.asks.set(turn.id, turn.asked);
      if (turn.id !== null && !this.unwatchable.has(turn.id)) this.live.set(turn.id, "own");
      // Still counts as running: no entries are drawn until it is known which belong to this turn.
      if (turn.id !== null && !this.broken) await this.#catchUp(true).catch(() => {});
      this.running = false;
      if (this.broken || this.missed) await this.refresh().catch(() => {}); // retried when the gateway is back
      this.ended = turn.ok ? "ok" : "failed";
      this.#changed();
      this.grew();
    }
  }

  async #catchUp(over = false) {
    const { session, entries } = await this.#entries({ after: this.last, limit: 500 });
    this.id = session.id;
    this.title = session.title;
    if (this.running && !over) return; // a new turn has begun, and handles this itself
    this.#take(entries);
    if (entries.length) this.grew();
  }

  /** Stop the turn. */
  async cancel() {
    await this.turn?.cancel();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }

  /** A question appeared or is closed. */
  asking() {
    this.#changed();
  }

  // ---- a transcript's entries

  #drawEntry({ kind, data, text, at, callId, seq, turn, details }, into, calls) {
    if (kind === "user_message") {
      this.folder = data.cwd ? { path: data.cwd, keyPrefix: prefixOf(this.key) } : null;
      const asked = new Asked(this, data.text ?? text, { media: data.media ?? [], seq, at, origin: data.origin });
      this.asks.set(turn, asked);
      into.append(asked.element);
    } else if (kind === "assistant_message") {
      for (const { id } of data.calls ?? []) this.handed.set(id, []); // in call order
      if (data.thinking) agentPart(into).append(new Thinking(data.thinking).element);
      if (!(data.text ?? "").trim()) return;
      const body = new StreamedText();
      body.finish(data.text);
      agentPart(into).append(body.element);
    } else if (kind === "tool_call") {
      const plan = planNode(data.name, data.arguments);
      if (plan !== null) {
        agentPart(into).querySelector(".plan")?.remove();
        agentPart(into).append(plan);
      }
      this.#drawCall(callId, data.label ?? shownTool(data.name), data, into, calls);
    } else if (kind === "tool_result") {
      if (!calls.has(callId) && data.approval) this.#drawCall(callId, data.approval.label, { name: data.name, arguments: {} }, into, calls);
      const one = calls.get(callId);
      if (data.approval) one?.approved(data.approval);
      one?.finishFromEntry(data, this.mediaPath, details);
      this.handed.set(callId, data.handed ?? []);
      for (const asked of data.questions ?? []) one?.follow(questionNode(asked));
    } else if (kind === "compaction") {
      into.append(h("p", { className: "divider" }, h("span", {}, "Earlier messages were summarised for the model")));
    } else if (kind === "notice") {
      const [part, level] = [agentPart(into), data.level ?? "info"];
      addNote(note(data.message ?? text, level), level, (one) => part.append(one), part.lastElementChild);
    } else if (kind.startsWith("turn_") && kind !== "turn_started") {
      for (const one of calls.values()) one.abandon();
      calls.clear();
      if (kind === "turn_finished") agentPart(into).append(...[...this.handed.values()].flat().map((one) => (one.path ? mediaNode(one, { ...this.where, eager: true }) : handedMedia(one, this.mediaPath))));
      this.handed.clear();
      this.#drawEnding(kind, data, text, agentPart(into), this.asks.get(turn));
    }
  }

  get where() {
    return { agent: this.agent, session: this.id ?? this.key };
  }

  #drawCall(callId, label, { name, arguments: args, within }, into, calls) {
    const one = new ToolCall(label, args, name);
    const script = calls.get(within);
    calls.set(callId, one);
    if (script) script.add(one);
    else agentPart(into).append(one.element);
  }

  #drawEnding(kind, data, text, part, asked) {
    if (kind in ENDINGS) {
      const [words, level] = ENDINGS[kind];
      const detail = kind === "turn_error" && (data.detail || text);
      part.append(note(detail ? `${words}: ${detail}` : words, level, fixFor(detail || ""), level === "error" && asked ? asked.retry() : null));
    }
    if (part.querySelector(".prose")) part.append(answerFoot(data.usage, asked ? asked.buttons(() => proseOf(part)) : []));
  }

  /** Report that there is more to see. */
  grew() {
    this.dispatchEvent(new Event("grow"));
  }
}

/** Whether this page's token may answer questions. */
Conversation.mayAnswer = true;
/** The questions that wait, of all conversations. */
Conversation.questions = null;

/** Draws the events of one turn. */
class Turn {
  constructor(conversation) {
    this.conversation = conversation;
    this.accepted = false;
    this.stopping = false;
    this.id = null;
    this.abort = new AbortController();
    this.wait = h("div", { className: "waiting", role: "img", "aria-label": "Working" }, h("i"), h("i"), h("i"));
    this.element = h("article", { className: "message agent", "aria-label": "OpenClaw", "aria-busy": "true" }, this.wait);
    conversation.log.append(this.element);
    this.asked = null; // what the person asked
    this.ok = false;
    this.usage = null;
    this.calls = new Map();
    this.questions = new Map();
    this.records = new Map(); // of answered questions, by call
    this.approvals = new Map(); // what was answered, by call
    this.plan = null;
    this.text = null;
    this.thinking = null;
  }

  async run(method, where, body) {
    for await (const [name, data] of stream(method, where, { body, signal: this.abort.signal })) {
      this[`on_${name}`]?.(data);
      this.conversation.grew();
      if (name === "reply") return;
      if (name === "error") throw Object.assign(new Error(data.message), { kind: data.type, hint: data.hint ?? "" });
    }
    throw Object.assign(new Error("The connection was lost before the answer was complete"), { lost: true, hint: "If the gateway is still running, the turn continues." });
  }

  /** The turn may have begun before its id is known: it is stopped once it is, or when this is called again. */
  async cancel() {
    const again = this.stopping;
    this.stopping = true;
    this.wait.classList.add("stopping");
    if (this.id !== null) await call("POST", path(["turns", this.id, "cancel"]));
    else if (again) this.abort.abort();
  }

  #put(node) {
    this.wait.before(node);
  }

  on_accepted(data) {
    this.accepted = true;
    this.id = data.turn;
    if (this.stopping) this.cancel().catch(() => {}); // it may be over
    this.conversation.asked(this, data.text, data.attachments);
  }

  on_text_delta({ text }) {
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
      if (this.text) this.text.element.before(this.thinking.element);
      else this.#put(this.thinking.element);
    }
    this.thinking.add(text);
  }

  on_block_reply({ blocks }) {
    const words = blocks.filter((one) => one.type === "text").map((one) => one.text).join("\n");
    this.#settle(words);
  }

  on_tool_started({ callId, label, name, arguments: args, within, diff }) {
    this.#settle();
    const plan = planNode(name, args);
    if (plan !== null) {
      this.plan?.remove(); // the newest replaces earlier ones
      this.plan = plan;
      this.#put(plan);
    }
    const one = new ToolCall(label, args, name, diff);
    const script = this.calls.get(within);
    const approval = this.approvals.get(callId);
    this.calls.set(callId, one);
    if (script) script.add(one);
    else if (approval && this.records.has(callId)) this.records.get(callId).replace(one.element);
    else this.#put(one.element);
    if (approval) one.approved(approval);
    announce(`${label} is running`);
  }

  on_tool_progress({ callId, message }) {
    this.calls.get(callId)?.progress(message);
  }

  on_tool_finished({ callId, name, result, durationMs }) {
    if (!this.calls.has(callId)) this.on_tool_started({ callId, name, label: this.records.get(callId)?.question.calls[0]?.label ?? name, arguments: {} });
    this.calls.get(callId).finish(result, durationMs, this.conversation.where);
  }

  on_question(question) {
    this.#settle();
    const one = new Question(question);
    this.questions.set(question.id, one);
    this.records.set(question.callId ?? `${question.server} ${question.text}`, one);
    this.#put(one.element);
    this.conversation.asking();
  }

  on_question_closed({ id, why }) {
    this.questions.get(id)?.close(why);
    this.questions.delete(id);
    this.conversation.asking();
  }

  /** Whoever answered the question: the card of the call will say so. */
  on_tool_approval(approval) {
    this.approvals.set(approval.callId, approval);
  }

  on_tool_question(asked) {
    this.records.get(`${asked.server} ${asked.message.slice(0, MOST_ASKED)}`)?.element.remove();
    this.calls.get(asked.callId)?.follow(questionNode(asked));
  }

  on_notice({ level, message }) {
    addNote(note(message, level), level, (one) => this.#put(one), this.wait.previousElementSibling);
  }

  on_reply({ text, media, outcome, usage }) {
    this.#settle(text);
    for (const one of media) this.#put(mediaNode(one, { ...this.conversation.where, eager: true }));
    if (outcome === "limit") this.#put(note("This turn reached one of its limits.", "warning"));
    this.usage = usage;
    announce("The answer is complete");
    Conversation.questions?.look();
  }

  /** The text being written is complete; `text` is its content, if known. */
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
    if (stopped) this.#put(note(this.stopping ? "Stopped." : "This turn was stopped, but not on this page."));
    else this.#put(note(failure(error), "error", fixFor(error.message), this.accepted && this.asked ? this.asked.retry() : null));
  }

  close() {
    this.#settle();
    this.wait.remove();
    for (const one of this.calls.values()) one.abandon();
    for (const one of this.questions.values()) one.close("cancelled");
    this.element.removeAttribute("aria-busy");
    if (this.element.childElementCount === 0) this.element.append(note("(No response)"));
    this.asked ??= this.conversation.asks.get(this.id) ?? null; // the page was opened during the turn
    if (this.asked && this.id !== null && this.element.querySelector(".prose")) this.element.append(answerFoot(this.usage, this.asked.buttons(() => proseOf(this.element))));
  }
}

// ---- a transcript's entries

const ENDINGS = { turn_cancelled: ["Stopped.", "info"], turn_error: ["This turn failed", "error"], turn_lost: ["The program ended during this turn.", "warning"] };

/** The agent's message being drawn: everything between two messages of the person. */
function agentPart(into) {
  const last = into.lastElementChild;
  if (last?.classList.contains("agent")) return last;
  const part = h("article", { className: "message agent", "aria-label": "OpenClaw" });
  into.append(part);
  return part;
}

function failure({ message, hint }) {
  return `This turn failed: ${message}${hint ? ` (${hint})` : ""}`;
}

/** How the keys of other chats in the folder of this chat begin. */
function prefixOf(key) {
  const digest = /^(?:chat|agent)-([0-9a-f]{10})-/.exec(key)?.[1];
  return digest ? `chat-${digest}-` : null;
}

/** The text of an answer as the model wrote it. */
function proseOf(part) {
  return [...part.querySelectorAll(".prose")].map((one) => one.source ?? one.textContent).join("\n\n");
}

function shownTool(name) {
  return name.startsWith("mcp_") ? `MCP: ${name.slice(4)}` : name;
}
