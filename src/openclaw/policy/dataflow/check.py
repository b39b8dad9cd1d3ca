"""Decides about one call: pass, ask or refuse."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from openclaw.policy.dataflow.effects import (
    SENDING,
    Action,
    Effect,
    Tool,
    asked_for,
    effect_of,
    hands_over,
)
from openclaw.policy.dataflow.index import Index
from openclaw.policy.dataflow.normalise import split
from openclaw.policy.dataflow.origin import Kind, Origin
from openclaw.policy.dataflow.roles import Role, values_of
from openclaw.policy.dataflow.rules import Ask, Decision, Doubt, Mode, Pass, Refuse, Rules, Why
from openclaw.policy.dataflow.values import Judged, judge, leaving, opening, writes

_CARRIERS = (Role.CONTENT, Role.OTHER, Role.TARGET, Role.PATH)


@dataclass(frozen=True, slots=True)
class Call:
    tool: Tool
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])


def check(call: Call, index: Index, rules: Rules) -> Decision:
    mode = rules.mode_of(call.tool.server, call.tool.name)
    if mode is Mode.OFF:
        return Pass()
    doubts = tuple(doubt for doubt in _doubts(call, index, rules) if not rules.allows(doubt))
    if not doubts:
        return Pass()
    if mode is Mode.LOG:
        return Pass(logged=doubts)
    return Ask(doubts) if mode is Mode.ASK else Refuse(doubts)


def origin_of(call: Call, rules: Rules) -> Origin:
    """The origin of what a call returns. An opened address is a page, a file read by path a file."""
    trusted = call.tool.server in rules.trusted_servers
    values = list(values_of(call.arguments, call.tool.schema))
    effect = effect_of(call.tool, rules.effects)
    if effect.action is Action.OPEN:
        where = next((one.text for one in values if one.role is Role.ADDRESS), call.tool.name)
        return Origin(Kind.PAGE, where, call.tool.name, trusted)
    path = next((one.text for one in values if one.role is Role.PATH), None)
    if (
        effect.none
        and path is not None
        and {"file", "text", "media", "cat"} & set(split(call.tool.name))
    ):
        return Origin(Kind.FILE, path, call.tool.name, trusted)
    return Origin(Kind.SERVER, call.tool.server, call.tool.name, trusted)


def _doubts(call: Call, index: Index, rules: Rules) -> Iterator[Doubt]:
    effect = effect_of(call.tool, rules.effects)
    judged = [
        judge(value, index, call.tool.server)
        for value in values_of(call.arguments, call.tool.schema)
    ]
    tool = f"{call.tool.server}/{call.tool.name}"
    if effect.none and any(writes(one.value) for one in judged):
        effect = Effect(Action.UPDATE, changes=True, why="its statement writes")
    if effect.none:
        yield from leaving(tool, judged, index, call.tool.server)
    elif effect.action is Action.OPEN and not effect.changes:
        yield from opening(tool, judged, index)
    else:
        at_home = call.tool.ours and not effect.final and effect.action not in SENDING
        # What is remembered is read again as if it were ours, so nothing from outside may cause it.
        effect = replace(effect, local=at_home and not (effect.sends and index.outside))
        yield from _action(tool, effect, call, index)
        yield from _values(tool, effect, judged, index)


def _action(tool: str, effect: Effect, call: Call, index: Index) -> Iterator[Doubt]:
    request = index.person.request
    if effect.local or asked_for(effect.action, call.tool.name, request):
        return
    what = ", ".join(str(value) for value in call.arguments.values())[:200]
    why = Why.HANDED_OVER if hands_over(request) else Why.ACTION
    yield Doubt(tool, why, value=f"{effect.action.value}: {what}")


def _values(tool: str, effect: Effect, judged: list[Judged], index: Index) -> Iterator[Doubt]:
    found = [doubt for one in judged for doubt in one.doubts(tool, effect, index)]
    yield from found
    named_outside = [doubt for doubt in found if doubt.why is Why.DESTINATION]
    if effect.sends and named_outside:
        sources = {doubt.source for doubt in named_outside}
        for one in judged:
            if one.value.role in _CARRIERS and one.carries_from_outside(sources):
                yield one.doubt(tool, Why.LEAVES, index)
