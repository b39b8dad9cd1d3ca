"""Judges whether a call changes something or sends something out. Doubt counts as an effect."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, cast

from openclaw.core.tools import JsonObject, json_list, json_object
from openclaw.policy.dataflow.text_values import (
    address,
    patterns,
    singular,
    split,
    word_lists,
    word_set,
)

# What a parameter is for: where something goes, what is acted on, how much, or plain content.

_ABSENT = object()


Role = Literal[
    "address", "handle", "target", "secret", "command", "path", "quantity", "content", "other"
]


@dataclass(frozen=True, slots=True)
class Value:
    """One leaf of a call's arguments. `parameter` is its path, as in `attachments.file_id`."""

    parameter: str
    text: str
    role: Role


def _by_word(kind: str) -> dict[str, Any]:
    """The name of the list that each word is in."""
    lists = word_lists(kind).items()
    return {word: name for name, rows in lists for row in rows for word in row.split()}


_ROLE_OF_WORD: Mapping[str, Role] = _by_word("role")
_EXIT_WORDS = word_set("exit_words")
_PATH_LIKE = re.compile(r"[~.]{0,2}/|\w+/[^\s@]*\.\w{1,5}$")
_NUMERIC = re.compile(r"[-+]?\d[\d.,]*|\d{4}-\d{2}-\d{2}.*|\d{1,2}:\d{2}.*")


def values_of(arguments: JsonObject, schema: JsonObject) -> Iterator[Value]:
    """Every leaf of the arguments except what the schema itself fixes (enum, constant, boolean)."""
    stack: list[tuple[str, object, list[JsonObject]]] = [
        (name, value, _property([schema], name, schema))
        for name, value in reversed(dict(arguments).items())
    ]
    while stack:
        path, value, parts = stack.pop()
        if isinstance(value, dict):
            entries = cast("dict[object, object]", value)
            stack.extend(
                (f"{path}.{key}", one, _property(parts, str(key), schema))
                for key, one in entries.items()
            )
            stack.extend((path, str(key), []) for key in entries if not str(key).isidentifier())
        elif isinstance(value, list | tuple):
            items = [one for part in parts for one in _alternatives(part.get("items"), schema)]
            stack.extend((path, one, items) for one in reversed(cast("list[object]", value)))
        elif not _is_constant(value, parts):
            text = str(value)
            yield Value(path, text, role_of(path, text, parts))


def role_of(path: str, text: str, parts: list[JsonObject]) -> Role:
    found = _by_name(path)
    if (
        address(text)
        and found not in ("content", "quantity")
        and not (found == "target" and set("@./").isdisjoint(text))
    ):
        return "address"
    if found == "handle" and _PATH_LIKE.match(text):
        return "path"
    if found in ("handle", "address") and len(text.split()) > 8:
        return "content"
    if found == "quantity" and not _NUMERIC.fullmatch(text) and not any(map(str.isdigit, text)):
        return "other"
    if found == "other" and (
        any(part.get("type") in ("integer", "number") for part in parts) or _NUMERIC.fullmatch(text)
    ):
        return "quantity"
    return found


def _by_name(path: str) -> Role:
    words = [singular(word) for word in reversed(split(path.rsplit(".", 1)[-1]))]
    if "id" in words or "ids" in words:
        return "target"
    roles: list[Role] = [_ROLE_OF_WORD[word] for word in words if word in _ROLE_OF_WORD]
    if "secret" in roles:
        return "secret"
    return roles[0] if roles else "other"


def _is_constant(value: object, parts: list[JsonObject]) -> bool:
    if value is None or isinstance(value, bool) or value == "":
        return True
    return any(
        value in json_list(part.get("enum")) or part.get("const", _ABSENT) == value
        for part in parts
    )


def _property(parts: list[JsonObject], name: str, root: JsonObject) -> list[JsonObject]:
    found = [json_object(part.get("properties")).get(name) for part in parts]
    return [one for part in found for one in _alternatives(part, root)]


def _alternatives(part: object, root: JsonObject, depth: int = 4) -> list[JsonObject]:
    schema = json_object(part)
    if not schema or not depth:
        return []
    name = str(schema.get("$ref", "")).rsplit("/", 1)[-1]
    definitions = json_object(root.get("$defs") or root.get("definitions"))
    found = [schema, *_alternatives(definitions.get(name), root, depth - 1)]
    for key in ("anyOf", "oneOf", "allOf"):
        for one in json_list(schema.get(key)):
            found += _alternatives(one, root, depth - 1)
    return found


Action = Literal[
    "read", "open an address", "send", "pay", "publish", "share", "invite", "create", "change",
    "delete", "book or buy", "run", "act",
]  # fmt: skip
_BY_TOOL_WORD: Mapping[str, Action] = _by_word("tool")
_ASKED = {action: "|".join(rows) for action, rows in word_lists("asked").items()}
_MONEY = word_set("money")
_REQUEST = patterns("request")
_MAY_BE_NOUN = word_set("may_be_noun")
_TELLING = word_set("telling")


def action_of(tool: str) -> Action:
    name = split(tool)
    action = _first_action(name)
    if action in ("send", "create") and _MONEY & set(name):
        return "pay"
    return "change" if action == "book or buy" and "git" in name else action


