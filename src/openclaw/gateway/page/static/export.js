/* Exports a conversation to a file: to read (Markdown), or with everything in it (JSON). */

import { get, path } from "./api.js";
import { h } from "./dom.js";
import { plainTitle, unframed } from "./words.js";

const PAGE = 500;

/** Let the browser save a conversation; `kind` is `md` or `json`. */
export async function exported(conversation, kind) {
  const { session, entries } = await whole(conversation);
  const title = session.title ? plainTitle(session.title) : session.key;
  const text = kind === "json" ? JSON.stringify({ session, entries }, null, 2) : asMarkdown(title, entries);
  const type = kind === "json" ? "application/json" : "text/markdown";
  const url = URL.createObjectURL(new Blob([text], { type }));
  const name = `${title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "chat"}.${kind}`;
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

async function whole({ id, key, agent }) {
  const all = [];
  for (;;) {
    const { session, entries } = await get(path(["sessions", id ?? key], { agent, after: all.at(-1)?.seq ?? 0, limit: PAGE }));
    all.push(...entries.filter((one) => one.seq > (all.at(-1)?.seq ?? 0)));
    if (entries.length < PAGE) return { session, entries: all };
  }
}

function asMarkdown(title, entries) {
  const parts = [`# ${title}`];
  for (const { kind, data, text, at } of entries) {
    if (kind === "user_message") parts.push(`## You, ${new Date(at).toLocaleString()}`, data.text ?? text);
    else if (kind === "assistant_message" && (data.text ?? "").trim()) parts.push(data.text);
    else if (kind === "tool_call") parts.push(`> **${data.label ?? data.name}** ${JSON.stringify(data.arguments)}`);
    else if (kind === "tool_result") parts.push(fenced(unframed(data.text).slice(0, 4000)));
  }
  return `${parts.join("\n\n")}\n`;
}

function fenced(text) {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((one) => one[0].length));
  const mark = "`".repeat(longest + 1);
  return `${mark}\n${text}\n${mark}`;
}
