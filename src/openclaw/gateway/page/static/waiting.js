/* Questions that wait because nobody could be asked when they arose. */

import { get } from "./api.js";
import { bar, emptyState, h, Trouble } from "./dom.js";
import { Question } from "./questions.js";
import { moment } from "./words.js";

const LOOK = 5000; // milliseconds between two looks
const CHOICES = [
  { id: "once", label: "Once", allows: true },
  { id: "no", label: "No", allows: false },
];

/** Asks the gateway now and then, and tells `onchange` when the questions changed. */
export class WaitingQuestions {
  constructor(onchange) {
    this.onchange = onchange;
    this.list = [];
    this.key = "";
  }

  start() {
    this.look();
    this.timer = setInterval(() => !document.hidden && this.look(), LOOK);
  }

  stop() {
    clearInterval(this.timer);
  }

  async look() {
    const { questions } = await get("/api/questions").catch(() => ({ questions: this.list }));
    const key = questions.map((one) => one.id).join(" ");
    if (key === this.key) return;
    this.key = key;
    this.list = questions;
    this.onchange();
  }

  of(agent, session) {
    return this.list.filter((one) => one.agent === agent && one.sessionKey === session);
  }
}

/** A question with its buttons; an answer takes effect in its session at once. */
function waitingNode(question, answered) {
  const one = new Question({ kind: "permission", text: question.title, choices: CHOICES, continues: true, onanswered: answered, ...question });
  return one.element;
}

/** The questions of one conversation, below its messages; those shown keep what was typed. */
export class WaitingBox {
  constructor(answered) {
    this.answered = answered;
    this.shown = new Map();
    this.element = h("div", { className: "unanswered", hidden: true });
  }

  show(questions) {
    const wanted = new Set(questions.map((one) => one.id));
    for (const [id, node] of this.shown) {
      if (wanted.has(id)) continue;
      node.remove();
      this.shown.delete(id);
    }
    for (const one of questions) {
      if (this.shown.has(one.id)) continue;
      const node = waitingNode(one, this.answered);
      this.shown.set(one.id, node);
      this.element.append(node);
    }
    this.element.hidden = !questions.length;
  }
}

export class QuestionsView {
  constructor(app) {
    this.app = app;
    this.trouble = new Trouble();
    this.cards = h("div", { className: "cards" });
    this.shown = new Map();
    this.element = h("section", { className: "view", "aria-label": "Questions" }, bar(app, "Questions"), h("div", { className: "panel" }, this.trouble.element, this.cards));
  }

  show() {
    this.draw();
    this.app.waitingQuestions.look();
  }

  draw() {
    const { list } = this.app.waitingQuestions;
    const cards = list.map((one) => this.shown.get(one.id) ?? this.#card(one));
    this.shown = new Map(list.map((one, at) => [one.id, cards[at]]));
    if (!cards.length) cards.push(emptyState("check", "No question waits for you", "If a call needs your approval while nobody is there, it isn't made, and the question waits here."));
    this.cards.replaceChildren(...cards);
  }

  #card(question) {
    const { id, agent, sessionKey, origin, createdAt, expiresAt } = question;
    const chat = h("a", { className: "button small", href: `#/chat/${encodeURIComponent(agent)}/${encodeURIComponent(sessionKey)}`, "aria-label": `Chat of question ${id}` }, "Open chat");
    const about = `${id} · asked ${moment(createdAt)} · expires ${moment(expiresAt)} · ${origin === "cron" ? "schedule" : "session"} ${sessionKey.replace(/^cron:/, "")}`;
    return h("article", { className: "waiting-card" }, waitingNode(question, () => this.app.waitingQuestions.look()), h("div", { className: "waiting-foot" }, h("p", { className: "quiet" }, about), chat));
  }
}
