/* Reviewing and accepting a server's changed declarations. */

import { call, path } from "./api.js";
import { announce, confirmed, h, toast } from "./dom.js";
import { foldedText } from "./pieces.js";
import { count } from "./words.js";

/** Shown on a server's card while changes wait to be accepted; then `onaccepted` is called. */
export class PinBox {
  constructor(onaccepted, mayAccept) {
    this.onaccepted = onaccepted;
    this.mayAccept = mayAccept;
    this.element = h("div", { className: "banner warning pins", hidden: true });
    this.drawn = "";
  }

  update(server, changes) {
    const key = JSON.stringify(changes);
    if (key === this.drawn) return; // an open fold stays open
    this.drawn = key;
    this.element.hidden = changes.length === 0;
    this.element.replaceChildren();
    if (changes.length === 0) return;
    this.element.append(
      h("p", {}, h("strong", {}, `${count(changes.length, "declaration")} ${changes.length === 1 ? "has" : "have"} changed since you accepted ${changes.length === 1 ? "it" : "them"}.`), " Review the changes before you accept them."),
      ...changes.map((one) => h("details", {}, h("summary", {}, `${one.what}: ${one.name}`), one.diff ? foldedText(one.diff) : null)),
      ...(this.mayAccept ? [h("button", { type: "button", className: "button small", onclick: () => this.#accept(server, changes) }, "Accept")] : []),
    );
  }

  async #accept(server, changes) {
    const sure = await confirmed(`Accept the changes of ${server}?`, `${count(changes.length, "declaration")} will be accepted as shown.`, "Accept");
    if (!sure) return;
    try {
      await call("POST", path(["servers", server, "pins"]), { names: changes.map((one) => one.key) });
      announce("Accepted");
    } catch (error) {
      toast(error.message, error.hint);
    }
    this.onaccepted();
  }
}
