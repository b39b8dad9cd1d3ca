/*
 * Markdown as DOM nodes. A model's text never becomes HTML: every piece ends in a text node, a link
 * has one of three schemes, and no image is loaded, since its address could leak text. Every scan only
 * goes forward, so that no text takes more than about linear time.
 */

import { copyButton, h } from "./dom.js";
import { highlighted } from "./highlight.js";

const DEEPEST = 12; // lists in quotes in lists; deeper levels are shown as text
const SCHEMES = ["http:", "https:", "mailto:"];
const ESCAPABLE = "\\`*_{}[]()#+-.!|~<>\"'$%&,/:;=?@^";
const AUTOLINK = /^https?:\/\/[^\s<>"'`]+/i;
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\s]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+(.*)|$)/;
const TABLE_LINE = /^ *\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/** The nodes of a text. */
export function render(text) {
  const out = document.createDocumentFragment();
  blocks(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), out, 0);
  return out;
}

// ---- blocks

function blocks(lines, out, depth) {
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) at += 1;
    else at = block(lines, at, out, depth);
  }
}

function block(lines, at, out, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence, out);
  const heading = HEADING.exec(line);
  if (heading) {
    const words = (heading[2] ?? "").replace(/[ \t]+#+[ \t]*$/, "");
    // The page has its own headings: an answer's headings start below them.
    out.append(h(`h${Math.min(heading[1].length + 2, 6)}`, { dir: "auto" }, ...inline(words)));
    return at + 1;
  }
  if (RULE.test(line)) {
    out.append(h("hr"));
    return at + 1;
  }
  if (depth < DEEPEST && /^ {0,3}>/.test(line)) return quote(lines, at, out, depth);
  if (depth < DEEPEST && ITEM.test(line)) return list(lines, at, out, depth);
  if (line.includes("|") && at + 1 < lines.length && TABLE_LINE.test(lines[at + 1]) && lines[at + 1].includes("-")) {
    const end = table(lines, at, out);
    if (end > at) return end;
  }
  return paragraph(lines, at, out, depth);
}

function code(lines, at, fence, out) {
  const mark = fence[1];
  const body = [];
  let end = at + 1;
  while (end < lines.length && !closes(lines[end], mark)) body.push(lines[end++]);
  const text = body.join("\n");
  const bar = h("div", { className: "code-bar" }, h("span", {}, fence[2].slice(0, 40) || "text"), copyButton(() => text));
  out.append(h("div", { className: "code-block" }, bar, h("pre", { tabIndex: 0, "aria-label": "Code" }, h("code", {}, ...highlighted(text, fence[2])))));
  return Math.min(end + 1, lines.length);
}

function closes(line, mark) {
  const trimmed = line.trim();
  return trimmed.length >= mark.length && trimmed === mark[0].repeat(trimmed.length);
}

function quote(lines, at, out, depth) {
  const inner = [];
  while (at < lines.length && /^ {0,3}>/.test(lines[at])) inner.push(lines[at++].replace(/^ {0,3}> ?/, ""));
  const box = h("blockquote", { dir: "auto" });
  blocks(inner, box, depth + 1);
  out.append(box);
  return at;
}

function list(lines, at, out, depth) {
  const [, indent, marker] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(marker);
  const box = h(ordered ? "ol" : "ul", { dir: "auto" });
  if (ordered && parseInt(marker, 10) !== 1) box.start = parseInt(marker, 10);
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || found[1].length > indent.length + 3 || found[1].length < indent.length) break;
    if (/\d/.test(found[2]) !== ordered || RULE.test(lines[at])) break;
    at = item(lines, at, found, box, depth);
  }
  out.append(box);
  return at;
}

