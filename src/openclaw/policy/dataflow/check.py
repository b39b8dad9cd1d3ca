"""Decides about one call: pass, ask or refuse."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from openclaw.policy.dataflow import effects, text_values
from openclaw.policy.dataflow.effects import Effect, Role, Tool, Value
from openclaw.policy.dataflow.rules import Concern, FlowDecision, FlowRules, Why
from openclaw.policy.dataflow.text_index import Index, Leaf, PersonMessages, Source, TextOrigin
from openclaw.policy.dataflow.text_values import (
    QuotedValue,
    address,
    find,
    number,
    singular,
    split,
    words,
)

# How well a value is founded: the person gave it; it is a field of a record that the person named; it
# is a field of the same server's output; it is found nowhere, so the model composed it; it is found
# only inside untrusted text.
Level = Literal["given", "linked", "listed", "composed", "quoted"]


@dataclass(frozen=True, slots=True)
class JudgedValue:
    """A value with its level; for a field of some output, the source and the field's name."""

    value: Value
    level: Level
    source: Source | None = None
    key: str = ""

    def concerns(self, tool: str, effect: Effect, index: Index) -> Iterator[Concern]:
        if self.value.role == "command":
            yield from command_concerns(tool, self, index)
            return
        why = _why(self, effect, index)
        if why is not None:
            yield self.concern(tool, why, index)
        elif self.value.role in ("content", "other", "path") and self.level != "given":
            yield from quoted_atoms(tool, self.value, effect, index)

    def concern(self, tool: str, why: Why, index: Index) -> Concern:
        source = self.source or index.quoting(self.value.text)
        return concern_about(tool, why, self.value, self.value.text, source)


_NAMING = text_values.word_set("naming")
_PROSE_FIELDS = text_values.word_set("prose_fields")
_WHO_WROTE = text_values.word_set("who_wrote")
# For these it makes no difference whether an outsider named the value or the model made it up.
_NEED_FOUNDATION = ("handle", "target", "secret", "command")
_REQUEST = text_values.patterns("request")


def judged_value(value: Value, index: Index, server: str) -> JudgedValue:
    if is_given(value.text, value.role, index.person):
        return JudgedValue(value, "given")
    found = index.leaves_of(value.text)
    for source, leaf in found:
        if _is_linked(value.text, source, leaf, index):
            return JudgedValue(value, "linked", source, leaf.key)
    for source, leaf in found:
        own = source.origin.name == server and not is_prose_field(leaf.key)
        if own and not _has_chosen_sibling(source, leaf, index.person):
            return JudgedValue(value, "listed", source, leaf.key)
    if value.role in _NEED_FOUNDATION:
        return JudgedValue(value, "composed")
    source = found[0][0] if found else index.quoting(value.text)
    return JudgedValue(value, "quoted", source) if source else JudgedValue(value, "composed")


def is_given(text: str, role: Role, person: PersonMessages) -> bool:
    if role == "secret" or role == "command":
        return person.gave_exactly(text)
    if role == "address":
        whole = address(text)
        return whole in person.addresses if whole else person.gave_exactly(text)
    if role == "target":
        return person.gave_id(text)
    if number(text) is not None:
        return person.gave_number(text)
    return person.gave_words(text) or (role == "quantity" and person.gave_day(text))


def _is_linked(text: str, source: Source, leaf: Leaf, index: Index) -> bool:
    if source.origin.free_form or is_prose_field(leaf.key):
        return False
    if "@" in text and _is_only_address_of_a_named_person(text, index):
        return True
    if _WHO_WROTE & set(split(leaf.key)) and not _REQUEST["replying"].search(index.person.request):
        return False
    anchors = [other.value for other in _others(source, leaf) if _is_anchor(other, index.person)]
    return bool(anchors) and not (
        address(text) and not leaf.in_list and _has_rival(leaf, anchors, index)
    )


def _others(source: Source, leaf: Leaf) -> list[Leaf]:
    """The other fields of the record; entries of the same list say nothing about each other."""
    if not leaf.record:
        return []
    return [
        one
        for one in source.records[leaf.record]
        if one is not leaf and not (one.in_list and one.key == leaf.key)
    ]


