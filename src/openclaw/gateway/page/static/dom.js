/* Building the page. Text always stays text: nothing here parses HTML. */

/**
 * An element. `props` are properties (`className`, `onclick`), `data-*`, `aria-*` and `role`;
 * children are nodes or strings; null and false are left out.
 */
export function h(tag, { dir, ...props } = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  add(element, children);
  // Last: a browser would recompute the direction for every child, which takes quadratic time.
  if (dir !== undefined) element.dir = dir;
  return element;
}

/** Append nodes and strings. */
export function add(element, children) {
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** A banner with the error of a failed fetch, until the next one succeeds. */
export class Trouble {
  constructor() {
    this.element = h("div", { className: "banner error", role: "alert", hidden: true });
  }

  async during(work) {
    try {
      await work();
      this.say(null);
    } catch (error) {
      this.say(error.message);
    }
  }

  say(words) {
    this.element.hidden = !words;
    this.element.textContent = words ?? "";
  }
}

let pressed = false; // whether a button or link is being clicked
const released = () => setTimeout(() => (pressed = false), 50); // the click follows the release
document.addEventListener("pointerdown", ({ target }) => (pressed = target.closest("button, a") !== null), true);
for (const name of ["pointerup", "pointercancel", "contextmenu"]) document.addEventListener(name, released, true);
window.addEventListener("blur", released);

/** Wait until nothing is being clicked: a button that is redrawn or moved meanwhile loses its click. */
export async function afterClick() {
  while (pressed) await new Promise((resolve) => setTimeout(resolve, 25));
}

const SVG = "http://www.w3.org/2000/svg";
const PATHS = {
  chat: "M4 5.5h16v11H9.5L5 20v-3.5H4z",
  servers: "M4 5h16v6H4zM4 13h16v6H4zM7.5 8h.01M7.5 16h.01",
  logs: "M5 6h14M5 10h14M5 14h9M5 18h6",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7M10 10.5v5.5M14 10.5v5.5",
  menu: "M4 7h16M4 12h16M4 17h16",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  clip: "M18.5 11l-6.8 6.8a4 4 0 0 1-5.7-5.7l7.5-7.5a2.7 2.7 0 0 1 3.8 3.8l-7.3 7.3a1.3 1.3 0 0 1-1.9-1.9l6.4-6.4",
  restart: "M19 12a7 7 0 1 1-2.1-5M19 4v4h-4",
  file: "M7 3.5h7l4 4V20.5H7zM14 3.5v4h4",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5L20 20",
  check: "M5 12.5l4.5 4.5L19 7.5",
  alert: "M12 4l9 16H3zM12 10v4.5M12 17.3h.01",
  tool: "M14.5 6.5a4 4 0 0 0-5.3 5L4 16.7 7.3 20l5.2-5.2a4 4 0 0 0 5-5.3l-2.6 2.6-2.5-2.5z",
  auto: "M12 3.5a8.5 8.5 0 1 0 0 17zM12 3.5a8.5 8.5 0 0 1 0 17",
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M18.7 5.3l-1.4 1.4M6.7 17.3l-1.4 1.4",
  dark: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
  leave: "M14 4.5H5v15h9M10 12h10M16.5 8.5L20 12l-3.5 3.5",
  copy: "M9 9h10v11H9zM5 15V4h10",
  down: "M12 5v14M6 13l6 6 6-6",
  edit: "M5 19l1-4L16.5 4.5l3 3L9 18zM14 7l3 3",
  more: "M5.5 12h.01M12 12h.01M18.5 12h.01",
  undo: "M8 5L4 9l4 4M4 9h10a5.5 5.5 0 0 1 0 11h-4",
  clock: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17zM12 7.5V12l3 2.5",
  usage: "M5 20V11M12 20V4M19 20v-6",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
  lock: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  book: "M5 5.5A2.5 2.5 0 0 1 7.5 3H19v14H7.5A2.5 2.5 0 0 0 5 19.5zM5 19.5A2.5 2.5 0 0 0 7.5 21H19v-4",
  folder: "M3.5 6h6l2 2.5h9V19h-17z",
  play: "M8 5l11 7-11 7z",
  pause: "M8 5v14M16 5v14",
};

/** A line icon, hidden from screen readers, so its button needs a label. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "icon");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** A button with an icon and, unless `label` is shown too, an accessible name. */
export function iconButton(name, label, onclick, props = {}) {
  return h("button", { type: "button", className: "icon-button", "aria-label": label, title: label, onclick, ...props }, icon(name));
}

/** Announce something to screen readers. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

/** Show that something went wrong, until it is dismissed or ten seconds have passed. */
export function toast(message, hint = "") {
  const close = () => box.remove();
  const box = h(
    "div",
    { className: "toast" },
    icon("alert"),
    h("div", { className: "toast-text" }, h("strong", {}, message), hint && h("span", {}, hint)),
    iconButton("close", "Dismiss", close),
  );
  document.getElementById("toasts").append(box);
  setTimeout(close, 10_000);
}

/** Ask before something that cannot be undone; resolves to true or false. */
export function confirmed(question, detail, action) {
  return inDialog(question, { action, danger: true }, h("p", { className: "dialog-detail" }, detail));
}

/**
 * Show something in a dialog; resolves to true once `work` (if any) has succeeded, to false if it was
 * cancelled. If `work` throws, the dialog shows the error and stays open.
 */
export function inDialog(title, { action, danger = false, wide = false, work = null, cancel = true }, ...content) {
  return new Promise((resolve) => {
    const problem = h("p", { className: "form-error", role: "alert" });
    const go = h("button", { type: "submit", className: `button ${danger ? "danger" : "primary"}` }, action);
    const form = h(
      "form",
      { method: "dialog", noValidate: true, onsubmit: (event) => submit(event) },
      h("h2", { id: "dialog-title" }, title),
      ...content,
      problem,
      h("div", { className: "dialog-buttons" }, cancel && h("button", { type: "button", className: "button", onclick: () => dialog.close("no") }, "Cancel"), go),
    );
    const dialog = h("dialog", { className: wide ? "dialog wide" : "dialog", "aria-labelledby": "dialog-title" }, form);

    async function submit(event) {
      event.preventDefault();
      go.disabled = true;
      problem.textContent = "";
      try {
        await work?.();
        dialog.close("yes");
      } catch (error) {
        problem.textContent = [error.message, error.hint].filter(Boolean).join(". ");
      }
      go.disabled = false;
    }

    const before = document.activeElement;
    dialog.addEventListener("close", () => {
      dialog.remove();
      before?.focus?.({ preventScroll: true });
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

let labels = 0;

/** A form field below its label, with a line of help. */
export function field(label, input, help = "") {
  input.id ||= `field-${(labels += 1)}`;
  const hint = help ? h("small", { className: "quiet", id: `${input.id}-help` }, help) : null;
  if (hint) input.setAttribute("aria-describedby", hint.id);
  return h("div", { className: "field" }, h("label", { for: input.id }, label), input, hint);
}

/** The header of a view: the menu button, its title and its buttons. */
export function bar(app, title, ...buttons) {
  return h("header", { className: "bar" }, app.menuButton(), h("h1", { tabIndex: -1 }, title), ...buttons);
}

/** What a panel shows while there is nothing else to show. */
export function emptyState(name, title, detail, ...more) {
  return h("div", { className: "empty" }, h("div", { className: "empty-icon" }, icon(name)), h("h2", {}, title), h("p", {}, detail), ...more);
}

/** A button that copies a text and says so. */
export function copyButton(textOf) {
  const button = h("button", { type: "button", className: "copy", "aria-label": "Copy" }, icon("copy"));
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(textOf());
      button.replaceChildren(icon("check"));
      announce("Copied");
    } catch {
      toast("The browser doesn't allow this page to copy");
    }
    setTimeout(() => button.replaceChildren(icon("copy")), 1500);
  };
  return button;
}
