"""Writes the pages of docs/reference that are made from the program itself.

.venv/bin/python scripts/generate_reference.py           writes them
.venv/bin/python scripts/generate_reference.py --check   says which are out of date
"""

import base64
import inspect
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args
from urllib.parse import quote

from manpage import all_parsers
from tests.support import protocol_features

from openclaw.agent.event_codec import _NAMES, _camel
from openclaw.cli.run_command import _help
from openclaw.config.load import unsupported_names
from openclaw.config.show import json_schema
from openclaw.core.events import Event
from openclaw.gateway import http_server  # has all routes, which the document describes
from openclaw.policy.command_forms import FORMS

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "reference"
NOTE = "<!-- Written by scripts/generate_reference.py; do not edit. -->\n\n"
FOREIGN = "Belongs to a feature of the original OpenClaw that is not supported; ignored."
Json = dict[str, Any]


# --- configuration ---------------------------------------------------------------------------------


def config_page() -> str:
    """Every key of openclaw.json."""
    schema = json_schema()
    parts = [
        NOTE + "# Configuration\n",
        "`openclaw.json` is JSON5. [Files](files.md) says where it is. `openclaw config validate` lists every",
        "mistake with its line and column, `openclaw config schema` prints the JSON Schema that this page is",
        "generated from, and `openclaw config show` prints the effective configuration, without secrets.\n",
        "`${VAR}` in a string is replaced by that environment variable; write `$${` for a literal `${`. For",
        "credentials, use a [`secret://` reference](secret-references.md). `*` in a key is a name of your choice,",
        "`[]` is each entry of a list. Any other key is an error that suggests the nearest known one, except for",
        "those [at the end](#settings-of-the-original-that-are-not-used).\n",
        "A running gateway, `chat` or `mcp-server` applies a change from the next turn on, unless the table says",
        "`at once` or `after a restart`. `openclaw config explain KEY` says it for one key.",
    ]
    first: dict[str, str] = {}
    for path, definition, name in _sections(schema, schema, "", "Config", first):
        title = f"`{path}`" if path else "Top level"
        parts.append(f"\n## {title}\n\n{definition['description']}\n")
        if first[name] != path:
            parts.append(f"The same keys as under [`{first[name]}`](#{_anchor(first[name])}).")
            continue
        parts.append("| key | type | default | a change applies | |\n|---|---|---|---|---|")
        for key, value in definition["properties"].items():
            if value.get("description") != FOREIGN:
                place = f"{path}.{key}" if path else key
                parts.append(_row(place, key, value, key in definition.get("required", ())))
    parts.append(_foreign_part())
    return "\n".join(parts) + "\n"


def _sections(
    schema: Json, definition: Json, path: str, name: str, seen: dict[str, str]
) -> Iterator[tuple[str, Json, str]]:
    """Every place where a section stands. What is inside of it is listed once, where it comes first."""
    first = name not in seen
    seen.setdefault(name, path)
    yield path, definition, name
    for key, value in definition["properties"].items() if first else ():
        for suffix, inner in _references(value):
            place = f"{path}.{key}{suffix}" if path else f"{key}{suffix}"
            yield from _sections(schema, schema["$defs"][inner], place, inner, seen)


def _references(value: Json) -> Iterator[tuple[str, str]]:
    """The sections that a value may be, each with what is added to the key."""
    if "$ref" in value:
        yield "", value["$ref"].rpartition("/")[2]
    for one in value.get("anyOf", ()):
        yield from _references(one)
    if isinstance(more := value.get("additionalProperties"), dict):
        for suffix, name in _references(more):
            yield f".*{suffix}", name
    if isinstance(items := value.get("items"), dict):
        for suffix, name in _references(items):
            yield f"[]{suffix}", name


def _anchor(path: str) -> str:
    return "".join(c for c in path.casefold() if c.isalnum() or c in "-_")


def _row(place: str, key: str, value: Json, required: bool) -> str:
    default = "required" if required else _default(value)
    text = " ".join(value["description"].split()).replace("|", "\\|")
    kind = _type(value)
    for suffix, _ in _references(value):
        linked = f"[object](#{_anchor(place + suffix)})"
        kind = kind.replace("object", linked) if "object" in kind else f"{kind} of {linked}s"
    applies = {"now": "at once", "restart": "after a restart"}.get(value.get("x-applies", ""), "")
    return f"| `{key}` | {kind} | {default} | {applies} | {text} |"


def _default(value: Json) -> str:
    if "$ref" in value or "default" not in value or value["default"] in (None, [], {}):
        return ""
    return f"`{json.dumps(value['default'], ensure_ascii=False)}`"


