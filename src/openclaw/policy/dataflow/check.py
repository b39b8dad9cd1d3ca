"""Decides about one call: pass, ask or refuse."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Literal

from openclaw.policy.dataflow import effects, text_values
from openclaw.policy.dataflow.commands import command_concerns, is_download
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
    stands_alone,
)
from openclaw.policy.dataflow.text_values import (
    QuotedValue,
    comparable,
    find,
    kind_of,
    number,
    numbers,
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
    return not effect.none


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
_LASTING = ("remember", "memory_save", "cron")

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
_NAMES_SOMETHING: tuple[Role, ...] = ("handle", "target", "other", "path")
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
_PRIVATE_WORDS = 3
_DECODED = 7
_PRIVATE = ("secret", "account", "email")
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
        effect = effects.with_statement(effect, values)
        if effect.none or effect.stake == "opens":
            yield from self._reading([self._judge(value) for value in values])
            return
        judged = [self._judge(value) for value in values]
        home = _at_home(tool, effect) and not (self.index.outside and self.intent.read)
        if not (home or self._is_wanted(judged)):
            said = ", ".join(value.text for value in values)[:200]
            yield Concern(tool.label, Reason.ACTION, effect.action, value=said)
        doubts = [concern for one in judged for concern in self._of_value(one, effect)]
        doubts += self._of_another_record(judged)
        yield from doubts or self._unmentioned(judged)

    def _of_another_record(self, judged: list[Judged]) -> Iterator[Concern]:
        """An amount, if the record that the call acts on has another one in that place."""
        targets = [one for one in judged if one.value.role == "target"]
        for one in judged if self.effect.stake == "reaches" else ():
            if one.value.role != "amount" or one.level not in ("listed", "quoted"):
                continue
            own = {
                (id(source), found.record, found.key)
                for source, found in self.index.fields_of(one.value.text)
            }
            for source, target in (
                pair for other in targets for pair in self.index.fields_of(other.value.text)
            ):
                keys = {found.key for found in source.records.get(target.record, ())}
                rivals = {(where, record, key) for where, record, key in own if key in keys}
                if rivals and not any(record == target.record for _, record, _ in rivals):
                    yield self._concern(one, Reason.QUOTED)

    def _unmentioned(self, judged: list[Judged]) -> Iterator[Concern]:
        """If the user named values for this tool, a call with others from outside and none of theirs."""
        about = [one for one in judged if one.value.role not in ("constant", "access")]
        found = [one for one in about if one.level in ("listed", "pointed", "quoted")]
        ids = all(one.value.role == "target" and one.level == "listed" for one in found)
        # What a call of this tool confirmed says nothing about where the user pointed.
        tool = self.call.tool.name
        elsewhere = [one for one in self.index.sources if one.origin.tool != tool]
        named = any(
            not (self.index.is_place(value, tool) or any(one.quotes(value) for one in elsewhere))
            for value in self._named_values
        )
        another = named and not ids and not any(one.level in ("given", "linked") for one in judged)
        unpointed = self._names_nothing and not self.call.tool.ours and self._is_elsewhere(about)
        if another or unpointed:
            yield self._concern(found[0], Reason.OBJECT)

    def _is_elsewhere(self, about: list[Judged]) -> bool:
        """Whether what a call is about stands in sentences, and not where the user pointed."""
        levels = {one.level for one in about} - {"composed", "given"}
        if levels != {"quoted"} or not self.index.has_pointed:
            return False
        return any(
            self.index.is_said(one.value.text) or (one.source and one.source.steered)
            for one in about
            if one.level == "quoted"
            and not (one.source and one.source.origin.of_workspace)
            and one.value.role != "amount"
            and len(squeeze(one.value.text)) > 3
            and not self._is_own_entry(one.value.text)
        )

    def _is_own_entry(self, value: str) -> bool:
        """Whether the same server has a field with it, and not only because a sentence led there."""
        return any(
            source.origin.name == self.call.tool.server
            and not (source.origin.free_form or source.steered)
            for source, _ in self.index.fields_of(value)
        )

    @property
    def _named_values(self) -> tuple[str, ...]:
        """What the user named for this tool, as the intent has it."""
        return self.intent.values.get(self.call.tool.label, ())

    @property
    def _names_nothing(self) -> bool:
        """Whether the user wants the tool used and named nothing for it."""
        return self.call.tool.label in self.intent.values and not any(self._named_values)

    @property
    def _delegated(self) -> bool:
        """Whether all that they named is where to look."""
        known = self.call.tool.label in self.intent.values
        return known and all(map(self.index.is_place, self._named_values))

    def _is_wanted(self, judged: list[Judged]) -> bool:
        if self.call.tool.label in self.intent.tools or self.intent.read:
            return self.call.tool.label in self.intent.tools
        # The user agreed to a proposal that named what the call is about.
        named = [one for one in judged if one.value.role in ("address", "handle", "target", "path")]
        about = named or [one for one in judged if len(squeeze(one.value.text)) > 3]
        return bool(about) and all(self.index.person.proposed(one.value.text) for one in about)

    # ---- levels

    def _judge(self, value: Value) -> Judged:
        index = self.index
        if self._is_given(value):
            if value.role in ("handle", "access") and self._is_somebody_else(value.text):
                return Judged(value, "quoted", index.quoting(value.text))
            return Judged(value, "given")
        found = index.fields_of(value.text)
        for source, one in found:
            if self._is_linked(value, source, one):
                return Judged(value, "linked", source, one.key)
        said = index.is_said(value.text)
        for source, one in found:
            own = source.origin.name == self.call.tool.server and not (
                source.origin.free_form or source.steered
            )
            if own and (not said or not source.prose):
                return Judged(value, "listed", source, one.key)
        pointed = index.pointed_at(value.text)
        source = pointed or index.quoting(value.text)
        if source is None:
            return Judged(value, "composed")
        key = next((one.key for other, one in found if other is source), "")
        return Judged(value, "pointed" if pointed is not None else "quoted", source, key)

    def _is_given(self, value: Value) -> bool:
        person, text = self.index.person, value.text
        if person.proposed(text):
            return True
        match value.role:
            case "secret" | "command":
                return person.gave_exactly(text)
            case "access" if text == "true":
                opening = effects.opens_something(value.parameter)
                spoken = " ".join(split(value.parameter))
                told = self.index.quoting(spoken) or self.index.quoting(value.parameter)
                named = opening or split(value.parameter)
                return any(map(person.inflected, named)) if opening or told else True
            case "access":
                return text.casefold() in _LEAST_ACCESS or person.inflected(text)
            case "address":
                whole = whole_address(text)
                return self._is_meant(whole) if whole else person.gave_exactly(text)
            case "amount" | "constant":
                amount = number(text)
                if amount is None:
                    return person.gave(text)
                return person.gave_number(text) and (
                    value.role == "constant" or amount in (self._amounts() or {amount})
                )
            case "path":
                return person.gave(text) or person.gave_place_of(text)
            case "handle" | "target":
                return person.gave(text) and not self._is_part_of_another(text)
            case _:
                # If there is an entry of that name, another ending may be another entry.
                return person.gave(text) or (
                    person.inflected(text) and not self.index.fields_of(text)
                )

    def _is_part_of_another(self, name: str) -> bool:
        """Whether the user gave a longer name that has this one in it, or another number."""
        if name.isdigit():
            named = {one for one in self._named_values if one.strip("#").isdigit()}
            return bool(named) and name not in {one.strip("#") for one in named}
        return text_values.is_unspaced(name) and any(
            name in one.value and len(one.value) > len(name) and self.index.person.gave(one.value)
            for source in self.index.sources
            for fields in source.by_value.values()
            for one in fields
        )

    def _is_meant(self, atom: QuotedValue) -> bool:
        """Whether the user gave it, and as one for this tool if the intent has such addresses."""
        for_this = {comparable(one) for one in self._named_for_this() if one.kind == atom.kind}
        return comparable(atom) in for_this if for_this else self.index.person.gave_atom(atom)

    def _is_somebody_else(self, name: str) -> bool:
        """Whether the user named others for this tool, and this one is of the conversation's texts."""
        named = self._named_values
        others = [one for one in named if len(words(one)) <= _WORDS_OF_A_NAME]
        if not others or name == "true" or any(squeeze(name) in squeeze(one) for one in named):
            return False
        return self.index.quoting(name) is not None

    def _named_for_this(self) -> list[QuotedValue]:
        return [atom for text in self._named_values for atom in find(text)]

    def _is_linked(self, value: Value, source: Source, found: Field) -> bool:
        if source.origin.free_form and not (source.named and self._names_nothing):
            return False
        anchors = [one for one in others(source, found) if is_anchor(one.value, self.index)]
        if value.role != "address":
            return bool(anchors)
        if _CHOSEN_BY_SENDER & set(split(found.key)):
            partners = [one.value for one in others(source, found) if one.key == found.key]
            if not any(
                map(self.index.person.shares_a_name, (value.text.rpartition("@")[0], *partners))
            ):
                return False
            anchors += [one for one in others(source, found) if one.value in partners]
            if self._is_ambiguous(found):
                return False
        return bool(anchors) and (found.in_list or not self._has_rival(found, anchors))

    def _is_ambiguous(self, found: Field) -> bool:
        """Whether others with such a name wrote as well, from another address."""
        senders = {
            _address_in(one.value)
            for source in self.index.sources
            for record in source.records.values()
            for one in record
            if one.key == found.key
            and "@" in one.value
            and self.index.person.shares_a_name(one.value)
        }
        return len(senders - {None}) > 1

    def _has_rival(self, found: Field, anchors: list[Field]) -> bool:
        """Whether another record with the same name has another address."""
        own = _address_in(found.value)
        for source, named in (pair for one in anchors for pair in self.index.fields_of(one.value)):
            if any(
                one.key == found.key and _address_in(one.value) not in (None, own)
                for one in source.records.get(named.record, ())
            ):
                return True
        return False

    def _is_passed_over(self, one: Judged) -> bool:
        """Whether the user named another entry of the list that this one is from."""
        if one.value.role == "target" and self.index.person.gave(one.value.text):
            return self._is_part_of_another(one.value.text)
        if is_anchor(one.value.text, self.index):
            return False
        for source, found in self.index.fields_of(one.value.text):
            linked = any(is_anchor(other.value, self.index) for other in others(source, found))
            for record in source.records.values():
                chosen = any(
                    is_anchor(other.value, self.index) or self._gave_number(other.value)
                    for other in record
                    if other.key == found.key or not (linked or other.record == found.record)
                )
                if chosen and any(
                    other.key == found.key and other.value != found.value for other in record
                ):
                    return True
        return False

    def _gave_number(self, value: str) -> bool:
        return len(value) > 2 and value.isdigit() and self.index.person.gave(value)

    # ---- what changes or sends something

    def _of_value(self, one: Judged, effect: Effect) -> Iterator[Concern]:
        role, text = one.value.role, one.value.text
        if role == "command":
            yield from self._of_command(one)
            return
        if role == "path" and one.level != "given" and text_values.is_sensitive_path(text):
            yield self._concern(one, Reason.PLACE)
        outside = one.source is not None and not one.source.origin.of_workspace
        if role == "content" and outside and is_download(text, self.index):
            yield self._concern(one, Reason.COMMAND)
        if self._is_another_path(one):
            yield self._concern(one, Reason.OBJECT)
        if effect.stake == "own" or role == "constant":
            return
        for part in effects.writing_parts(one.value):
            if not any(map(self.index.person.inflected, words(part))):
                yield self._concern(one, Reason.COMMAND, part)
        if one.level != "given":
            yield from self._of_found_value(one, effect)
        elif self._may_be_another_number(one.value, effect) and self._has_chosen_another():
            yield self._concern(one, Reason.OBJECT)

    def _of_command(self, one: Judged) -> Iterator[Concern]:
        if one.level == "given":
            return
        delegated = self._delegated
        bound = () if delegated else self._named_values
        for reason, part in command_concerns(
            one.value.text, self.index, delegated=delegated, bound=bound
        ):
            yield self._concern(one, reason, part)

    def _is_another_path(self, one: Judged) -> bool:
        """Whether the user named a path for this tool, and a sentence from outside this one."""
        told = one.level in ("quoted", "pointed") and not one.source_field
        return (
            one.value.role == "path" and told and any(map(text_values.is_path, self._named_values))
        )

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
        role = one.value.role
        if role in _NAMES_SOMETHING and self._is_passed_over(one):
            return True
        if effect.final and one.level in ("listed", "composed"):
            return self._has_chosen_another()
        match one.level:
            case "composed":
                return self._is_composed_in_doubt(one.value)
            case "listed" | "linked":
                return role == "secret" or (role == "amount" and self._names_an_amount())
            case "pointed":
                return self._is_pointed_in_doubt(one, effect)
            case _:
                return self._is_quoted_in_doubt(one, effect)

    def _is_composed_in_doubt(self, value: Value) -> bool:
        role = value.role
        if role == "target" and text_values.is_long_number(value.text):
            return any(map(text_values.is_long_number, self._named_values))
        if role == "handle":
            return self.call.computed or (bool(self._named_values) and not self._delegated)
        return role == "secret" or (role == "amount" and bool(self._amounts()))

    def _is_quoted_in_doubt(self, one: Judged, effect: Effect) -> bool:
        role, text, server = one.value.role, one.value.text, self.call.tool.server
        if role == "path" and not effect.final:
            known = one.source_field or self.index.is_place(text)
            return self.index.is_said(text) and not known
        if role == "target" and not effect.final:
            # An id that stands in sentences may be there for the agent to take it.
            return not any(
                source.origin.name == server
                and not source.steered
                and source.quotes(text)
                and (text.isdigit() or not source.says(text))
                for source in self.index.sources
            )
        if role == "content":
            return len(words(text)) >= _DICTATED_WORDS
        if role == "amount" and one.source is not None:
            return one.source.origin.name != server or self._names_an_amount()
        return role in ("amount", "target") or len(squeeze(text)) > 2

    def _is_pointed_in_doubt(self, one: Judged, effect: Effect) -> bool:
        role = one.value.role
        if role in ("handle", "secret"):
            return not self._names_nothing
        if role == "target" and not one.source_field and self._has_such_fields(one):
            return True
        if role == "amount":
            return self._names_an_amount()
        if role == "content" and self.call.tool.name in _LASTING:
            return not self._delegated
        return effect.final and role in ("target", "path")

    def _has_such_fields(self, one: Judged) -> bool:
        """Whether the server's output has fields for what the parameter takes; the value is in none."""
        wanted = {text_values.singular(part) for part in split(one.value.parameter)} - {"id"}
        return any(
            not wanted.isdisjoint(map(text_values.singular, split(found.key)))
            for source in self.index.sources
            if source.origin.name == self.call.tool.server
            for record in source.records.values()
            for found in record
            if not found.read_out
        )

    def _names_an_amount(self) -> bool:
        return bool(numbers(self.index.person.proposal) or self._amounts())

    def _amounts(self) -> set[str]:
        """The numbers that the user named for this tool."""
        return {one for one in map(number, self._named_values) if one is not None}

    def _has_chosen_another(self) -> bool:
        """Whether the user named a record of this server, so that they did not mean the others."""
        return any(
            is_anchor(one.value, self.index)
            for source in self.index.sources
            if source.origin.name == self.call.tool.server
            for record in source.records.values()
            for one in record
        )

    def _may_go_to(self, one: Judged) -> bool:
        """Whether an address is the one of a record or a place that the user meant."""
        atom = whole_address(one.value.text)
        if one.level == "linked" and atom is not None:
            return kind_of(atom) not in {kind_of(given) for given in self._named_for_this()}
        if atom is not None and atom.kind == "url" and self._is_on_given_site(one, atom):
            return True
        if one.level == "linked" or (one.level == "listed" and self._names_nothing):
            return not (self.index.person.proposal and one.level == "listed")
        if atom is None:
            return False
        if one.level == "listed" and not _CHOSEN_BY_SENDER & set(split(one.source_field)):
            return self._is_open(atom) and self.index.is_only(atom, sharing_a_name=True)
        if one.level != "pointed":
            return False
        if effects.role_by_name(one.value.parameter) == "other":
            return True  # it is filled in somewhere rather than written to
        if not self._is_open(atom):
            return False
        document = one.source is not None and one.source.origin.free_form
        if (document or one.source_field) and self.index.is_only(atom, sharing_a_name=True):
            return True
        return self._names_nothing and bool(one.source_field) and self.index.is_only(atom)

    def _is_on_given_site(self, one: Judged, atom: QuotedValue) -> bool:
        """Whether it is a link from a page to the same site, which the user gave for this tool too."""
        host = text_values.host_of(atom.text)
        named = {given.text for given in self._named_for_this() if given.kind == "url"}
        return (
            one.source is not None
            and one.source.origin.kind == "page"
            and text_values.host_of(one.source.origin.name) == host
            and host in self.index.person.hosts
            and {text_values.host_of(given) for given in named} <= {host}
        )

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
        if self.index.is_told(atom, by_all=True):
            return True
        value = Value("", atom.text, "address")
        return any(
            self._is_linked(value, source, one) for source, one in self.index.fields_of(atom.text)
        )

    # ---- reading

    def _reading(self, judged: list[Judged]) -> Iterator[Concern]:
        tool = self.call.tool
        if not (tool.ours or effects.is_plainly_a_read(tool)):
            dictated = next(filter(self._is_dictated, judged), None)
            if dictated is not None and tool.label not in self.intent.tools:
                yield self._concern(dictated, Reason.ACTION)
        for one in judged:
            atom = whole_address(one.value.text)
            opens = self.effect.stake == "opens" and one.value.role in ("address", "handle")
            if opens or (atom is not None and atom.kind == "url" and one.value.role != "path"):
                if not self._may_open(one):
                    yield self._concern(one, Reason.DESTINATION, kind="url")
            elif one.level != "given":
                yield from self._leaving(one)

    def _is_dictated(self, one: Judged) -> bool:
        """Whether a sentence of a page or file has it."""
        free = one.source is not None and one.source.origin.free_form
        return free and not one.source_field and one.level in ("quoted", "pointed")

    def _may_open(self, one: Judged) -> bool:
        """Whether an address tells nobody anything: the user gave it, or it is a link that they meant."""
        url = one.value.text.strip()
        if one.level == "given":
            return True
        atom = QuotedValue("url", url)
        verbatim = any(
            comparable(atom) in source.addresses.get("url", ()) for source in self.index.sources
        )
        host = text_values.host_of(url)
        if host in self.index.person.hosts and (verbatim or self._is_plain(url)):
            return True
        # A link from one page of a site to another tells the site nothing new.
        if any(
            source.origin.kind == "page"
            and text_values.host_of(source.origin.name) == host
            and comparable(atom) in source.addresses.get("url", ())
            for source in self.index.sources
        ):
            return True
        if one.level == "linked":
            return True
        if not verbatim or self.call.tool.label not in self.intent.tools or not self._is_open(atom):
            return False
        if one.level == "listed" or self.index.is_told(atom):
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
        for text in (one.value.text, *text_values.readings(one.value.text)):
            quoted = [atom.text for atom in find(text) if atom.kind in _PRIVATE]
            decoded = text is not one.value.text and len(text) > _DECODED
            said = one.level == "quoted"
            if decoded or (said and len(words(text)) >= _PRIVATE_WORDS):
                quoted.append(text)
            for part in quoted:
                source = self.index.quoting(part)
                if source is None or source.origin.kind == "page" or self.index.person.gave(part):
                    continue
                if self.effect.stake == "opens" or not self._is_related(source):
                    yield self._concern(one, Reason.LEAVES, part)
                    return
        if any(map(self._has_words_of, repeat(one), self.index.sources)):
            yield self._concern(one, Reason.LEAVES)

    def _has_words_of(self, one: Judged, source: Source) -> bool:
        """Whether it repeats several words of a private text that the user did not say."""
        text = one.value.text
        if (
            one.value.role == "path"
            or source.origin.kind == "page"
            or self._is_related(source)
            or self.index.fields_of(text)
        ):
            return False
        unsaid = [
            word for word in words(text) if len(word) > 3 and not self.index.person.inflected(word)
        ]
        private = [word for word in unsaid if stands_alone(word, source.folded)]
        return len(private) > 1 and len(private) * 3 >= len(unsaid) * 2

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


def _address_in(value: str) -> str | None:
    atom = whole_address(value)
    return comparable(atom) if atom is not None else None


# Surely an address, also if it was made up.
_SURE = re.compile(
    r"(?i)[a-z][\w+.-]*://|www\.|\+\d|bc1\w|0x[0-9a-f]|[A-Z]{2}\d{2}[ A-Z0-9]{11}|\S[^\s@]*+@\S[^\s.]*+\."
)
_PLAIN_PATH = re.compile(r"(?::\d{1,5})?(?:/[\w.~-]{0,48}){0,8}(?:#[\w.-]{0,48})?")
