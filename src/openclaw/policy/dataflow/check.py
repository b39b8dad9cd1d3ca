"""Decides about one call: pass, ask or refuse."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from openclaw.policy.dataflow import effects, text_values
from openclaw.policy.dataflow.commands import command_concerns
from openclaw.policy.dataflow.effects import Effect, Role, Tool, Value
from openclaw.policy.dataflow.intent import Intent
from openclaw.policy.dataflow.records import Field
from openclaw.policy.dataflow.rules import Concern, FlowDecision, FlowRules, Reason
from openclaw.policy.dataflow.text_index import (
    Index,
    Source,
    TextOrigin,
    is_anchor,
    others,
)
from openclaw.policy.dataflow.text_values import (
    QuotedValue,
    comparable,
    find,
    kind_of,
    number,
    split,
    squeeze,
    whole_address,
    words,
)


@dataclass(frozen=True, slots=True)
class Call:
    """A call to judge. What is `computed` by a script may have been taken from any text."""

    tool: Tool
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    computed: bool = False


def check(call: Call, index: Index, rules: FlowRules, intent: Intent | None = None) -> FlowDecision:
    """What is in doubt about the call, given what the user wants."""
    mode = rules.mode_of(call.tool.server, call.tool.name)
    if mode == "off" or not index.exposed:
        return FlowDecision(mode if mode != "off" else "off")
    effect = effects.effect_of(call.tool, rules.effects, call.arguments)
    found = _Check(call, effect, index, intent or Intent()).concerns()
    unique = dict.fromkeys(concern for concern in found if not rules.allows(concern))
    return FlowDecision(mode, tuple(unique))


def needs_intent(call: Call, rules: FlowRules) -> bool:
    """Whether it matters for this call what kinds of action the user wants."""
    effect = effects.effect_of(call.tool, rules.effects, call.arguments)
    return not effect.none and (effect.runs or not _at_home(call.tool, effect))


def origin_of(call: Call, rules: FlowRules) -> TextOrigin:
    """The origin of what a call returns. An opened address is a page, a file read by path a file."""
    trusted = call.tool.server in rules.trusted_servers
    values = list(effects.values_of(call.arguments, call.tool.schema))
    effect = effects.effect_of(call.tool, rules.effects, call.arguments)
    if effect.stake == "opens":
        where = next((one.text for one in values if one.role == "address"), call.tool.name)
        return TextOrigin("page", where, call.tool.name, trusted)
    path = next((one.text for one in values if one.role == "path"), None)
    if effect.none and path is not None and _FILE_WORDS & set(split(call.tool.name)):
        return TextOrigin("file", path, call.tool.name, trusted)
    return TextOrigin("server", call.tool.server, call.tool.name, trusted)


_FILE_WORDS = {"file", "text", "media", "cat", "read"}


def _at_home(tool: Tool, effect: Effect) -> bool:
    """Our own tools work where the user asks for results rather than for edits and commands."""
    return tool.ours and not effect.final and tool.name not in _LASTING


# What is remembered is read again as if it were ours, so nothing from outside may cause it.
_LASTING = ("remember", "memory_save")

# How well a value is founded: the user gave it; it belongs to a record that they named; it is a field of
# the same server's output; it stands where they told us to look; the model composed it; it stands only
# in other untrusted content.
Level = Literal["given", "linked", "listed", "pointed", "composed", "quoted"]


@dataclass(frozen=True, slots=True)
class Judged:
    value: Value
    level: Level
    source: Source | None = None
    source_field: str = ""


# For what reaches others, why a value of this role that is only quoted needs an answer.
_WHY: Mapping[Role, Reason] = {
    "handle": Reason.DESTINATION,
    "target": Reason.OBJECT,
    "secret": Reason.CREDENTIAL,
}
_LEAST_ACCESS = frozenset(
    [
        "r",
        "read",
        "reader",
        "readonly",
        "read-only",
        "view",
        "viewer",
        "private",
        "comment",
        "commenter",
        "none",
    ]
)
_DICTATED_WORDS = 3
_WORDS_OF_A_NAME = 3
_LONG_TEXT = 60
# Who wrote a text, or got a copy, is the choice of whoever wrote it.
_CHOSEN_BY_SENDER = frozenset(
    {"author", "creator", "from", "reply", "reporter", "sender", "cc", "bcc"}
)


@dataclass(frozen=True, slots=True)
class _Check:
    call: Call
    effect: Effect
    index: Index
    intent: Intent

    def concerns(self) -> Iterator[Concern]:
        tool, effect = self.call.tool, self.effect
        values = list(effects.values_of(self.call.arguments, tool.schema))
        if effect.none:
            effect = effects.with_statement(effect, values)
        if effect.none or effect.stake == "opens":
            yield from self._reading([self._judge(value) for value in values])
            return
        judged = [self._judge(value) for value in values]
        if not (_at_home(tool, effect) or self._is_wanted(judged)):
            said = ", ".join(value.text for value in values)[:200]
            yield Concern(tool.label, Reason.ACTION, effect.action, value=said)
        for one in judged:
            yield from self._of_value(one, effect)

    def _is_wanted(self, judged: list[Judged]) -> bool:
        if self.call.tool.label in self.intent.tools:
            return True
        # The user agreed to a proposal that named what the call is about.
        named = [one for one in judged if one.value.role in ("address", "handle", "target", "path")]
        about = named or [one for one in judged if len(squeeze(one.value.text)) > 3]
        return bool(about) and all(self.index.person.proposed(one.value.text) for one in about)

    # ---- levels

    def _judge(self, value: Value) -> Judged:
        index, server = self.index, self.call.tool.server
        if self._is_given(value):
            if value.role == "handle" and self._is_somebody_else(value.text):
                return Judged(value, "quoted", index.quoting(value.text))
            return Judged(value, "given")
        found = index.fields_of(value.text)
        for source, one in found:
            if self._is_linked(value, source, one):
                return Judged(value, "linked", source, one.key)
        said = index.is_said(value.text)
        for source, one in found:
            own = source.origin.name == server and not source.origin.free_form
            if own and not said:
                return Judged(value, "listed", source, one.key)
        for source in index.sources:
            if source.named and source.quotes(value.text):
                key = next((one.key for other, one in found if other is source), "")
                return Judged(value, "pointed", source, key)
        quoted = index.quoting(value.text)
        if quoted is None:
            return Judged(value, "composed")
        key = next((one.key for source, one in found if source is quoted), "")
        return Judged(value, "quoted", quoted, key)

    def _is_given(self, value: Value) -> bool:
        person, text = self.index.person, value.text
        if person.proposed(text):
            return True
        match value.role:
            case "secret" | "command":
                return person.gave_exactly(text)
            case "access" if text == "true":
                return any(
                    person.inflected(word) for word in split(value.parameter) if len(word) > 3
                )
            case "access":
                return text.casefold() in _LEAST_ACCESS or person.inflected(text)
            case "address":
                whole = whole_address(text)
                return self._is_meant(whole) if whole else person.gave_exactly(text)
            case "amount" | "time":
                return person.gave_number(text) if number(text) is not None else person.gave(text)
            case "path":
                return person.gave(text) or self._is_inside(text)
            case "handle" | "target":
                return person.gave(text)
            case _:
                return person.gave(text) or person.inflected(text)

    def _is_meant(self, atom: QuotedValue) -> bool:
        """Whether the user gave it, and as one for this tool if the intent has such addresses."""
        for_this = {comparable(one) for one in self._named_for_this() if one.kind == atom.kind}
        return comparable(atom) in for_this if for_this else self.index.person.gave_atom(atom)

    def _is_somebody_else(self, name: str) -> bool:
        """Whether the user named others for this tool, and this one is of the conversation's texts."""
        named = self.intent.values.get(self.call.tool.label, ())
        others = [one for one in named if len(words(one)) <= _WORDS_OF_A_NAME]
        if not others or any(squeeze(name) in squeeze(one) for one in named):
            return False
        return self.index.quoting(name) is not None

    def _named_for_this(self) -> list[QuotedValue]:
        return [
            atom for text in self.intent.values.get(self.call.tool.label, ()) for atom in find(text)
        ]

    def _is_inside(self, path: str) -> bool:
        """Whether it is a place below one that the user named."""
        parent = path.rstrip("/").rpartition("/")[0]
        return "/" in parent.strip("/") and self.index.person.gave(parent)

    def _is_linked(self, value: Value, source: Source, found: Field) -> bool:
        if source.origin.free_form and not source.named:
            return False
        anchors = [one for one in others(source, found) if is_anchor(one.value, self.index)]
        if not anchors:
            return False
        if value.role != "address":
            return True
        atom = whole_address(value.text)
        if source.origin.free_form and (atom is None or not self._is_open(atom)):
            return False
        if _CHOSEN_BY_SENDER & set(split(found.key)) and not self._shares_a_name(value.text):
            return False
        return found.in_list or not self._has_rival(found, anchors)

    def _shares_a_name(self, address: str) -> bool:
        local = [word for word in words(address.rpartition("@")[0]) if len(word) > 2]
        return any(self.index.person.gave(word) for word in local)

    def _has_rival(self, found: Field, anchors: list[Field]) -> bool:
        """Whether another record with the same name has another value."""
        for source, named in (pair for one in anchors for pair in self.index.fields_of(one.value)):
            if any(
                one.key == found.key and squeeze(one.value) != squeeze(found.value)
                for one in source.records.get(named.record, ())
            ):
                return True
        return False

    # ---- what changes or sends something

    def _of_value(self, one: Judged, effect: Effect) -> Iterator[Concern]:
        role, text = one.value.role, one.value.text
        if role == "command":
            if one.level != "given":
                wanted = self.call.tool.label in self.intent.tools
                for reason, part in command_concerns(text, self.index, wanted=wanted):
                    yield self._concern(one, reason, part)
            return
        if role == "path" and one.level != "given" and text_values.is_sensitive_path(text):
            yield self._concern(one, Reason.PLACE)
        if effect.stake == "own" or role == "time":
            return
        if one.level != "given":
            yield from self._of_found_value(one, effect)
        elif self._may_be_another_number(one.value, effect) and self._has_chosen_another():
            yield self._concern(one, Reason.OBJECT)

    def _may_be_another_number(self, value: Value, effect: Effect) -> bool:
        """Whether the user may have given a short number for something else."""
        return (
            value.role == "target"
            and effect.final
            and re.fullmatch(r"\d{1,3}", value.text) is not None
        )

    def _of_found_value(self, one: Judged, effect: Effect) -> Iterator[Concern]:
        role = one.value.role
        if role == "address":
            if not self._may_go_to(one):
                yield self._concern(one, Reason.DESTINATION)
        elif role == "access":
            yield self._concern(one, Reason.CREDENTIAL)
        elif self._is_in_doubt(one, effect):
            yield self._concern(one, _WHY.get(role, Reason.QUOTED))
        elif role in ("content", "other"):
            yield from self._quoted_atoms(one)

    def _is_in_doubt(self, one: Judged, effect: Effect) -> bool:
        role, text = one.value.role, one.value.text
        if one.level == "pointed":
            if role in ("handle", "secret"):
                return self.call.tool.label not in self.intent.delegated
            return effect.final and role in ("target", "path")
        if role == "secret":
            return one.level in ("composed", "quoted", "listed")
        if role == "target" and effect.final and one.level in ("listed", "composed"):
            return self._has_chosen_another()
        if role == "handle" and one.level == "composed":
            return self.call.computed
        if one.level != "quoted":
            return False
        if role in ("target", "path") and not effect.final and one.source is not None:
            return one.source.origin.name != self.call.tool.server
        if role == "content":
            return len(words(text)) >= _DICTATED_WORDS
        return role in ("amount", "target") or len(squeeze(text)) > 2

    def _has_chosen_another(self) -> bool:
        """Whether the user named a record of this server, so that they did not mean the others."""
        return any(
            is_anchor(one.value, self.index)
            for source in self.index.sources
            if source.origin.name == self.call.tool.server
            for record in source.records.values()
            if len(record) > 1
            for one in record
        )

    def _may_go_to(self, one: Judged) -> bool:
        """Whether an address is the one of a record or a place that the user meant."""
        if one.level == "linked":
            return True
        atom = whole_address(one.value.text)
        if one.level != "pointed" or atom is None or not self._is_open(atom):
            return False
        meant = self.call.tool.label in self.intent.delegated or self._shares_a_name(atom.text)
        return meant and self.index.is_only(atom)

    def _is_open(self, atom: QuotedValue) -> bool:
        """Whether the user gave no address of this kind, and so meant one that is found."""
        given = {kind_of(one) for one in self._named_for_this()}
        return kind_of(atom) not in self.index.person.kinds | given

    def _quoted_atoms(self, one: Judged) -> Iterator[Concern]:
        """What free text quotes and the user did not give, even behind common disguises."""
        seen: set[str] = set()
        plain = one.value.text
        for text in (plain, *text_values.readings(plain)):
            for atom in find(text):
                if atom.kind == "path" or atom.text in seen or self._is_known(atom):
                    continue
                seen.add(atom.text)
                source = self.index.quoting(atom.text)
                if source is not None or (text is plain and _SURE.match(atom.text)):
                    yield self._concern(one, Reason.QUOTED, atom.text, atom.kind)

    def _is_known(self, atom: QuotedValue) -> bool:
        """Whether the user gave it, or it was opened or looked up before, or is a named record's."""
        if self.index.person.gave_atom(atom) or comparable(atom) in self.index.opened:
            return True
        if atom.kind == "secret":
            return False
        if kind_of(atom) == "account" and any(
            source.named and source.origin.free_form and source.quotes(atom.text)
            for source in self.index.sources
        ):
            return True
        if self.index.is_told(atom):
            return True
        value = Value("", atom.text, "address")
        return any(
            self._is_linked(value, source, one) for source, one in self.index.fields_of(atom.text)
        )

    # ---- reading

    def _reading(self, judged: list[Judged]) -> Iterator[Concern]:
        for one in judged:
            atom = whole_address(one.value.text)
            opens = self.effect.stake == "opens" and one.value.role in ("address", "handle")
            if opens or (atom is not None and atom.kind == "url" and one.value.role != "path"):
                if not self._may_open(one):
                    yield self._concern(one, Reason.DESTINATION, kind="url")
            elif one.level != "given":
                yield from self._leaving(one)

    def _may_open(self, one: Judged) -> bool:
        """Whether an address tells nobody anything: the user gave it, or it is a link that they meant."""
        url = one.value.text.strip()
        if one.level == "given":
            return True
        verbatim = any(url in source.text for source in self.index.sources)
        if text_values.host_of(url) in self.index.person.hosts:
            return verbatim or self._is_plain(url)
        if one.level == "linked":
            return True
        atom = QuotedValue("url", url)
        if not verbatim or self.call.tool.label not in self.intent.tools or not self._is_open(atom):
            return False
        if one.level == "listed" or self.index.is_told(atom, alone=True):
            return True
        return one.level == "pointed" and self.index.is_only(atom)

    def _is_plain(self, url: str) -> bool:
        """A path on a host that the user gave, with nothing in it that could carry data."""
        path = text_values.comparable_url(url).removeprefix(text_values.host_of(url))
        if not _PLAIN_PATH.fullmatch(path) or any(atom.kind != "path" for atom in find(path[1:])):
            return False
        long = [part for part in re.split(r"[/#]", path) if len(squeeze(part)) > 5]
        return all(self.index.person.gave(part) or not self.index.quoting(part) for part in long)

    def _leaving(self, one: Judged) -> Iterator[Concern]:
        """Private text of one server in the arguments of a read on another, or of what opens an address."""
        text = one.value.text
        quoted = [atom.text for atom in find(text) if atom.kind in ("secret", "account", "email")]
        if len(text) >= _LONG_TEXT:
            quoted.append(text)
        for part in quoted:
            source = self.index.quoting(part)
            if source is None or source.origin.kind == "page" or self.index.person.gave(part):
                continue
            if self.effect.stake == "opens" or not self._is_related(source):
                yield self._concern(one, Reason.LEAVES, part)

    def _is_related(self, source: Source) -> bool:
        server = self.call.tool.server
        return source.origin.name == server or (self.call.tool.ours and source.origin.of_workspace)

    # ---- concerns

    def _concern(self, one: Judged, reason: Reason, text: str = "", kind: str = "") -> Concern:
        text = text or one.value.text
        source = one.source if text == one.value.text else None
        source = source or self.index.quoting(text)
        atom = whole_address(text)
        return Concern(
            self.call.tool.label,
            reason,
            self.effect.action,
            one.value.parameter,
            text,
            kind or (atom.kind if atom else one.value.role),
            source.origin.label if source else "",
            one.source_field if source is one.source else "",
            source.sentence_with(text) if source else "",
        )


# Surely an address, also if it was made up.
_SURE = re.compile(
    r"(?i)[a-z][\w+.-]*://|www\.|\+\d|bc1\w|0x[0-9a-f]|[A-Z]{2}\d{2}[ A-Z0-9]{11}|\S+@\S+\."
)
_PLAIN_PATH = re.compile(r"(?::\d{1,5})?(?:/[\w.~-]{0,48}){0,8}(?:#[\w.-]{0,48})?")
