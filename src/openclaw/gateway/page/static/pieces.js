/* The parts of a conversation: messages, text as it is written, tool calls, notes. */

import { blob, path } from "./api.js";
import { preview } from "./attachments.js";
import { copyButton, h, icon, toast } from "./dom.js";
import { anchor, render } from "./markdown.js";
import { answerTo, wholeText } from "./questions.js";
import { amount, count, duration, nameOf, pretty, unframed, when } from "./words.js";

const SHOWN_AT_ONCE = 20_000; // characters of a result; the rest is a click away

/** The person's message. `attached` are this page's attachments, `labels` describe earlier ones. */
export function userMessage(text, { attached = [], labels = [], at = Date.now(), origin = "", actions = [] } = {}) {
  const things = [
    ...attached.map((one) => h("li", {}, preview(one))),
    ...labels.map((label) => h("li", {}, fileChip(label))),
  ];
  const from = origin && !["page", "api"].includes(origin) ? ` · from ${origin}` : "";
  return h(
    "article",
    { className: "message user", "aria-label": "You" },
    things.length > 0 && h("ul", { className: "attached" }, ...things),
    text && h("div", { className: "bubble", dir: "auto" }, text),
    h("div", { className: "message-foot" }, h("span", { className: "actions" }, ...actions), h("small", { className: "message-time" }, when(at) + from)),
  );
}

function fileChip(label) {
  return h("span", { className: "file-chip" }, icon("file"), h("span", { className: "file-name" }, label));
}

/** Attachments of an earlier message or result: pictures are shown, others are named. */
export function keptMedia(media, where) {
  const { mimeType, digest } = media;
  const words = nameOf(media);
  if (!digest || !SHOWN.image.includes(mimeType)) return fileChip(words);
  const box = h("span", { className: "media" }, fileChip(words));
  blob(where(digest)).then(
    (bytes) => box.replaceChildren(h("img", { src: URL.createObjectURL(new Blob([bytes], { type: mimeType })), alt: words })),
    () => {}, // its name stays
  );
  return box;
}

/** What a tool returned in an earlier turn, shown as it was then. */
export function handedMedia(media, where) {
  const box = h("div", { className: "media" });
  blob(where(media.digest)).then(
    (bytes) => show(box, media, bytes, nameOf(media)),
    () => box.append(fileChip(nameOf(media))),
  );
  return box;
}

/** The footer of an answer: buttons, and the turn's usage. */
export function answerFoot(usage, actions) {
  const tokens = usage ? usage.inputTokens + usage.outputTokens : 0;
  const words = tokens ? `${amount(tokens)} tokens · ${count(usage.requests, "request")}` : "";
  return h("div", { className: "message-foot" }, h("span", { className: "actions" }, ...actions), words && h("small", { className: "usage" }, words));
}

/** Text that grows while it is written, drawn at most once per frame. */
export class StreamedText {
  constructor() {
    this.element = h("div", { className: "prose" });
    this.text = "";
    this.timer = null;
  }

  add(piece) {
    this.text += piece;
    // A long text takes longer to draw: never spend more than a quarter of the time on it.
    this.timer ??= setTimeout(() => this.#draw(), Math.max(16, (this.cost ?? 0) * 3));
  }

  finish(text = this.text) {
    clearTimeout(this.timer);
    this.text = text;
    this.#draw();
    this.element.classList.remove("writing");
  }

  #draw() {
    const began = performance.now();
    this.timer = null;
    this.element.classList.add("writing");
    this.element.replaceChildren(render(this.text));
    this.element.source = this.text;
    this.cost = performance.now() - began;
  }
}

/** The model's reasoning, folded. */
export class Thinking {
  constructor(text = "") {
    this.body = h("div", { className: "thinking-text", dir: "auto" });
    this.element = h("details", { className: "thinking" }, h("summary", {}, "Thinking"), this.body);
    this.body.append(text);
  }

  add(piece) {
    this.body.append(piece);
  }
}

const STATES = {
  running: ["", "running"],
  done: ["check", "done"],
  failed: ["close", "failed"],
  unknown: ["alert", "did not finish"],
};

const FOLDED_LINES = 24; // of a diff; the rest is a click away