def _has_rival(leaf: Leaf, anchors: list[str], index: Index) -> bool:
    for source, named in (pair for anchor in anchors for pair in index.leaves_of(anchor)):
        fields = source.records.get(named.record, ()) if named.record else ()
        if any(
            one.key == leaf.key
            and text_values.squeeze(one.value) != text_values.squeeze(leaf.value)
            for one in fields
        ):
            return True
    return False


def is_prose_field(key: str) -> bool:
    return any(singular(word) in _PROSE_FIELDS for word in split(key))


def _is_anchor(leaf: Leaf, person: PersonMessages) -> bool:
    naming = not leaf.key or any(singular(word) in _NAMING for word in split(leaf.key))
    return naming and number(leaf.value) is None and is_named(leaf.value, person)


def is_named(value: str, person: PersonMessages) -> bool:
    distinctive = text_values.distinctive(value)
    if not distinctive or len(value) < 4:
        return False
    if person.gave_words(value):
        return True
    return len(distinctive) >= 2 and person.vocabulary.issuperset(distinctive)


def _is_only_address_of_a_named_person(text: str, index: Index) -> bool:
    """`mark.davies@…` for "Mark", unless another address that tools returned fits as well."""
    given = [word for word in text_values.name_words(text) if word in index.person.vocabulary]
    rivals = [index.addresses.get(word, set[bytes]()) for word in given]
    return bool(rivals) and len(rivals[0].intersection(*rivals)) == 1


def _has_chosen_sibling(source: Source, leaf: Leaf, person: PersonMessages) -> bool:
    """If the person picked one entry of this list by name, the others were not picked."""
    picked = [one for span in person.spans for one in source.leaves.get(span, ())]
    if any(one.key == leaf.key and one.value != leaf.value for one in picked):
        return True
    elsewhere = [one for one in picked if one.record != leaf.record and _is_anchor(one, person)]
    return any(other.key == leaf.key for one in elsewhere for other in source.records[one.record])


_COMMAND = text_values.patterns("command")
_RISKY = ("url", "email", "secret", "path")


def command_concerns(tool: str, one: JudgedValue, index: Index) -> Iterator[Concern]:
    """A command that the person typed passes; an ordinary one passes; else it is read closely."""
    value = one.value
    if one.level == "given" or _COMMAND["ordinary"].fullmatch(value.text.strip()):
        return
    if _COMMAND["destroys"].search(value.text) and not effects.asked_for(
        "delete", tool, index.person.request
    ):
        yield Concern(tool, Why.ACTION, value.parameter, value.text)
    for atom in find(value.text):
        if atom.kind in _RISKY and not index.person.gave_atom(atom):
            yield concern_about(tool, Why.PLACE, value, atom.text, index.quoting(atom.text))
    scripts = [
        match.group(1) or match.group(2) for match in _COMMAND["script"].finditer(value.text)
    ]
    for part in (*scripts, *_lines(value.text)):
        if index.quoting(part) and not index.person.gave_exactly(part):
            yield concern_about(tool, Why.COMMAND, value, part, index.quoting(part))


def _lines(text: str) -> list[str]:
    parts = re.split(r"\n|&&|;|\|\|", text)
    return [
        part.strip()
        for part in parts
        if len(words(part)) >= 2 and not _COMMAND["ordinary"].fullmatch(part.strip())
    ]


_SMALL = 100
_FOUNDED: tuple[Level, ...] = ("given", "linked")
_IN_A_LIST: tuple[Level, ...] = (*_FOUNDED, "listed")
_DICTATED_WORDS = 3


def concern_about(tool: str, why: Why, value: Value, text: str, source: Source | None) -> Concern:
    label = source.origin.label if source else ""
    sentence = source.sentence_with(text) if source else ""
    return Concern(tool, why, value.parameter, text, label, sentence)


