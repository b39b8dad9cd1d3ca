/*
 * Syntax highlighting: comments, strings, numbers, keywords, function names. A single forward scan with
 * one expression per kind of language, so that no text takes more than linear time.
 */

import { h } from "./dom.js";

const LONGEST = 50_000; // characters; longer text is shown plain
const STRINGS = String.raw`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'`;
const NUMBER = String.raw`\b(?:0[xX][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b`;

const C_WORDS = "abstract as async await bool break case catch char class const continue default defer delete do double else enum export extends extern false final finally float fn for from func function go if impl implements import in instanceof int interface is let long loop match mod move mut namespace new nil null of package private protected pub public return select self static struct super switch this throw true try type typeof undefined union unsafe use using var virtual void where while yield";
const PYTHON_WORDS = "False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield self";
const SHELL_WORDS = "if then else elif fi for in do done while until case esac function return exit export local set unset readonly source alias sudo cd echo";
const SQL_WORDS = "select from where and or not null insert into values update set delete create table index view drop alter add primary key foreign references unique default join left right inner outer on group by order having limit offset distinct as union all exists between like in is case when then else end with returning begin commit rollback";

const KINDS = {
  c: { comment: String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`, string: `${STRINGS}|${"`(?:[^`\\\\]|\\\\.)*`"}`, words: C_WORDS },
  python: { comment: String.raw`#[^\n]*`, string: String.raw`"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${STRINGS}`, words: PYTHON_WORDS },
  shell: { comment: String.raw`(?<![\w$&])#[^\n]*`, string: STRINGS, words: SHELL_WORDS },
  sql: { comment: String.raw`--[^\n]*|\/\*[^]*?(?:\*\/|$)`, string: STRINGS, words: SQL_WORDS, flags: "i" },
  data: { comment: String.raw`#[^\n]*|\/\/[^\n]*`, string: STRINGS, words: "true false null yes no on off" },
  markup: { comment: String.raw`<!--[^]*?(?:-->|$)`, string: STRINGS, words: "", name: String.raw`<\/?[\w:-]+|\/?>` },
  css: { comment: String.raw`\/\*[^]*?(?:\*\/|$)`, string: STRINGS, words: "important media supports import", name: String.raw`[\w-]+(?=\s*:)` },
};

const LANGUAGES = {
  c: "c cpp c++ h hpp cs csharp java javascript js jsx ts tsx typescript rust rs go golang kotlin swift scala php dart json5 proto",
  python: "python py pyi ruby rb",
  shell: "sh bash zsh shell console fish dockerfile makefile make",
  sql: "sql sqlite postgresql postgres mysql",
  data: "json jsonc yaml yml toml ini conf cfg properties env",
  markup: "html xml svg xhtml vue svelte",
  css: "css scss less",
};
const KIND_OF = new Map(Object.entries(LANGUAGES).flatMap(([kind, names]) => names.split(" ").map((name) => [name, kind])));
const COMPILED = new Map();

function scanner(kind) {
  if (!COMPILED.has(kind)) {
    const { comment, string, words, name = String.raw`\b[A-Za-z_]\w*(?=\()`, flags = "" } = KINDS[kind];
    const parts = [`(?<comment>${comment})`, `(?<string>${string})`];
    if (words) parts.push(String.raw`(?<word>\b(?:${words.replaceAll(" ", "|")})\b)`);
    parts.push(`(?<name>${name})`, `(?<number>${NUMBER})`);
    COMPILED.set(kind, new RegExp(parts.join("|"), `g${flags}`));
  }
  return COMPILED.get(kind);
}

/** Nodes and strings for this code; just the text if the language is unknown. */
export function highlighted(text, language) {
  if (/^(diff|patch)$/i.test(language)) return diffLines(text);
  const kind = KIND_OF.get(language.toLowerCase());
  if (!kind || text.length > LONGEST) return [text];
  const out = [];
  let last = 0;
  for (const found of text.matchAll(scanner(kind))) {
    if (!found[0]) continue;
    if (found.index > last) out.push(text.slice(last, found.index));
    const [name] = Object.entries(found.groups).find(([, value]) => value !== undefined);
    out.push(h("span", { className: `hl-${name}` }, found[0]));
    last = found.index + found[0].length;
  }
  out.push(text.slice(last));
  return out;
}

function diffLines(text) {
  return text.split(/(?<=\n)/).map((line) => {
    const kind = { "+": "added", "-": "removed", "@": "hl-comment" }[line[0]];
    return kind ? h("span", { className: kind }, line) : line;
  });
}
