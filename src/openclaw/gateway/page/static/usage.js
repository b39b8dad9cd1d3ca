/* Model usage and cost. */

import { get, path } from "./api.js";
import { bar, emptyState, h, Trouble } from "./dom.js";
import { amount, count, plainTitle } from "./words.js";

const MOST_ROWS = 20;

export class UsageView {
  constructor(app) {
    this.app = app;
    this.trouble = new Trouble();
    this.days = h("select", { className: "select", "aria-label": "Period", onchange: () => this.show() }, ...[[1, "Today"], [7, "7 days"], [30, "30 days"]].map(([value, words]) => h("option", { value, selected: value === 30 }, words)));
    this.body = h("div", { className: "cards" });
    this.element = h("section", { className: "view", "aria-label": "Usage" }, bar(app, "Usage", this.days), h("div", { className: "panel" }, this.trouble.element, this.body));
  }

  async show() {
    await this.trouble.during(async () => {
      const [{ rows, total, timezone }, { sessions }] = await Promise.all([get(path(["usage"], { days: this.days.value })), get(path(["sessions"], { limit: 200 }))]);
      const titles = new Map(sessions.map((one) => [one.key, one.title ? plainTitle(one.title) : one.key]));
      this.body.replaceChildren(...(rows.length ? drawn(rows, total, timezone, titles) : [emptyState("usage", "No usage", "There were no model requests in this period.")]));
    });
  }
}

function drawn(rows, total, timezone, titles) {
  const facts = [
    ["Cost", money(total)],
    ["Tokens in", amount(total.inputTokens)],
    ["of which cached", amount(total.cacheReadTokens)],
    ["Tokens out", amount(total.outputTokens)],
    ["Requests", amount(total.requests)],
  ];
  const unknown = total.unpriced ? h("p", { className: "quiet" }, `${count(total.unpriced, "request")} had no known price and ${total.unpriced === 1 ? "is" : "are"} not in the cost.`) : null;
  return [
    h("article", { className: "card" }, h("dl", { className: "facts figures" }, ...facts.map(([word, value]) => h("div", {}, h("dt", {}, word), h("dd", {}, value)))), unknown),
    table("By day", `Days in ${timezone}`, rows, (one) => one.day, (day) => new Date(`${day}T12:00`).toLocaleDateString([], { weekday: "short", day: "numeric", month: "short" })),
    table("By model", "", rows, (one) => one.model),
    table("By chat", "", rows, (one) => one.session, (key) => titles.get(key) ?? key),
  ];
}

/** The figures grouped by `of`, the most expensive or the latest first. */
function table(title, help, rows, of, shown = (key) => key) {
  const groups = new Map();
  for (const row of rows) {
    const sum = groups.get(of(row)) ?? { cost: 0, tokens: 0, requests: 0, unpriced: 0 };
    sum.cost += row.cost;
    sum.tokens += row.inputTokens + row.outputTokens;
    sum.requests += row.requests;
    sum.unpriced += row.unpriced;
    groups.set(of(row), sum);
  }
  const byDay = title === "By day";
  const listed = [...groups].sort(([a, one], [b, other]) => (byDay ? (a < b ? 1 : -1) : other.cost - one.cost || other.tokens - one.tokens));
  const most = Math.max(...listed.map(([, one]) => one.tokens), 1);
  const row = ([key, sum]) => {
    const meter = h("span", { className: "meter", "aria-hidden": "true" });
    meter.style.setProperty("--share", `${Math.round((100 * sum.tokens) / most)}%`);
    return h("tr", {}, h("th", { scope: "row", dir: "auto" }, shown(key), meter), h("td", {}, money(sum)), h("td", {}, amount(sum.tokens)), h("td", {}, amount(sum.requests)));
  };
  const more = listed.length > MOST_ROWS ? h("p", { className: "quiet" }, `${listed.length - MOST_ROWS} more are not shown.`) : null;
  return h(
    "article",
    { className: "card" },
    h("div", {}, h("h2", {}, title), help && h("p", { className: "quiet" }, help)),
    h("div", { className: "table-box", tabIndex: 0, role: "group", "aria-label": title }, h("table", { className: "figures-table" }, h("thead", {}, h("tr", {}, ...["", "Cost", "Tokens", "Requests"].map((words) => (words ? h("th", { scope: "col" }, words) : h("td", {}))))), h("tbody", {}, ...listed.slice(0, MOST_ROWS).map(row)))),
    more,
  );
}

function money({ cost, requests, unpriced }) {
  if (unpriced && unpriced === requests) return "unknown";
  return cost.toLocaleString("en-US", { style: "currency", currency: "USD", maximumFractionDigits: cost && cost < 1 ? 4 : 2 });
}
