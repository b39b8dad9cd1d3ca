/* Times, sizes and other facts in words. */

/** How long: `850 ms`, `4.2 s`, `3 min`, `5 h`, `2 d`. */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** When, as short as possible: a time today, else a date. */
export function when(ms) {
  const then = new Date(ms);
  const now = new Date();
  if (then.toDateString() === now.toDateString()) {
    return then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  }
  const year = then.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return then.toLocaleDateString([], { day: "numeric", month: "short", year });
}

/** The day of a past time: `Today`, `Yesterday`, `Monday`, `12 Nov`, `May 2025`. */
export function day(ms) {
  const then = new Date(ms);
  const midnight = new Date();
  midnight.setHours(0, 0, 0, 0);
  const days = Math.ceil((midnight - then) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return then.toLocaleDateString([], { weekday: "long" });
  if (then.getFullYear() === midnight.getFullYear()) return then.toLocaleDateString([], { day: "numeric", month: "short" });
  return then.toLocaleDateString([], { month: "long", year: "numeric" });
}

/** A future time: `today 08:00`, `Mon 5 Dec 08:00`. */
export function moment(ms) {
  const then = new Date(ms);
  const time = then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (then.toDateString() === new Date().toDateString()) return `today ${time}`;
  return `${then.toLocaleDateString([], { weekday: "short", day: "numeric", month: "short" })} ${time}`;
}

/** A title without Markdown markup. */
export function plainTitle(text) {
  const plain = text
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/^\s*(?:#{1,6}|>|[-*+]|\d+[.)])\s+/, "")
    .replace(/(\*{1,3}|_{2,3}|~~|`{1,3})(?=\S)(.*?)(?<=\S)\1/g, "$2")
    .replace(/^`{3,}\w*\s*/, "")
    .replace(/\s+/g, " ")
    .trim();
  return plain || text;
}

/** An attachment's name, from the transcript's `image chart.png (image/png)`. */
export function nameOf({ name, label }) {
  return name ?? /^\w+ (.+) \([^()]+\)$/.exec(label)?.[1] ?? label;
}

/** A number with separators. */
export function amount(number) {
  return number.toLocaleString();
}

/** A size: `12 KB`. */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

/** `1 tool`, `2 tools`. */
export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

const FRAME = /(?:^This is [^\n]*\n)?<<<EXTERNAL_UNTRUSTED_CONTENT id="([A-Za-z0-9_-]{16,64})">>>\nSource: [^\n]*\nFrom: [^\n]*\n---\n/m;

/** A text as its author wrote it, without the frames that tell the model not to trust it. */
export function unframed(text) {
  let out = "";
  let rest = text;
  for (;;) {
    const found = FRAME.exec(rest);
    if (found === null) return out + rest;
    const end = `\n<<<END_EXTERNAL_UNTRUSTED_CONTENT id="${found[1]}">>>`;
    const body = found.index + found[0].length;
    const stop = rest.indexOf(end, body - 1);
    if (stop < 0) return out + rest;
    out += rest.slice(0, found.index) + rest.slice(body, Math.max(stop, body));
    rest = rest.slice(stop + end.length);
  }
}

/** JSON for a person. */
export function pretty(value) {
  if (typeof value === "string") {
    try {
      return JSON.stringify(JSON.parse(value), null, 2);
    } catch {
      return value;
    }
  }
  return JSON.stringify(value, null, 2);
}
