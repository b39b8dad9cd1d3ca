"""Judges what a call can do, by the names and formats that its tool declares. Doubt counts as an effect.

The words below are those of programs' interfaces; no rule here reads what a user or a text says.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from openclaw.core.tools import JsonObject, json_list, json_object
from openclaw.policy.dataflow.text_values import (
    fold,
    is_date,
    kind_of,
    number,
    singular,
    split,
    whole_address,
)

_ABSENT = object()

# What a parameter is for: where something goes, what is acted on, how much, or plain content.
Role = Literal[
    "address", "handle", "target", "secret", "access", "command", "path", "amount", "constant", "content",
    "other",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Value:
    """One leaf of a call's arguments. `parameter` is its path, as in `attachments.file_id`."""

    parameter: str
    text: str
    role: Role


_ROLE_WORDS: Mapping[Role, str] = {
    "secret": "password passwd passphrase secret token apikey pin credential credentials",
    "access": "permission role scope visibility access acl grant privacy public anyone everyone world external "
    "guest admin force",
    "address": "url uri link href endpoint webhook host hostname domain site website email mail iban account "
    "wallet phone ip callback address proxy upstream registry server",
    "handle": "recipient to cc bcc user username channel group team assignee member participant attendee "
    "invitee owner contact person payee remote chat room destination receiver beneficiary reviewer "
    "collaborator audience login nick",
    "command": "command cmd script code sql shell expression program argv",
    "path": "path file filename directory dir folder filepath src source",
    "amount": "amount price quantity count total sum fee",
    "constant": "date time start end day duration due deadline month year hour minute from until timezone "
    "type kind format mode encoding language locale sort unit",
    "target": "id ids uuid guid sha key slug issue ticket pr index number",
    "content": "body content text message description title subject summary note comment caption location "
    "label tag reason html markdown question topic heading prompt query",
}  # fmt: skip
_ROLE_OF_WORD: Mapping[str, Role] = {
    word: role
    for role, listed in cast("Iterable[tuple[Role, str]]", _ROLE_WORDS.items())
    for word in listed.split()
}
_LONG_NUMBER = 8  # from that length on, it is rather a name than an amount
_PATH_LIKE = re.compile(r"[~.]{0,2}/|\w+/[^\s@]*\.\w{1,5}$")


def values_of(arguments: JsonObject, schema: JsonObject) -> Iterator[Value]:
    """Every leaf and every key that is data, except what the schema itself fixes.

    True counts where it opens something to others, as in `anyone_with_link`.
    """
    stack: list[tuple[str, object, list[JsonObject]]] = [
        (name, value, _property([schema], name, schema))
        for name, value in reversed(dict(arguments).items())
    ]
    while stack:
        path, value, parts = stack.pop()
        if isinstance(value, dict):
            entries = cast("dict[object, object]", value)
            declared = {name for part in parts for name in json_object(part.get("properties"))}
            for key, child in reversed(entries.items()):
                stack.append((f"{path}.{key}", child, _property(parts, str(key), schema)))
                named = role_by_name(path) in ("access", "handle") and str(key) not in declared
                if named or not str(key).isidentifier():
                    stack.append((path, str(key), []))
        elif isinstance(value, list | tuple):
            items = [one for part in parts for one in _alternatives(part.get("items"), schema)]
            stack.extend((path, one, items) for one in reversed(cast("list[object]", value)))
        elif value is True:
            yield Value(path, "true", "access")
        elif not _is_constant(value, parts):
            text = str(value)
            yield Value(path, text, role_of(path, text))


def role_of(path: str, text: str) -> Role:
    role = role_by_name(path)
    if role == "other" and _ROLE_OF_WORD.get(fold(text)) == "access":
        return "access"  # what it says is a permission, as in `sharing: public`
    if role in ("content", "secret", "amount", "constant", "command"):
        return role
    if role == "access" and number(text) is not None:
        return "amount"  # as in `guests: 2`
    if role in ("handle", "address") and is_date(text):
        return "constant"
    if role == "handle" and _PATH_LIKE.match(text):
        return "path"
    if role in ("handle", "address") and "@" in text[1:]:
        return "address"
    if role == "target" and "://" not in text and "@" not in text:
        return role
    atom = whole_address(text)
    if atom is not None and (role != "other" or kind_of(atom) != "account"):
        return "path" if role == "path" and "://" not in text else "address"
    return _role_without_address(role, text)


def _role_without_address(role: Role, text: str) -> Role:
    if role in ("handle", "address") and len(text.split()) > 8:
        return "content"
    if role == "address":
        return "handle"
    if role != "other" or number(text) is None:
        return role
    return "amount" if len(text) < _LONG_NUMBER else "handle"


