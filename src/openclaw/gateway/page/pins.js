/* What a server says of itself has changed since it was accepted: look at it, and accept it or not. */

import { call, get, path } from "./api.js";
import { announce, confirmed, h, toast } from "./dom.js";
import { foldedText } from "./pieces.js";
import { count } from "./words.js";

/** Shown on a server's card while something waits to be accepted. */
export class PinBox {
  constructor() {
    this.element = h("div", { className: "banner warning pins", hidden: true });
    this.key = null;
  }

  /** Ask for the details only where the server's state says that there is something. */
  update(server) {
    const pending = Boolean(server.pin && (server.pin.differs ?? server.pin.pending ?? server.pin === "changed"));
    this.name = server.name;
    if (!pending) {
      this.element.hidden = true;
      this.key = null;
      return;
    }
    const key = JSON.stringify([server.since, server.pin]);
    if (key === this.key) return;
    this.key = key;
    this.#load();
  }

  async #load() {
    try {
      const { changes } = await get(path(["servers", this.name, "pins"]));
      this.#draw(changes);
    } catch (error) {
      this.key = null;
      this.element.hidden = false;
      this.element.textContent = error.message;
    }
  }

  #draw(changes) {
    this.element.hidden = changes.length === 0;
    this.element.replaceChildren(
      h("p", {}, h("strong", {}, `${count(changes.length, "declaration")} changed since you accepted this server.`), " Read what is new before the agent may rely on it."),
      ...changes.map((one) => h("details", {}, h("summary", {}, `${one.what}: ${one.name}`), one.diff ? foldedText(one.diff) : null)),
      h("button", { type: "button", className: "button small", onclick: () => this.#accept(changes) }, "Accept as it is now"),
    );
  }

  async #accept(changes) {
    const sure = await confirmed(`Accept what ${this.name} says now?`, `${count(changes.length, "declaration")} will be pinned as shown.`, "Accept");
    if (!sure) return;
    try {
      await call("POST", path(["servers", this.name, "pins"]), { names: changes.map((one) => one.key) });
      announce("Accepted");
      this.element.hidden = true;
    } catch (error) {
      toast(error.message, error.hint);
    }
  }
}