def _type(value: Json) -> str:
    if "anyOf" in value:
        kinds = [_type(one) for one in value["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "$ref" in value:
        return "object"
    if "enum" in value:
        return ", ".join(f"`{json.dumps(one)}`" for one in value["enum"])
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    kind = value.get("type", "anything")
    if isinstance(kind, list):
        return ", ".join(kind)
    if kind == "array":
        if "enum" in value["items"]:
            return f"list of any of {_type(value['items'])}"
        return f"list of {_type(value['items'])}s" if "type" in value["items"] else "list"
    if kind == "object" and isinstance(value.get("additionalProperties"), dict):
        return "object by name"
    bounds = [
        f"{sign} {value[name]}"
        for name, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"))
        if name in value
        and value[name] < 2**53 - 1
        and not (name == "minimum" and value[name] == 0)
    ]
    return f"{kind} {', '.join(bounds)}".strip()


def _foreign_part() -> str:
    rows = [
        ("top level", ()),
        ("`agents.defaults`, `agents.list[]`", ("agents", "defaults")),
        ("`tools`", ("tools",)),
        ("`agents.*.tools`", ("agents", "defaults", "tools")),
        ("`tools.exec`", ("tools", "exec")),
        ("`gateway`", ("gateway",)),
        ("`gateway.auth`", ("gateway", "auth")),
        ("`gateway.reload`", ("gateway", "reload")),
        ("`logging`", ("logging",)),
        ("`media`", ("media",)),
        ("`mcp`", ("mcp",)),
        ("`models`", ("models",)),
        ("`models.providers.*`", ("models", "providers", "x")),
        ("`models.providers.*.models[]`", ("models", "providers", "x", "models", 0)),
        ("`secrets`", ("secrets",)),
    ]
    lines = [
        "\n## Settings of the original that are not used\n",
        "They belong to features of the original OpenClaw that are not supported. They stay in the file, with a warning.\n",
        "| where | keys |\n|---|---|",
    ]
    for title, path in rows:
        names = ", ".join(f"`{name}`" for name in sorted(unsupported_names(path)))
        lines.append(f"| {title} | {names} |")
    return "\n".join(lines)


# --- commands --------------------------------------------------------------------------------------


def cli_page() -> str:
    """Every command's --help."""
    parts = [
        NOTE + "# Commands\n",
        "The output of `--help` for every command. `clawdbot` is the same program under its older name; its",
        "`mcp-server` offers `order_clawdbot`. See also [exit codes](exit-codes.md),",
        "[environment variables](environment.md) and [files](files.md).\n",
        f"```text\n{_help('openclaw').rstrip()}\n```",
    ]
    for words, parser in all_parsers("openclaw"):
        level = "#" * (2 + words.count(" "))
        text = parser.format_help().rstrip()
        parts.append(f"\n{level} openclaw {words}\n\n```text\n{text}\n```")
    return "\n".join(parts) + "\n"


# --- events and addresses --------------------------------------------------------------------------


def events_page() -> str:
    """What happens, as front ends and the gateway's clients are told of it."""
    parts = [
        NOTE + "# Events\n",
        "Events during a turn and about servers, as in `openclaw.core.events`. The [gateway](http-api.md) sends",
        "them as server-sent events (`GET /api/events`, `POST /api/messages`) with the names and JSON fields",
        "below.\n",
        "`GET /api/events` starts with `hello`. A stream of `POST /api/messages` starts with `accepted` and",
        "ends with `reply` or `error`; with `questions: true` it may contain a `question`, which you answer",
        "with a separate request ([HTTP API](http-api.md)).\n",
    ]
    for kind in get_args(Event):
        text = " ".join(inspect.getdoc(kind).split())
        parts.append(f"## `{_NAMES[kind]}`\n\n{text}\n\n| field | type |\n|---|---|")
        parts += [f"| `{_camel(one.name)}` | {_event_type(one.type)} |" for one in fields(kind)]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


_JSON_TYPES = {
    "str": "string",
    "Outcome": "string",
    "float": "number",
    "int": "number",
    "tuple": "list",
}


def _event_type(kind: Any) -> str:
    if isinstance(kind, UnionType):
        return " or ".join(_event_type(one) for one in get_args(kind))
    if kind is NoneType:
        return "null"
    return _JSON_TYPES.get(kind.__name__, "object")


def http_page() -> str:
    """The gateway's own interface, from its OpenAPI document."""
    described = http_server.document("http://127.0.0.1:18789")
    parts = [
        NOTE + "# HTTP API\n",
        "The gateway's own API, generated from the OpenAPI document that it serves at `/api/openapi.json`. See",
        "[the gateway](gateway.md) for who may use it, and for the OpenAI-compatible API under `/v1/`. Every",
        "request needs the header `Authorization: Bearer …`. The objects in",
        "lists and replies are described in [its answers](http-answers.md).\n",
        "| request | description | parameters | response |\n|---|---|---|---|",
    ]
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            parts.append(_operation_row(path, method, operation))
    parts.append("\n`GET /health`, `GET /ready` and `GET /metrics` are for monitoring.")
    parts += _access_part()
    for name, schema in described["components"]["schemas"].items():
        parts.append(f"\n## {name}\n\n| field | type | |\n|---|---|---|")
        for key, value in schema["properties"].items():
            needed = "required" if key in schema.get("required", ()) else ""
            text = "; ".join(filter(None, (needed, value.get("description", ""))))
            parts.append(f"| `{key}` | {_wire_type(value)} | {text} |")
    return "\n".join(parts) + "\n"


def _access_part() -> Iterator[str]:
    """Every route with what a token needs for it, and whose things it then reaches."""
    yield "\n## Who may do what\n"
    yield "Turns, tasks, responses, questions and attachments belong to their session. A session belongs to the token whose"
    yield "conversation it is, or to you. A token without the scope `read` reaches only what is its own: to it, other"
    yield "tokens' objects and yours don't exist. With `read` it also sees everyone's, and continues your sessions, but"
    yield "not another token's. `admin` includes everything.\n"
    yield "| request | scope | reaches |\n|---|---|---|"
    routes = http_server.endpoints_of_gateway()
    for one in sorted(routes, key=lambda one: (one.path, one.methods)):
        request = f"{one.methods} {one.path}".strip().replace(":path}", "}")
        scope = f"`{one.needs}`" if one.needs else "no token"
        yield f"| `{request}` | {scope} | {one.reach.label} |"


def _operation_row(path: str, method: str, operation: Json) -> str:
    query = [f"`{one['name']}`" for one in operation["parameters"] if one["in"] == "query"]
    if body := operation.get("requestBody"):
        query.append(_wire_type(body["content"]["application/json"]["schema"]))
    content = operation["responses"]["200"]["content"]
    answer = _wire_type(content["application/json"]["schema"])
    if "text/event-stream" in content:
        answer = f"[events](events.md); {answer}" if answer != "string" else "[events](events.md)"
    return f"| `{method.upper()} {path}` | {operation['summary']} | {', '.join(query)} | {answer} |"


def _wire_type(value: Json) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(_wire_type(one) for one in value["anyOf"])
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    if value.get("type") == "array":
        return f"list of {_wire_type(value['items'])}"
    if value.get("type") == "object" and value.get("properties"):
        inner = (f"`{key}`: {_wire_type(one)}" for key, one in value["properties"].items())
        return "; ".join(inner)
    return str(value.get("type", "anything"))


# --- forms of commands -----------------------------------------------------------------------------


def forms_page() -> str:
    """The commands that one approval can cover."""
    parts = [
        NOTE + "# Command forms\n",
        'An answer of "in this session" or "always" to a command covers exactly that command, or all commands of one',
        "of these forms. A form covers only the options that it names. A path has to be inside the directory that the",
        "command runs in, and no part of a command may be something that a shell would change. See",
        "[policies](../how-to/policy.md#when-you-are-asked).\n",
        "| rule | covers | options | options with a value |\n|---|---|---|---|",
    ]
    for form in FORMS:
        flags, values = (
            " ".join(f"`{one}`" for one in x) for x in (form.flags.split(), form.values)
        )
        does = f"{form.does[0].upper()}{form.does[1:]}"
        parts.append(f"| `exec({form.rule})` | {does} | {flags} | {values} |")
    return "\n".join(parts) + "\n"


# --- protocol --------------------------------------------------------------------------------------


def protocol_page() -> str:
    """What of MCP is there at which revision, each with its test."""
    return NOTE + protocol_features.page()


# --- install links ---------------------------------------------------------------------------------

_OFFERED = {
    "mcp-server": ("openclaw", "The agent, to give orders to"),
    "mcp-hub": ("openclaw-hub", "The hub, to use your MCP servers"),
}


def links_page() -> str:
    """What adds OpenClaw to a client without installing it first."""
    parts = [
        NOTE + "# Install links\n",
        "These add OpenClaw to a client in one step. uv must be installed: `uvx` fetches OpenClaw when the client",
        "first starts it. The links may be copied to other pages. If `openclaw` is installed already, the client",
        "can start it directly: see [the clients](../how-to/delegate.md).\n",
    ]
    for command, (name, title) in _OFFERED.items():
        entry = {"command": "uvx", "args": ["--from", "openclaw-runtime", "openclaw", command]}
        config = json.dumps(entry, separators=(",", ":"))
        in_base64 = quote(base64.b64encode(config.encode()).decode())
        line = " ".join([entry["command"], *entry["args"]])
        parts += [
            f"## {title}\n",
            f"- [VS Code](https://vscode.dev/redirect/mcp/install?name={name}&config={quote(config)})",
            f"- [Cursor](https://cursor.com/install-mcp?name={name}&config={in_base64})\n",
            f"Claude Code:\n\n<!-- doc: needs claude -->\n```sh\nclaude mcp add {name} -- {line}\n```\n",
            f"Codex:\n\n<!-- doc: needs codex -->\n```sh\ncodex mcp add {name} -- {line}\n```\n",
        ]
    return "\n".join(parts).rstrip() + "\n"


PAGES = {
    "install-links.md": links_page,
    "command-forms.md": forms_page,
    "config.md": config_page,
    "cli.md": cli_page,
    "events.md": events_page,
    "http-api.md": http_page,
    "protocol.md": protocol_page,
}


def main() -> int:
    os.environ["COLUMNS"] = "80"
    stale: list[str] = []
    for name, page in PAGES.items():
        path, text = TARGET / name, page()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"docs/reference/{name}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