/** What a card is called: a command is shown as such, a changed file by its path. */
function titleOf(label, args, name, diff) {
  if (name === "exec" && typeof args?.command === "string") return `$ ${args.command.trim().split(/\s*\n\s*/).join(" ⏎ ")}`;
  if (!diff) return label;
  const lines = diff.split("\n");
  const counted = (mark) => lines.filter((line) => line.startsWith(mark)).length;
  return `${name === "write" ? "Write" : "Edit"} ${args.path} (+${counted("+ ")} -${counted("- ")})`;
}

/** A diff; a long one is shown in part at first. */
export function diffText(diff) {
  const lines = diff.split("\n");
  if (lines.length <= FOLDED_LINES + 1) return wholeText(diff);
  const box = h("div", { className: "folded" }, wholeText(lines.slice(0, FOLDED_LINES).join("\n")));
  const more = h("button", { type: "button", className: "link-button", onclick: () => box.replaceChildren(wholeText(diff)) }, `Show all ${lines.length.toLocaleString()} lines`);
  box.append(more);
  return box;
}

function given(name, args) {
  if (name === "exec" && typeof args?.command === "string") {
    const { command, ...others } = args;
    return [wholeText(`$ ${command}`), ...(Object.keys(others).length ? [foldedText(pretty(others))] : [])];
  }
  if (name === "run_code" && typeof args?.code === "string") return [h("p", { className: "part" }, "Script"), foldedText(args.code)];
  return [h("p", { className: "part" }, "Arguments"), foldedText(pretty(args))];
}

/** A tool call: its state at a glance; arguments and result on demand. */
export class ToolCall {
  constructor(label, args, name = "", diff = "") {
    this.state = h("span", { className: "call-state" });
    this.note = h("span", { className: "call-note" });
    this.facts = { approval: "", took: "" };
    this.given = h("div", { className: "call-given" }, ...given(name, args));
    this.name = h("span", { className: name === "exec" ? "call-name command" : "call-name", title: name || label, dir: "auto" });
    Object.assign(this, { label, args, tool: name });
    this.result = h("div", { className: "call-result" });
    this.within = h("div", { className: "call-within" });
    this.element = h(
      "details",
      { className: "call" },
      h("summary", {}, this.state, this.name, this.note),
      h("div", { className: "call-body" }, this.given, this.within, this.result),
    );
    this.#changes(diff);
    this.#to("running");
  }

  /** A call that the script made. */
  add(call) {
    if (!this.within.childElementCount) this.within.append(h("p", { className: "part" }, "Calls"));
    this.within.append(call.element);
  }

  /** Its server's questions come after it, in order. */
  follow(node) {
    (this.last ?? this.element).after(node);
    this.last = node;
  }

  /** What the call changes in a file. */
  #changes(diff) {
    this.diff = diff;
    this.name.textContent = titleOf(this.label, this.args, this.tool, diff);
    if (!diff) return;
    this.given.replaceChildren(diffText(diff));
    this.element.open = true;
  }

  /** Somebody was asked about the call: what they saw, and what they said. */
  approved(approval) {
    this.facts.approval = answerTo(approval);
    if (approval.body && !this.diff) this.given.replaceChildren(wholeText(approval.body));
    this.#note();
  }

  progress(message) {
    this.note.textContent = message;
  }

  #note() {
    const { approval, took } = this.facts;
    const words = approval && approval[0].toLowerCase() + approval.slice(1);
    this.note.replaceChildren(...(approval ? [h("span", { className: "call-approval" }, words), took ? " · " : ""] : []), took);
  }

  finish(result, ms, where) {
    const blocks = result.outputs?.length ? result.outputs : result.blocks;
    this.#where(result.details);
    this.#finished(blocks.map((one) => blockNode(one, where)), result.isError, ms ? duration(ms) : "");
  }

  finishFromEntry(data, where, details = {}) {
    const things = (data.media ?? []).map((one) => keptMedia(one, where));
    const text = unframed(data.text);
    this.#where(details);
    if (data.diff) this.#changes(data.diff);
    this.#finished([...(text ? [foldedText(text)] : []), ...things], data.isError, data.durationMs ? duration(data.durationMs) : "");
  }

  abandon() {
    if (this.element.dataset.state === "running") this.#to("unknown");
  }

  #finished(nodes, isError, note) {
    this.#to(isError ? "failed" : "done");
    this.facts.took = note;
    this.#note();
    if (isError) this.element.open = false; // nothing was changed
    if (this.diff && !isError) return; // it says all that there is to say
    this.result.replaceChildren(h("p", { className: "part" }, isError ? "Error" : "Result"), ...(nodes.length ? nodes : [h("p", { className: "quiet" }, "Nothing")]));
  }

  /** Where a command ran, and how it ended. */
  #where(details) {
    if (!details?.directory) return;
    const code = details.exitCode ? ` · exit code ${details.exitCode}` : "";
    this.given.append(h("p", { className: "quiet call-where" }, `in ${details.directory}${code}`));
  }

  #to(state) {
    const [name, words] = STATES[state];
    this.element.dataset.state = state;
    this.state.replaceChildren(name ? icon(name) : h("span", { className: "spinner" }), h("span", { className: "unseen" }, words));
  }
}