function item(lines, at, found, box, depth) {
  const inside = found[1].length + found[2].length + 1;
  const inner = [found[3] ?? ""];
  at += 1;
  while (at < lines.length) {
    const line = lines[at];
    const spaces = line.length - line.trimStart().length;
    if (!line.trim()) {
      const next = lines.slice(at, at + 20).find((one) => one.trim());
      if (next === undefined || next.length - next.trimStart().length < inside) break;
      inner.push("");
    } else if (spaces >= Math.min(inside, found[1].length + 2)) inner.push(line.slice(Math.min(spaces, inside)));
    else if (ITEM.test(line) || starts(line)) break;
    else inner.push(line);
    at += 1;
  }
  while (at < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1] ?? "")) at += 1;
  const li = h("li");
  const task = /^\[([ xX])\] /.exec(inner[0]);
  if (task) {
    li.className = "task";
    li.append(h("input", { type: "checkbox", disabled: true, checked: task[1] !== " " }));
    inner[0] = inner[0].slice(4);
  }
  blocks(inner, li, depth + 1);
  const only = li.querySelectorAll(":scope > p");
  if (only.length === 1 && !inner.includes("")) only[0].replaceWith(...only[0].childNodes);
  box.append(li);
  return at;
}

function starts(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line);
}

function paragraph(lines, at, out, depth) {
  const words = [lines[at++]];
  while (at < lines.length && lines[at].trim() && !starts(lines[at])) {
    if (depth < DEEPEST && ITEM.test(lines[at])) break;
    words.push(lines[at++]);
  }
  out.append(h("p", { dir: "auto" }, ...inline(words.map((line) => line.trimStart()).join("\n"))));
  return at;
}

function cells(line) {
  const out = [""];
  const body = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  for (let at = 0; at < body.length; at += 1) {
    if (body[at] === "\\" && body[at + 1] === "|") out[out.length - 1] += body[++at];
    else if (body[at] === "|") out.push("");
    else out[out.length - 1] += body[at];
  }
  return out.map((cell) => cell.trim());
}

function table(lines, at, out) {
  const head = cells(lines[at]);
  const sides = cells(lines[at + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "centre" : "end") : ""));
  if (head.length !== sides.length) return at;
  const row = (tag, given) => h("tr", {}, head.map((_, n) => h(tag, { className: sides[n], dir: "auto" }, ...inline(given[n] ?? ""))));
  const body = h("tbody");
  let end = at + 2;
  while (end < lines.length && lines[end].trim() && lines[end].includes("|")) body.append(row("td", cells(lines[end++])));
  out.append(h("div", { className: "table-box", tabIndex: 0, role: "group", "aria-label": "Table" }, h("table", {}, h("thead", {}, row("th", head)), body)));
  return end;
}

// ---- inline

function inline(text, depth = 0) {
  const scan = new Inline(text, depth);
  return scan.run();
}

function word(char) {
  return char !== undefined && /[\p{L}\p{N}_]/u.test(char);
}