def _first_action(name: tuple[str, ...]) -> Action:
    """A leading verb decides; after a noun ("order_cancel") any verb that acts beats one that reads."""
    found = [word for word in name if word in _BY_TOOL_WORD]
    plain = [word for word in found if word not in _MAY_BE_NOUN]
    verbs: list[Action] = [_BY_TOOL_WORD[word] for word in plain or found]
    if not verbs:
        return "act"
    if verbs[0] == "read" and (name[0] not in _BY_TOOL_WORD or "and" in name):
        acting: list[Action] = [action for action in verbs if action != "read"]
        return acting[0] if acting else "read"
    return verbs[0]


def asked_for(action: Action, tool: str, request: str) -> bool:
    return any(_is_request(match, request) for match in _pattern(action, tool).finditer(request))


@lru_cache(maxsize=1024)
def _pattern(action: Action, tool: str) -> re.Pattern[str]:
    own = [
        word for word in split(tool) if len(word) > 2 and (action == "act" or word in _BY_TOOL_WORD)
    ]
    words = "|".join([re.escape(word) for word in own] + [_ASKED.get(action, "(?!)")])
    return re.compile(rf"(?<![\w/.-])(?:{words})(?![\w-])")


def _is_request(match: re.Match[str], request: str) -> bool:
    before, after = request[max(0, match.start() - 30) : match.start()], request[match.end() :][:40]
    word = match.group()
    if _REQUEST["negated"].search(before):
        return False
    if word in _TELLING and _REQUEST["to_us"].match(after):
        return False
    noun = _REQUEST["noun_before"].search(before) or _REQUEST["noun_after"].match(after)
    return word not in _MAY_BE_NOUN or not noun


EffectClass = Literal["read", "open", "change", "send", "destroy"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool; `ours` works in the person's own workspace.

    `read_only` and `destructive` are its server's claims: they can make it more dangerous, rarely less.
    """

    server: str
    name: str
    schema: JsonObject = field(default_factory=dict[str, object])
    read_only: bool | None = None
    destructive: bool | None = None
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """`final` cannot be undone, so the person must name its object; `local` stays in the workspace."""

    action: Action
    changes: bool = False
    sends: bool = False
    final: bool = False
    why: str = ""
    local: bool = False

    @property
    def none(self) -> bool:
        return not (self.changes or self.sends)


SENDING = frozenset({"send", "pay", "publish", "share", "invite"})
_FINAL = frozenset({"delete", "pay", "book or buy"})
_OPENED = ("url", "uri", "link", "href", "endpoint", "webhook", "host", "proxy")
_SEEN_BY_OTHERS = word_set("seen_by_others")
_BY_CLASS: Mapping[EffectClass, Effect] = {
    "read": Effect("read", why="classified as a read"),
    "open": Effect("open an address", sends=True, why="classified as opening addresses"),
    "change": Effect("act", changes=True, why="classified as a change"),
    "send": Effect("send", changes=True, sends=True, why="classified as sending"),
    "destroy": Effect("delete", changes=True, final=True, why="classified as destructive"),
}


def effect_of(tool: Tool, table: Mapping[str, EffectClass]) -> Effect:
    """`table` maps `server/tool` to a class and overrides everything else."""
    action = action_of(tool.name)
    listed = table.get(f"{tool.server}/{tool.name}")
    if listed is not None:
        effect = _BY_CLASS[listed]
        # The table says how dangerous; the name still says which verb the person would use.
        keeps = effect.none or action in ("read", "act")
        return effect if keeps else replace(effect, action=action)
    if action in ("read", "open an address"):
        return _of_reading(tool, action)
    if action == "act" and tool.read_only and not _has_exit(tool):
        return Effect("read", why="says that it only reads, and its name does not contradict")
    return _of_changing(tool, action)


def _of_reading(tool: Tool, action: Action) -> Effect:
    if tool.destructive and tool.read_only is not True:
        return Effect(action, changes=True, final=True, why="says that it is destructive")
    if _has_exit(tool):
        return Effect(
            "open an address", sends=True, why="takes an address, so it can send data there"
        )
    return Effect("read", why="its name says that it reads")


def _of_changing(tool: Tool, action: Action) -> Effect:
    sends = action in SENDING or bool(_SEEN_BY_OTHERS & set(split(tool.name))) or _has_exit(tool)
    final = action in _FINAL or (tool.destructive is True and action == "act")
    why = "its name does not say what it does" if action == "act" else "its name says so"
    return Effect(action, changes=True, sends=sends, final=final, why=why)


def _has_exit(tool: Tool) -> bool:
    exits = [
        name.lower()
        for name, part in json_object(tool.schema.get("properties")).items()
        if json_object(part).get("format") in ("uri", "url", "email", "hostname")
        or not _EXIT_WORDS.isdisjoint(map(singular, split(name)))
    ]
    if action_of(tool.name) == "read":
        # A reader that looks something up by address (`search(sender=…)`) opens nothing.
        return any(word in name for name in exits for word in _OPENED)
    return bool(exits)