def opens_something(path: str) -> list[str]:
    """The words of a switch that say that it lets others in or does away with something."""
    return [
        word for word in split(path) if _ROLE_OF_WORD.get(word) == "access" or word in _SWITCHES
    ]


def role_by_name(path: str) -> Role:
    """What the last name of a path says; if that says nothing, what the one before says."""
    inner, _, last = path.rpartition(".")
    role = _role_by_word(last)
    return role_by_name(inner) if role == "other" and inner else role


def _role_by_word(name: str) -> Role:
    listed = [singular(word) for word in reversed(split(name))]
    roles: list[Role] = [_ROLE_OF_WORD[word] for word in listed if word in _ROLE_OF_WORD]
    strong: tuple[Role, ...] = ("secret", "access", "amount")
    strongest: Role | None = next((role for role in roles if role in strong), None)
    if strongest is not None:
        return strongest
    if "id" in listed:
        return "target"
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


# What a call can do at worst: nothing; tell an address something; change what is the user's own and
# can be changed back; or what others see, what costs, and what cannot be undone.
Stake = Literal["nothing", "opens", "own", "reaches"]
EffectClass = Literal["read", "open", "change", "send", "destroy"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool; `ours` works in the user's own workspace.

    `read_only` and `destructive` are its server's claims: they can only make it more dangerous.
    """

    server: str
    name: str
    schema: JsonObject = field(default_factory=dict[str, object])
    read_only: bool | None = None
    destructive: bool | None = None
    ours: bool = False

    @property
    def label(self) -> str:
        return f"{self.server}/{self.name}"


@dataclass(frozen=True, slots=True)
class Effect:
    """`final` cannot be undone; `runs` executes what it is given; `why` says what it was judged by."""

    stake: Stake
    final: bool = False
    runs: bool = False
    why: str = ""

    @property
    def none(self) -> bool:
        return self.stake == "nothing"

    @property
    def action(self) -> str:
        if self.stake == "reaches":
            return "run" if self.runs else "destroy" if self.final else "send"
        return {"nothing": "read", "opens": "open an address", "own": "change"}[self.stake]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READS = _words(
    "get list read search find show describe check count view query lookup look summarize preview inspect is "
    "has can diff head tail cat ls grep glob tree stat recall retrieve calculate compare validate translate fetch browse "
    "download open visit navigate crawl scrape goto"
)
_OPENS = _words("fetch browse download open visit navigate crawl scrape goto")
# After a word that reads, one of these says that the tool does more than that.
_ACTS = _words(
    "add create delete remove insert update set write edit modify rename move send cancel execute approve "
    "revoke grant pay buy clear purge drop merge close publish deploy upload invite reset enable disable install "
    "archive mark assign unlock lock kill stop start restart resolve verify accept reject confirm submit forward reply "
    "replace subscribe unsubscribe truncate launch"
)
# Changes something of the user's own that can be changed back, if nothing else in the call reaches others.
_OWN = _words(
    "add create append write save put set update edit rename move copy mark label tag star pin complete "
    "archive draft schedule reschedule remind note log record toggle dim turn play pause insert remember make "
    "cart unstar unpin reopen sort snooze"
)
# The same whatever it is about: nobody else sees a label or a draft.
_QUIET = _words("mark label tag star unstar pin unpin archive draft snooze sort cart")
_WEIGHTY = _words(
    "repo repository user member account invoice payment order domain branch release project"
)
_RUNS = _words("run exec execute eval shell bash terminal sh spawn python invoke command script")
_FINAL = _words(
    "delete remove destroy purge drop erase wipe truncate uninstall terminate kill empty clear rm unlink"
)
# What others see, what moves money, what lets somebody in, and what others follow.
_SHARED = _words(
    "comment issue pull pr gist tweet post review reply discussion release webhook message email sms page "
    "site website webpage user member collaborator participant attendee permission role access acl share public key password "
    "secret token credential account payment transaction transfer order invoice money fund wallet repo repository "
    "branch deployment package domain dns firewall rule filter forward forwarding autoforward policy memory memories skill "
    "prompt instruction door lock alarm cron hook workflow job refund purchase booking reservation ticket"
)
_SWITCHES = _words(
    "delete remove overwrite purge replace recursive force everyone autopay forward notify"
)
_LINKS = ("url", "uri", "link", "href", "endpoint", "webhook", "host", "proxy", "domain")
_BY_CLASS: Mapping[EffectClass, Effect] = {
    "read": Effect("nothing", why="classified as a read"),
    "open": Effect("opens", why="classified as opening addresses"),
    "change": Effect("own", why="classified as a change"),
    "send": Effect("reaches", why="classified as sending"),
    "destroy": Effect("reaches", final=True, why="classified as destructive"),
}
_REACHING: tuple[Role, ...] = ("address", "handle", "secret", "access", "command")


def effect_of(
    tool: Tool, table: Mapping[str, EffectClass], arguments: JsonObject | None = None
) -> Effect:
    """`table` maps `server/tool` to a class and overrides everything else.

    Without `arguments`, what the tool can do if all its parameters are used.
    """
    listed = table.get(tool.label)
    if listed is not None:
        return _BY_CLASS[listed]
    name = _own_name(tool)
    if _only_reads(name):
        return _of_reading(tool, name)
    own_contacts = "contact" in (*name, *map(singular, split(tool.server)))
    quiet = (not _QUIET.isdisjoint(name[:1]) and _WEIGHTY.isdisjoint(name)) or (
        own_contacts and not _OWN.isdisjoint(name[:2])
    )
    final = not (quiet or _FINAL.isdisjoint(name))
    runs = not _RUNS.isdisjoint(name) and _has_role(tool, arguments, ("command",))
    harmless = quiet or (_SHARED.isdisjoint(name) and not _OWN.isdisjoint(name[:2]))
    if runs or final or not harmless:
        why = "its name says so" if runs or final else "nothing shows that it is harmless"
        return Effect("reaches", final or tool.destructive is True, runs, why)
    if not quiet and _has_role(tool, arguments, _REACHING):
        return Effect("reaches", why="it takes a recipient, an address, a permission or a command")
    return Effect("own", why="its name says that it changes something of your own")


def _own_name(tool: Tool) -> tuple[str, ...]:
    """The words of the tool's name without its server's name, with which many begin."""
    name, server = split(tool.name), {part for part in split(tool.server) if part not in _READS}
    begin = 0
    while begin < len(name) - 1 and name[begin] in server:
        begin += 1
    return name[begin:]


def _only_reads(name: tuple[str, ...]) -> bool:
    """A leading word that reads, or a search, and no word that acts."""
    if not name or (name[0] not in _READS and name[-1] != "search"):
        return False
    phrasal = not {"in", "out", "up", "down", "off", "on"}.isdisjoint(name[1:2])
    return (
        not phrasal
        and (_ACTS | _FINAL).isdisjoint(name[1:])
        and not {"and", "or", "then"} & set(name)
    )


def is_plainly_a_read(tool: Tool) -> bool:
    """Whether its name is a word for reading and one object, or several of a kind.

    A longer name may end in a verb that no list has.
    """
    name = _own_name(tool)
    return len(name) < _WORDS_OF_A_READ or singular(name[-1]) != name[-1]


_WORDS_OF_A_READ = 3


def _of_reading(tool: Tool, name: tuple[str, ...]) -> Effect:
    if tool.destructive and tool.read_only is not True:
        return Effect("reaches", final=True, why="says that it is destructive")
    links = any(
        json_object(part).get("format") in ("uri", "url", "hostname")
        or not {singular(word) for word in split(parameter)}.isdisjoint(_LINKS)
        for parameter, part in json_object(tool.schema.get("properties")).items()
    )
    if links or (name[0] in _OPENS and not tool.ours and not _is_local(tool)):
        return Effect("opens", why="takes an address, so it can send data there")
    return Effect("nothing", why="its name says that it reads")


def _is_local(tool: Tool) -> bool:
    """Whether it fetches by an id or a path, which leads to no other place."""
    names = [role_by_name(name) for name in json_object(tool.schema.get("properties"))]
    return not names or bool({"target", "path"} & set(names))


def _has_role(tool: Tool, arguments: JsonObject | None, roles: tuple[Role, ...]) -> bool:
    if arguments is None:
        return any(role_by_name(one) in roles for one in json_object(tool.schema.get("properties")))
    return any(
        value.role in roles and (value.text != "true" or opens_something(value.parameter))
        for value in values_of(arguments, tool.schema)
    )


def with_statement(effect: Effect, values: list[Value]) -> Effect:
    """The effect of a call whose statement writes."""
    writes = any(
        _STATEMENTS & set(split(value.parameter)) and _WRITES.search(value.text) for value in values
    )
    return replace(effect, stake="reaches", why="its statement writes") if writes else effect


def writing_parts(value: Value) -> list[str]:
    """The statements of an argument that write, if it has several."""
    if not _STATEMENTS & set(split(value.parameter)) or ";" not in value.text:
        return []
    return [part for part in value.text.split(";") if _WRITES.search(part)]


_STATEMENTS = {"query", "sql", "statement", "command"}
_WRITES = re.compile(
    r"(?i)^\s*mutation\b|\b(?:insert\s+into|update\s+\w+\s+set|delete\s+from|drop\s+\w+|alter\s+\w+|truncate\s|grant\s"
    r"|attach\s+database|copy\s++(?:(?!\bcopy\s).)*?\bto\b|into\s+outfile)"
)
