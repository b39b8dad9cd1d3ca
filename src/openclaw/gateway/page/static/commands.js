/* What a message can be besides words for the agent: a "/" and a name, as in the terminal. */

/** Commands with what they do. Those without `act` are sent, and the gateway carries them out. */
export const COMMANDS = {
  "/new": "Start a new chat",
  "/diff": "Show what this chat changed in files",
  "/undo": "Restore the files that the last turn changed; again: the turn before it",
  "/redo": "Take back the last undo",
  "/compact": "Summarise the chat so far, to free up context",
  "/model": "Choose the model of this chat",
  "/usage": "Show what was used today",
  "/help": "List the commands",
};

const SENT = new Set(["/undo", "/redo", "/compact"]);

/** The command that this text is, if the page itself carries it out. */
export function commandOf(text) {
  const name = text.trim().split(/\s/, 1)[0];
  return name in COMMANDS && !SENT.has(name) ? name : null;
}
