/* Images and files that go with the next message: dropped, pasted or picked. */

import { blob } from "./api.js";
import { h, icon, iconButton, toast } from "./dom.js";
import { nameOf, size } from "./words.js";

const MOST_IMAGES = 10;
const MOST_FILES = 5;
const LARGEST = 15 * 1024 * 1024;
const LARGEST_TOGETHER = 45 * 1024 * 1024; // base64 adds a third, and the gateway's limit is 64

const BY_ENDING = {
  jpg: "image/jpeg", jpeg: "image/jpeg", png: "image/png", gif: "image/gif", webp: "image/webp",
  pdf: "application/pdf", txt: "text/plain", log: "text/plain", md: "text/markdown", markdown: "text/markdown",
  html: "text/html", htm: "text/html", csv: "text/csv", json: "application/json",
  mp3: "audio/mpeg", wav: "audio/wav", ogg: "audio/ogg", m4a: "audio/mp4", aac: "audio/aac", flac: "audio/flac", opus: "audio/opus",
  mp4: "video/mp4", webm: "video/webm", mov: "video/quicktime", avi: "video/x-msvideo",
  zip: "application/zip", gz: "application/gzip", tar: "application/x-tar", tgz: "application/x-compressed-tar",
};
const KNOWN = new Set(Object.values(BY_ENDING));

/** The types and extensions for a file picker. */
export const ACCEPT = [...KNOWN, ...Object.keys(BY_ENDING).map((ending) => `.${ending}`)].join(",");

function typeOf(file) {
  const given = file.type.split(";")[0].toLowerCase();
  if (KNOWN.has(given)) return given;
  const known = BY_ENDING[file.name.split(".").pop().toLowerCase()];
  if (known) return known;
  // Source code and the like is text, whatever the system calls it.
  return given.startsWith("text/") ? "text/plain" : null;
}

function refusal(file, type, taken) {
  if (type === null) return `${file.name}: this kind of file is not supported`;
  if (file.size === 0) return `${file.name} is empty`;
  if (file.size > LARGEST) return `${file.name} is too large (${size(file.size)}; the limit is ${size(LARGEST)})`;
  const alike = taken.filter((one) => one.image === type.startsWith("image/")).length;
  const most = type.startsWith("image/") ? MOST_IMAGES : MOST_FILES;
  if (alike >= most) return `A message can have at most ${most} ${type.startsWith("image/") ? "images" : "files"}`;
  const together = taken.reduce((sum, one) => sum + one.file.size, file.size);
  return together > LARGEST_TOGETHER ? `Attachments can have at most ${size(LARGEST_TOGETHER)} in total` : null;
}

/** The row of attachments; `taken` has them in order. */
export class Attachments {
  constructor(onchange) {
    this.element = h("ul", { className: "attachments", "aria-label": "Attachments", hidden: true });
    this.taken = [];
    this.onchange = onchange;
  }

  take(files) {
    for (const file of files) {
      const type = typeOf(file);
      const reason = refusal(file, type, this.taken);
      if (reason) toast(reason);
      else this.#add(file, type);
    }
    this.#changed();
  }

  #add(file, type) {
    const image = type.startsWith("image/");
    const one = { file, type, image, url: image ? URL.createObjectURL(file) : null };
    one.element = h(
      "li",
      { className: "attachment" },
      preview(one),
      iconButton("close", `Remove ${file.name}`, () => this.#remove(one)),
    );
    this.taken.push(one);
    this.element.append(one.element);
  }

  #remove(one) {
    one.element.remove();
    if (one.url) URL.revokeObjectURL(one.url);
    this.taken = this.taken.filter((other) => other !== one);
    this.#changed();
  }

  #changed() {
    this.element.hidden = this.taken.length === 0;
    this.onchange();
  }

  /** Return all attachments and clear the row. */
  release() {
    const { taken } = this;
    this.taken = [];
    this.element.replaceChildren();
    this.#changed();
    return taken;
  }

  /** Restore attachments that could not be sent. */
  restore(items) {
    this.take(items.map((one) => one.file));
  }
}

/** An attachment as shown: a small picture, or a name and a size. */
export function preview({ file, image, url }) {
  if (image) return h("img", { src: url, alt: file.name, title: file.name });
  return h("span", { className: "file-chip" }, icon("file"), h("span", { className: "file-name" }, file.name), h("small", {}, size(file.size)));
}

/** An attachment of an earlier message, as one that can be sent again. */
export async function fetched(media, where) {
  const { mimeType } = media;
  const file = new File([await blob(where)], nameOf(media), { type: mimeType });
  const image = mimeType.startsWith("image/");
  return { file, type: mimeType, image, url: image ? URL.createObjectURL(file) : null };
}

/** An attachment in the gateway's format. */
export async function asMedia({ file, type }) {
  const url = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`${file.name} could not be read`));
    reader.readAsDataURL(file);
  });
  return { mimeType: type, data: url.slice(url.indexOf(",") + 1), name: file.name };
}
