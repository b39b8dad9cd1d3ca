"""The text of a first configuration file: commented, so that it explains itself. Pure."""

import json

from openclaw.config.edit import set_value
from openclaw.config.json5 import parse
from openclaw.config.keypath import KeyPath

MODEL: KeyPath = ("agents", "defaults", "model")

_NO_MODEL = '// model: "provider/model",'
_TEXT = """\
// OpenClaw's configuration. It is JSON5: comments and trailing commas are fine.
// `openclaw config schema` explains every key, `openclaw config validate` checks this file,
// `openclaw doctor` looks for problems, and `openclaw mcp add` adds a server to it.
{
  models: {
    // Where models come from, with their keys. A key never stands here itself but is named:
    // secret://env/NAME, secret://file/PATH, secret://keyring/SERVICE/USER, or one kept by gcp,
    // aws, vault, azure or op. `openclaw secrets check` tries each.
    providers: {
    },
  },
  agents: {
    // What every agent has; agents of their own go into `list: [{ id: "research", … }]`.
    defaults: {
      // The model that answers, as provider/model; local/… runs on this machine.
      // Left out, it is chosen by the keys that are in the environment.
      // model: "provider/model",

      // The directory that the agent works in. Left out: one in the state directory.
      // workspace: "~/work",

      // Which tools may be used, by name or pattern; deny wins, and a person must agree to `ask`.
      tools: {
        // allow: ["read", "mcp_time_*"],
        // deny: ["exec"],
        // ask: ["mcp_*_delete_*"],
      },

      // MCP servers, whose tools the agent may use: a `command` to start, or a `url`.
      // They get the variables under `env`, not your whole environment.
      mcp: {
        servers: {
        },
      },
    },
  },

  // The daemon (`openclaw gateway run`), which keeps the servers up for every front end.
  // gateway: { port: 18789, bind: "loopback" },
}
"""


def starter_text(model: str | None = None) -> str:
    """A file that says what could be changed, with this model, or else everything at its default."""
    if model is None:
        return _TEXT
    return _TEXT.replace(_NO_MODEL, f"model: {json.dumps(model, ensure_ascii=False)},")


def with_model(text: str, model: str) -> str:
    """The text with this model for every agent that names none itself."""
    chosen = parse(text).find(MODEL)
    detailed = chosen is not None and chosen.kind == "object"
    return set_value(text, (*MODEL, "primary") if detailed else MODEL, model)


def with_key(text: str, provider: str, variable: str) -> str:
    """The text with a provider's key read from this variable, unless it has one already."""
    place: KeyPath = ("models", "providers", provider, "apiKey")
    if parse(text).find(place) is not None:
        return text
    return set_value(text, place, f"secret://env/{variable}")