class Inline {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.out = [];
    this.plain = "";
    this.missing = new Set(); // closers that don't occur any more, so that each is searched once
  }

  run() {
    let at = 0;
    while (at < this.text.length) at = this.step(at);
    this.flush();
    return this.out;
  }

  flush() {
    if (this.plain) this.out.push(this.plain);
    this.plain = "";
  }

  put(node) {
    this.flush();
    this.out.push(node);
  }

  step(at) {
    const { text } = this;
    const char = text[at];
    let end = at;
    if (char === "\\" && at + 1 < text.length && ESCAPABLE.includes(text[at + 1])) {
      this.plain += text[at + 1];
      return at + 2;
    }
    if (char === "\n") {
      this.put(h("br"));
      return at + 1;
    }
    if (char === "`") end = this.code(at);
    else if (char === "*" || char === "_" || char === "~") end = this.emphasis(at, char);
    else if (char === "[") end = this.link(at, at);
    else if (char === "!" && text[at + 1] === "[") end = this.link(at, at + 1);
    else if (char === "<") end = this.angle(at);
    else if ((char === "h" || char === "H") && !/\w/.test(text[at - 1] ?? "")) end = this.address(at);
    if (end > at) return end;
    this.plain += char;
    return at + 1;
  }

  find(what, from) {
    if (this.missing.has(what)) return -1;
    const found = this.text.indexOf(what, from);
    if (found < 0) this.missing.add(what);
    return found;
  }

  code(at) {
    let stop = at;
    while (this.text[stop] === "`") stop += 1;
    const mark = this.text.slice(at, stop);
    const skip = () => {
      this.plain += mark;
      return stop;
    };
    let end = this.find(mark, stop);
    while (end >= 0 && (this.text[end + mark.length] === "`" || this.text[end - 1] === "`")) {
      while (this.text[end] === "`") end += 1;
      end = this.text.indexOf(mark, end);
    }
    if (end < 0) this.missing.add(mark);
    if (end < 0) return skip();
    const body = this.text.slice(stop, end);
    const padded = body.startsWith(" ") && body.endsWith(" ") && body.trim();
    this.put(h("code", {}, padded ? body.slice(1, -1) : body));
    return end + mark.length;
  }

  emphasis(at, char) {
    let run = 1;
    while (this.text[at + run] === char && run < 3) run += 1;
    if (char === "~" && run !== 2) return at;
    const inside = this.text[at + run];
    if (this.depth >= DEEPEST || inside === undefined || /\s/.test(inside)) return at;
    if (char === "_" && word(this.text[at - 1])) return at;
    const mark = char.repeat(run);
    let end = this.find(mark, at + run + 1);
    while (end >= 0 && !this.closing(end, run, char)) end = this.text.indexOf(mark, end + run + 1);
    if (end < 0) {
      this.missing.add(mark); // a closer doesn't depend on its opener: there won't be one later
      return at;
    }
    const inner = inline(this.text.slice(at + run, end), this.depth + 1);
    if (char === "~") this.put(h("del", {}, ...inner));
    else if (run === 1) this.put(h("em", {}, ...inner));
    else if (run === 2) this.put(h("strong", {}, ...inner));
    else this.put(h("strong", {}, h("em", {}, ...inner)));
    return end + run;
  }

  closing(end, run, char) {
    const before = this.text[end - 1];
    const after = this.text[end + run];
    if (/\s/.test(before) || (char === "_" && word(after))) return false;
    return run === 3 || after !== char || before === char; // not the first half of a longer mark
  }

  link(at, open) {
    const close = this.matching(open);
    if (close < 0 || this.text[close + 1] !== "(" || this.depth >= DEEPEST) return at;
    const end = this.find(")", close + 2);
    if (end < 0) return at;
    let stop = end;
    // One pair of parentheses inside the address, as in Wikipedia's.
    if (this.text.slice(close + 2, end).includes("(") && this.text[end + 1] === ")") stop = end + 1;
    const target = this.text.slice(close + 2, stop).trim().split(/\s+["'(]/)[0].replace(/^<|>$/g, "");
    const label = this.text.slice(open + 1, close);
    if (open > at) this.put(anchor(target, [`Image: ${label || target}`]) ?? `[Image: ${label}]`);
    else this.put(anchor(target, inline(label, this.depth + 1)) ?? this.text.slice(at, stop + 1));
    return stop + 1;
  }

  matching(open) {
    let level = 0;
    const end = Math.min(this.text.length, open + 1000);
    for (let at = open; at < end; at += 1) {
      if (this.text[at] === "\\") at += 1;
      else if (this.text[at] === "[") level += 1;
      else if (this.text[at] === "]" && --level === 0) return at;
    }
    return -1;
  }

  angle(at) {
    const end = this.find(">", at);
    if (end < 0 || end - at > 2000) return at;
    const inside = this.text.slice(at + 1, end);
    const found = /^(?:https?:\/\/|mailto:)\S+$/i.test(inside) ? anchor(inside, [inside]) : null;
    if (found === null) return at;
    this.put(found);
    return end + 1;
  }

  address(at) {
    const found = AUTOLINK.exec(this.text.slice(at, at + 2000));
    if (!found) return at;
    let target = found[0].replace(/[.,;:!?*_~\]}]+$/, "");
    if (target.endsWith(")") && !target.includes("(")) target = target.slice(0, -1);
    const node = anchor(target, [target]);
    if (node === null) return at;
    this.put(node);
    return at + target.length;
  }
}

/** A link that opens in a new tab without a referrer; null if the address is invalid. */
export function anchor(target, children) {
  let url;
  try {
    url = new URL(target);
  } catch {
    return null;
  }
  if (!SCHEMES.includes(url.protocol)) return null;
  return h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow", title: url.href }, ...children);
}
