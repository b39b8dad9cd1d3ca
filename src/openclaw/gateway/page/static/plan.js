/* The model's plan, as a list. */

import { h, icon } from "./dom.js";

const TOOL = "update_plan";
const WORDS = { completed: "done", in_progress: "in progress", pending: "to do" };
const ICONS = { completed: "check", in_progress: "tool", pending: "plus" };

/** The list for a call that sets a plan; null for any other call. */
export function planNode(name, args) {
  if (name !== TOOL || !Array.isArray(args?.plan)) return null;
  const steps = args.plan.filter((one) => typeof one?.step === "string" && one.step.trim());
  return h("ol", { className: "plan", "aria-label": "Plan" }, steps.map(stepNode));
}

function stepNode({ step, status }) {
  const known = Object.hasOwn(WORDS, status) ? status : "pending";
  return h("li", { className: `plan-${known}` }, icon(ICONS[known]), h("span", { dir: "auto" }, step), h("span", { className: "unseen" }, ` (${WORDS[known]})`));
}
