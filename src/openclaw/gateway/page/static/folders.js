/* Choosing the folder that a chat works in. */

import { call, get, path } from "./api.js";
import { field, h, icon, inDialog } from "./dom.js";

/** The last part of a path. */
export function folderName(place) {
  return place.split(/[\\/]/).filter(Boolean).at(-1) ?? place;
}

/**
 * Let the person choose a folder: one that chats have used before, or any other. Resolves to the folder,
 * to null for the agent's own (`home`), and to undefined if they cancel.
 */
export async function chooseFolder(agent, current, home) {
  const { folders } = await get(path(["folders"], { agent }));
  const known = [{ path: home, own: true }, ...folders.filter((one) => one.path !== home)];
  const input = h("input", { type: "text", autocomplete: "off", spellcheck: false, placeholder: "/home/me/project" });
  const choice = ({ path: place }) => h("label", { className: "check folder-choice" }, h("input", { type: "radio", name: "folder", value: place, checked: place === (current?.path ?? home) }), icon("folder"), h("span", {}, place));
  const list = h("fieldset", { className: "folder-choices" }, h("legend", {}, "Used before"), ...known.map(choice));
  let chosen = null;
  const work = async () => {
    const typed = input.value.trim();
    const picked = list.querySelector("input:checked")?.value;
    if (typed) chosen = await call("POST", "/api/folders", { path: typed });
    else chosen = known.find((one) => one.path === picked && !one.own) ?? null;
  };
  const done = await inDialog("Where should this chat work?", { action: "Use this folder", work }, list, field("Another folder", input, "A path on the computer that runs the gateway."));
  return done ? chosen : undefined;
}