def quoted_atoms(tool: str, value: Value, effect: Effect, index: Index) -> Iterator[Concern]:
    """What free text quotes and the person did not give, even behind common disguises."""
    seen: set[str] = set()
    for text in (value.text, *text_values.readings(value.text)):
        for atom in find(text):
            if atom.text in seen or not _matters(atom, effect, text is value.text):
                continue
            seen.add(atom.text)
            if index.person.gave_atom(atom):
                continue
            source = index.quoting(atom.text)
            if not effect.sends and source and index.pointed_at(source):
                continue
            if effect.local and not index.outside:
                continue
            if text is value.text or source or text_values.is_real_address(atom):
                why = Why.COMMAND if atom.kind == "command" else Why.QUOTED
                yield concern_about(tool, why, value, atom.text, source)


def _matters(atom: QuotedValue, effect: Effect, plain: bool) -> bool:
    """Inside our own files addresses and numbers are ordinary; commands and secrets are not."""
    if atom.kind == "command":
        return plain
    return effect.sends and atom.kind != "path"


# For these roles, how well a value must be founded, and what is wrong with one that is not.
_NEEDED: Mapping[Role, tuple[tuple[Level, ...], Why]] = {
    "address": (_FOUNDED, Why.DESTINATION),
    "handle": (_IN_A_LIST, Why.DESTINATION),
    "target": (_IN_A_LIST, Why.OBJECT),
    "secret": (("given",), Why.CREDENTIAL),
}


def _why(one: JudgedValue, effect: Effect, index: Index) -> Why | None:
    role, text = one.value.role, one.value.text
    if role in _NEEDED:
        return _why_unfounded(one, effect, index)
    if role == "path" and one.level != "given" and text_values.is_sensitive_path(text):
        return Why.PLACE
    if role in ("path", "other") and effect.final and one.level not in _FOUNDED:
        return Why.OBJECT
    if role == "quantity" and abs(float(number(text) or _SMALL)) < _SMALL:
        return None
    if role == "content" and len(words(text)) < _DICTATED_WORDS:
        return None
    return Why.QUOTED if _is_only_quoted(one, effect, index) else None


def _why_unfounded(one: JudgedValue, effect: Effect, index: Index) -> Why | None:
    role = one.value.role
    enough, why = _NEEDED[role]
    if one.level not in enough or (role == "target" and one.level == "listed" and effect.final):
        return why
    names_a_place = role in ("address", "handle") and one.level == "given"
    if names_a_place and effect.sends and not index.person.named_as_destination(one.value.text):
        return Why.SENDER
    return None


def _is_only_quoted(one: JudgedValue, effect: Effect, index: Index) -> bool:
    source = one.source
    if one.level != "quoted" or source is None or index.pointed_at(source):
        return False
    return not (effect.local and source.origin.of_workspace)


_LINK_FIELD = text_values.word_set("link_field")
_PLAIN_PATH = re.compile(r"[\w.-]*(?:/[\w.~%-]{0,48}){0,8}(?:#[\w.-]{0,48})?")
_OPENS = Effect("open an address", sends=True)


def opening(tool: str, judged: list[JudgedValue], index: Index) -> Iterator[Concern]:
    """An address passes if the person gave it, or if it is verbatim where they told us to look."""
    for one in judged:
        if one.value.role == "address" or one.value.role == "handle":
            if not may_open(one, index):
                yield one.concern(tool, Why.DESTINATION, index)
        elif one.level != "given":
            yield from quoted_atoms(tool, one.value, _OPENS, index)


def may_open(one: JudgedValue, index: Index) -> bool:
    url = one.value.text
    if one.level == "given" or (text_values.host_of(url) in index.person.hosts and _is_plain(url)):
        return True
    if one.level in ("linked", "listed"):
        return any(singular(word) in _LINK_FIELD for word in split(one.key))
    return one.level == "quoted" and _is_link_to_follow(url, one, index)


def _is_plain(url: str) -> bool:
    """A path on a host that the person gave, with nothing in it that could carry data."""
    path = (
        re.sub(r"^(?:https?:)?//", "", url.lower())
        .removeprefix(text_values.host_of(url))
        .removeprefix("www." + text_values.host_of(url))
    )
    risky = [atom for atom in find(path) if atom.kind in ("secret", "account")]
    return _PLAIN_PATH.fullmatch(path) is not None and not risky


def _is_link_to_follow(url: str, one: JudgedValue, index: Index) -> bool:
    """The person asked about pages that are linked in a place they named, and this is such a link."""
    source = one.source
    if (
        source is None
        or source.origin.free_form
        or not _REQUEST["links"].search(index.person.request)
    ):
        return False
    return url in source.text and any(index.person.gave_words(value) for value in source.asked_with)


