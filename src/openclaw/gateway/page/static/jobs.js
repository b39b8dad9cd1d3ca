/* Scheduled jobs, and orders that outlive their request. */

import { call, get, path } from "./api.js";
import { afterClick, announce, bar, confirmed, emptyState, field, h, icon, inDialog, toast, Trouble } from "./dom.js";
import { foldedText } from "./pieces.js";
import { moment, plainTitle, when } from "./words.js";

const STATES = { working: ["Working", "connecting"], input_required: ["Waiting for an answer", "error"], completed: ["Done", "ready"], failed: ["Failed", "failed"], cancelled: ["Cancelled", "closed"] };
const RUNS = { running: "is running", ok: "ok", cancelled: "stopped", error: "failed", lost: "interrupted" };
const OPEN = new Set(["working", "input_required"]);

export class JobsView {
  constructor(app) {
    this.app = app;
    this.trouble = new Trouble();
    this.jobs = h("div", { className: "cards" });
    this.tasks = h("div", { className: "cards" });
    const add = h("button", { type: "button", className: "button small", onclick: () => this.#act(() => this.#add()) }, icon("plus"), "Add a job");
    this.element = h(
      "section",
      { className: "view", "aria-label": "Jobs and tasks" },
      bar(app, "Jobs and tasks", app.admin ? add : null),
      h("div", { className: "panel" }, this.trouble.element, h("h2", {}, "Scheduled jobs"), this.jobs, h("h2", {}, "Tasks"), this.tasks),
    );
    this.timer = null;
  }

  show() {
    this.#fetch();
    this.timer = setInterval(() => !document.hidden && this.#fetch(), 5000);
  }

  hide() {
    clearInterval(this.timer);
  }

  async #fetch() {
    await this.trouble.during(async () => {
      const [{ jobs }, { tasks }] = await Promise.all([get("/api/cron"), get("/api/tasks")]);
      const key = JSON.stringify([jobs, tasks]);
      if (key === this.drawn) return; // so that a focused button keeps the focus
      await afterClick();
      this.drawn = key;
      this.jobs.replaceChildren(...(jobs.length ? jobs.map((one) => this.#job(one)) : [emptyState("clock", "Nothing is scheduled", "Have the agent do something every morning, or once next week.")]));
      this.tasks.replaceChildren(...(tasks.length ? tasks.map((one) => this.#task(one)) : [emptyState("check", "No tasks", "A long order from an MCP client becomes a task and is listed here until it expires.")]));
    });
  }

  async #act(work) {
    try {
      await work();
    } catch (error) {
      toast(error.message, error.hint);
    }
    await this.#fetch();
  }

  #button(words, label, act) {
    return h("button", { type: "button", className: "button small", "aria-label": label, onclick: () => this.#act(act) }, words);
  }

  // ---- schedules

  #job({ id, when: words, message, timezone, agent, sessionKey, paused, nextAt, lastAt, lastOutcome }) {
    const next = paused ? "paused" : nextAt === null ? "finished" : `next ${moment(nextAt)}`;
    const last = lastAt && h("p", { className: lastOutcome === "error" || lastOutcome === "lost" ? "quiet bad" : "quiet" }, `Last run ${moment(lastAt)}: ${RUNS[lastOutcome] ?? lastOutcome}`);
    const chat = h("a", { className: "button small", href: `#/chat/${encodeURIComponent(agent ?? this.app.agents[0].id)}/${encodeURIComponent(sessionKey)}`, "aria-label": `Chat of ${id}` }, "Open chat");
    const buttons = [
      this.#button("Run now", `Run ${id} now`, () => call("POST", path(["cron", id, "run"]), {}).then(() => announce(`${id} is running`))),
      this.#button(paused ? "Resume" : "Pause", `${paused ? "Resume" : "Pause"} ${id}`, () => call("POST", path(["cron", id, "pause"]), { paused: !paused })),
      this.#button("Remove", `Remove ${id}`, async () => {
        if (await confirmed(`Remove ${id}?`, `“${message}” will no longer run.`, "Remove")) await call("DELETE", path(["cron", id]));
      }),
    ];
    return h(
      "article",
      { className: "card", "data-state": paused ? "disabled" : "ready" },
      h("div", { className: "card-head" }, h("h3", { className: "card-title" }, id), h("span", { className: "badge" }, next)),
      h("p", { dir: "auto" }, message),
      h("p", { className: "quiet" }, `${words} · ${timezone}${this.app.agents.length > 1 ? ` · ${agent}` : ""}`),
      ...(last ? [last] : []),
      h("div", { className: "card-buttons" }, chat, ...(this.app.admin ? buttons : [])),
    );
  }

  async #add() {
    const { agents } = this.app;
    const time = h("input", { type: "text", autocomplete: "off", placeholder: "weekdays 8:00" });
    const message = h("textarea", { rows: 3, dir: "auto", placeholder: "What is new in the repository since yesterday?" });
    const name = h("input", { type: "text", autocomplete: "off", placeholder: "morning", maxLength: 64 });
    const agent = h("select", { className: "select" }, ...agents.map((one) => h("option", { value: one.id }, one.name || one.id)));
    const work = () => call("POST", "/api/cron", { when: time.value.trim(), message: message.value.trim(), name: name.value.trim() || null, agent: agent.value, timezone: Intl.DateTimeFormat().resolvedOptions().timeZone });
    const fields = [field("When", time, "Such as: weekdays 8:00, every 15 minutes, 2026-12-01 09:00, or a cron expression."), field("Message to the agent", message), field("Name (optional)", name)];
    if (agents.length > 1) fields.push(field("Agent", agent));
    if (await inDialog("Add a scheduled job", { action: "Add", work }, h("div", { className: "fields" }, ...fields))) announce("Added");
  }

  // ---- tasks

  #task({ id, title, status, statusMessage, agent, sessionKey, updatedAt }) {
    const [words, state] = STATES[status] ?? [status, ""];
    const body = h("div", { className: "task-body" });
    const details = h("details", { className: "tools-fold", ontoggle: () => details.open && this.#details(id, body) }, h("summary", {}, "Result"), body);
    const chat = h("a", { className: "button small", href: `#/chat/${encodeURIComponent(agent)}/${encodeURIComponent(sessionKey)}`, "aria-label": `Chat of ${title}` }, "Open chat");
    const stop = this.#button("Stop", `Stop ${title}`, () => call("POST", path(["tasks", id, "cancel"]), {}).then(() => announce("Asked it to stop")));
    return h(
      "article",
      { className: "card", "data-state": state },
      h("div", { className: "card-head" }, h("h3", { className: "card-title", dir: "auto" }, plainTitle(title)), h("span", { className: "badge" }, words)),
      h("p", { className: "quiet" }, [statusMessage, `changed ${when(updatedAt)}`].filter(Boolean).join(" · ")),
      details,
      h("div", { className: "card-buttons" }, chat, OPEN.has(status) ? stop : null),
    );
  }

  async #details(id, body) {
    try {
      const { questions, result, error } = await get(path(["tasks", id]));
      const asks = Object.values(questions).map((one) => h("p", {}, h("strong", {}, "It asks: "), one.params?.message ?? ""));
      const said = (result?.content ?? []).map((one) => (one.type === "text" ? foldedText(one.text) : h("p", { className: "quiet" }, one.type)));
      const failed = error ? [h("p", { className: "banner error" }, error.message ?? "It failed")] : [];
      const all = [...asks, ...said, ...failed];
      body.replaceChildren(...(all.length ? all : [h("p", { className: "quiet" }, "Nothing yet.")]));
    } catch (error) {
      body.replaceChildren(h("p", { className: "banner error" }, error.message));
    }
  }
}
