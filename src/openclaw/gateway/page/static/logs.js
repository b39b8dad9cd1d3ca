/* The gateway's log. */

import { get, path } from "./api.js";
import { emptyState, h, icon, Trouble } from "./dom.js";

const EVERY = 2000;
const LINES = 1000;
const LEVELS = ["debug", "info", "warning", "error", "critical"];
const LINE = /^(\d\d:\d\d:\d\d\.\d+) (\w+) +([^ :]+): (.*)$/s;

export class LogsView {
  constructor(app) {
    this.filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the log", oninput: () => this.#draw() });
    this.level = h(
      "select",
      { className: "select", "aria-label": "Lowest level", onchange: () => this.#draw() },
      ...[["debug", "Everything"], ["info", "Info and above"], ["warning", "Warnings and errors"], ["error", "Errors"]].map(([value, words]) => h("option", { value }, words)),
    );
    this.follow = h("input", { type: "checkbox", checked: true, onchange: () => this.follow.checked && this.#fetch() });
    this.body = h("div", { className: "log-lines", tabIndex: 0, role: "region", "aria-label": "Log lines" });
    this.trouble = new Trouble();
    this.element = h(
      "section",
      { className: "view logs", "aria-label": "Logs" },
      h("header", { className: "bar" }, app.menuButton(), h("h1", { tabIndex: -1 }, "Logs")),
      h(
        "div",
        { className: "panel log-panel" },
        h("div", { className: "log-tools" }, h("div", { className: "search" }, icon("search"), this.filter), this.level, h("label", { className: "check" }, this.follow, "Follow")),
        this.trouble.element,
        this.body,
      ),
    );
    this.lines = null;
    this.timer = null;
  }

  show() {
    this.#fetch();
    this.timer = setInterval(() => this.follow.checked && !document.hidden && this.#fetch(), EVERY);
  }

  hide() {
    clearInterval(this.timer);
  }

  async #fetch() {
    await this.trouble.during(async () => {
      const { lines } = await get(path(["logs"], { lines: LINES }));
      if (this.lines !== null && lines.length === this.lines.length && lines.at(-1) === this.lines.at(-1)) return;
      this.lines = lines;
      this.#draw();
    });
  }

  #draw() {
    const wanted = this.filter.value.toLowerCase();
    const least = LEVELS.indexOf(this.level.value);
    const records = grouped(this.lines ?? []).filter((one) => one.rank >= least && (!wanted || one.raw.toLowerCase().includes(wanted)));
    const atEnd = this.body.scrollHeight - this.body.scrollTop - this.body.clientHeight < 60;
    if (!records.length) {
      const none = this.lines?.length ? ["Nothing matches", "No log lines match this filter."] : ["The log is empty", "The gateway's log will appear here."];
      this.body.replaceChildren(emptyState("logs", ...none));
      return;
    }
    this.body.replaceChildren(...records.map(drawRecord));
    if (atEnd || this.drawnOnce !== true) this.body.scrollTop = this.body.scrollHeight;
    this.drawnOnce = true;
  }
}

/** Lines that belong together, such as an error and where it came from, as one record. */
function grouped(lines) {
  const records = [];
  for (const raw of lines) {
    const record = parsed(raw);
    if (record.level === null && records.length) {
      const last = records.at(-1);
      last.message += `\n${raw}`;
      last.raw += `\n${raw}`;
    } else records.push(record);
  }
  return records;
}

function parsed(raw) {
  const rank = (level) => Math.max(0, LEVELS.indexOf(level));
  if (raw.startsWith("{")) {
    try {
      const { time, level, logger, message, traceback, ...rest } = JSON.parse(raw);
      const extra = Object.entries(rest).map(([key, value]) => ` ${key}=${typeof value === "string" ? value : JSON.stringify(value)}`).join("");
      return { raw, time: String(time).slice(11, 23), level, rank: rank(level), logger, message: message + extra + (traceback ? `\n${traceback}` : "") };
    } catch {
      // Shown as it is.
    }
  }
  const found = LINE.exec(raw);
  if (!found) return { raw, time: "", level: null, rank: 0, logger: "", message: raw };
  const level = found[2].toLowerCase();
  return { raw, time: found[1], level, rank: rank(level), logger: found[3], message: found[4] };
}

function drawRecord({ time, level, logger, message }) {
  return h(
    "div",
    { className: "log-line", "data-level": level ?? "info" },
    h("time", {}, time),
    h("span", { className: "log-level" }, level ?? ""),
    h("span", { className: "log-text" }, h("span", { className: "log-source" }, logger.replace(/^openclaw\./, "")), " ", message),
  );
}
