/* Changes to the configuration: shown as a diff, applied when the person agrees. */

import { call, get } from "./api.js";
import { announce, h, inDialog, toast } from "./dom.js";

/** The configuration file as written, without secrets. */
export async function readConfig() {
  const { config } = await get("/api/config");
  return config;
}

/** The value at this path; undefined if there is none. */
export function at(config, path) {
  return path.reduce((node, part) => node?.[part], config);
}

/**
 * Show these changes as a diff, and apply them on request, after `first`; true once they are
 * applied.
 */
export async function propose(title, changes, first = null) {
  const looked = await call("POST", "/api/config", { changes });
  if (!looked.diff.length) {
    toast("Nothing to change: it is already set that way");
    return false;
  }
  let done = null;
  const made = await inDialog(
    title,
    {
      action: "Apply",
      wide: true,
      work: async () => {
        await first?.();
        done = await call("POST", "/api/config", { changes, apply: true, digest: looked.digest });
      },
    },
    h("p", { className: "dialog-detail" }, "This changes openclaw.json and leaves the rest of it unchanged."),
    diffNode(looked.diff),
    ...looked.warnings.map((one) => h("p", { className: "banner warning" }, one)),
  );
  if (made) announce("Saved");
  if (made && done.waiting.length) toast(`Saved. Restart the gateway for ${done.waiting.join(", ")} to take effect`);
  return made;
}

/** The lines of a diff; added and removed lines have a sign and a colour. */
export function diffNode(lines) {
  const kind = { "+": "added", "-": "removed", "@": "quiet" };
  return h("pre", { className: "plain diff", tabIndex: 0, "aria-label": "Changes" }, ...lines.map((line) => h("span", { className: kind[line[0]] ?? "" }, `${line}\n`)));
}