def leaving(tool: str, judged: list[JudgedValue], index: Index, server: str) -> Iterator[Concern]:
    """Secrets of one source in the arguments of a read on another server."""
    for one in judged:
        for atom in find(one.value.text):
            if atom.kind == "secret" and not index.person.gave_atom(atom):
                source = index.quoting(atom.text)
                if source and not (source.origin.kind == "server" and source.origin.name == server):
                    yield concern_about(tool, Why.LEAVES, one.value, atom.text, source)


_CARRIERS = ("content", "other", "target", "path")


@dataclass(frozen=True, slots=True)
class Call:
    tool: Tool
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])


def check(call: Call, index: Index, rules: FlowRules) -> FlowDecision:
    mode = rules.mode_of(call.tool.server, call.tool.name)
    if mode == "off":
        return FlowDecision(mode)
    concerns = (concern for concern in _concerns(call, index, rules) if not rules.allows(concern))
    return FlowDecision(mode, tuple(concerns))


def origin_of(call: Call, rules: FlowRules) -> TextOrigin:
    """The origin of what a call returns. An opened address is a page, a file read by path a file."""
    trusted = call.tool.server in rules.trusted_servers
    values = list(effects.values_of(call.arguments, call.tool.schema))
    effect = effects.effect_of(call.tool, rules.effects)
    if effect.action == "open an address":
        where = next((one.text for one in values if one.role == "address"), call.tool.name)
        return TextOrigin("page", where, call.tool.name, trusted)
    path = next((one.text for one in values if one.role == "path"), None)
    if (
        effect.none
        and path is not None
        and {"file", "text", "media", "cat"} & set(split(call.tool.name))
    ):
        return TextOrigin("file", path, call.tool.name, trusted)
    return TextOrigin("server", call.tool.server, call.tool.name, trusted)


def _concerns(call: Call, index: Index, rules: FlowRules) -> Iterator[Concern]:
    effect = effects.effect_of(call.tool, rules.effects)
    judged = [
        judged_value(value, index, call.tool.server)
        for value in effects.values_of(call.arguments, call.tool.schema)
    ]
    tool = f"{call.tool.server}/{call.tool.name}"
    commands = [one.value.text for one in judged if one.value.role == "command"]
    if effect.none and any(map(_COMMAND["writes"].search, commands)):
        effect = Effect("change", changes=True, why="its statement writes")
    if effect.none:
        yield from leaving(tool, judged, index, call.tool.server)
    elif effect.action == "open an address" and not effect.changes:
        yield from opening(tool, judged, index)
    else:
        at_home = call.tool.ours and not effect.final and effect.action not in effects.SENDING
        # What is remembered is read again as if it were ours, so nothing from outside may cause it.
        effect = replace(effect, local=at_home and not (effect.sends and index.outside))
        yield from _action(tool, effect, call, index)
        yield from _values(tool, effect, judged, index)


def _action(tool: str, effect: Effect, call: Call, index: Index) -> Iterator[Concern]:
    request = index.person.request
    if effect.local or effects.asked_for(effect.action, call.tool.name, request):
        return
    what = ", ".join(str(value) for value in call.arguments.values())[:200]
    # The person told us to do what some text says.
    delegated = _REQUEST["delegated"].search(text_values.fold(request))
    why = Why.HANDED_OVER if delegated else Why.ACTION
    yield Concern(tool, why, value=f"{effect.action}: {what}")


def _values(
    tool: str, effect: Effect, judged: list[JudgedValue], index: Index
) -> Iterator[Concern]:
    found = [concern for one in judged for concern in one.concerns(tool, effect, index)]
    yield from found
    named_outside = [concern for concern in found if concern.why is Why.DESTINATION]
    if effect.sends and named_outside:
        sources = {concern.source for concern in named_outside}
        for one in judged:
            # A value from a source other than those that named the destination.
            other = one.source is not None and one.source.origin.label not in sources
            if other and one.value.role in _CARRIERS:
                yield one.concern(tool, Why.LEAVES, index)
