/* The gateway's events while the page is open; reconnects by itself. */

import { ApiError, stream } from "./api.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
const HIDDEN_PATIENCE = 60_000; // browsers allow six connections per host, so a hidden tab closes its own

/** Passes on events by name, and `state` with `live`, `lost` or `off`. */
export class GatewayEvents extends EventTarget {
  #abort = null;
  #hidden = null;
  #wait = FIRST_WAIT;
  #wake = () => {};
  #running = false;
  state = "off";

  constructor() {
    super();
    document.addEventListener("visibilitychange", () => this.#visibility());
    window.addEventListener("online", () => this.#wake());
  }

  /** Listen until `stop`. */
  async start() {
    if (this.#running) return;
    this.#running = true;
    while (this.#running) {
      try {
        await this.#listen();
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) return this.stop();
      }
      if (!this.#running) return;
      this.#to("lost");
      await this.#pause();
    }
  }

  /** Stop listening. */
  stop() {
    this.#running = false;
    this.#abort?.abort();
    this.#wake();
    this.#to("off");
  }

  /** Try again now if waiting to reconnect. */
  retry() {
    this.#wait = FIRST_WAIT;
    this.#wake();
  }

  async #listen() {
    this.#abort = new AbortController();
    for await (const [name, data] of stream("GET", "/api/events", { signal: this.#abort.signal })) {
      this.#wait = FIRST_WAIT;
      if (name === "hello") this.#to("live");
      this.dispatchEvent(new CustomEvent(name, { detail: data }));
    }
  }

  #pause() {
    const wait = this.#wait * (0.75 + Math.random() / 2); // so that many pages don't reconnect at once
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT);
    return new Promise((resolve) => {
      const timer = document.hidden ? 0 : setTimeout(resolve, wait);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #visibility() {
    clearTimeout(this.#hidden);
    if (document.hidden) this.#hidden = setTimeout(() => this.#abort?.abort(), HIDDEN_PATIENCE);
    else this.retry();
  }

  #to(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}