function blockNode(block, where) {
  if (block.type === "text") return foldedText(unframed(block.text));
  if (block.type === "media") return mediaNode(block, where);
  return h("p", {}, anchor(block.uri, [block.name]) ?? `${block.name} (${block.uri})`);
}

/** Plain text; a very long one is shown in part at first. */
export function foldedText(text) {
  const body = h("pre", { className: "plain", tabIndex: 0, dir: "auto", "aria-label": "Text" }, text.slice(0, SHOWN_AT_ONCE));
  const box = h("div", { className: "plain-box" }, body, copyButton(() => text));
  if (text.length > SHOWN_AT_ONCE) {
    const more = h("button", { type: "button", className: "link-button" }, `Show all ${text.length.toLocaleString()} characters`);
    more.onclick = () => {
      body.textContent = text;
      more.remove();
    };
    box.append(more);
  }
  return box;
}

/**
 * Media from the agent: shown if the browser can, else offered for saving. Nothing remote is loaded. A
 * file on the gateway's machine is fetched on request, or with `eager`, if it is an image.
 */
export function mediaNode(media, { agent, session, eager = false }) {
  const name = media.name || media.mimeType;
  const box = h("div", { className: "media" });
  if (media.url) box.append(anchor(media.url, [name]) ?? name);
  else if (media.data) show(box, media, bytesOf(media.data), name);
  else if (media.path) {
    const open = h("button", { type: "button", className: "button small" }, icon("file"), name);
    open.onclick = async () => {
      try {
        show(box, media, await blob(path(["files"], { path: media.path, agent, session })), name);
        open.remove();
      } catch (error) {
        toast(error.message, error.hint);
      }
    };
    box.append(open);
    if (eager && media.mimeType.startsWith("image/")) open.click();
  }
  return box;
}

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

const SHOWN = { image: ["image/jpeg", "image/png", "image/gif", "image/webp"], audio: null, video: null };

function show(box, media, bytes, name) {
  const kind = media.mimeType.split("/")[0];
  // A safe type: a file opened in its own tab must not be a page of this origin.
  const safe = kind in SHOWN && (SHOWN[kind] ?? [media.mimeType]).includes(media.mimeType);
  const url = URL.createObjectURL(new Blob([bytes], { type: safe ? media.mimeType : "application/octet-stream" }));
  if (safe && kind === "image") box.append(h("img", { src: url, alt: name }));
  else if (safe) box.append(h(kind, { src: url, controls: true, "aria-label": name }));
  box.append(h("a", { href: url, download: name, className: "download" }, icon("down"), name));
}

const FIXES = [
  [/\b(api key|key is not|no key|unknown provider|no model|there is no model)/i, "Open the settings", "#/settings"],
  [/\bMCP server\b/i, "Open the servers", "#/servers"],
];

/** A link to where an error can be fixed, if that is known. */
export function fixFor(text) {
  const [, words, address] = FIXES.find(([pattern]) => pattern.test(text)) ?? [];
  return words ? h("a", { className: "button small", href: address }, words) : null;
}

/** Add a note; warnings one after the other, such as about retries, become one that counts them. */
export function addNote(one, level, put, last) {
  const again = level === "warning" && last?.classList.contains("note") && last.classList.contains("warning");
  if (!again) return put(one);
  one.times = (last.times ?? 1) + 1;
  one.append(h("small", {}, `${one.times} times`));
  return last.replaceWith(one);
}

/** A line between messages: a system message, and a possible action. */
export function note(text, level = "info", ...buttons) {
  return h("div", { className: `note ${level}`, role: level === "error" ? "alert" : null }, level === "info" ? null : icon("alert"), h("span", {}, text), ...buttons);
}
