"""Where values came from and what may leave: decides about calls, never performs them.

Pure: no I/O, no clock, no environment.
"""

from openclaw.policy.dataflow.answers import AnswerStream, Neutralised, neutralise
from openclaw.policy.dataflow.check import Call, check, origin_of
from openclaw.policy.dataflow.effects import Effect, EffectClass, Hints, Tool, effect_of
from openclaw.policy.dataflow.index import Index
from openclaw.policy.dataflow.origin import OURSELVES, PERSON, Kind, Origin, Text, page, server
from openclaw.policy.dataflow.rules import (
    Allowance,
    Answer,
    Ask,
    Decision,
    Doubt,
    Mode,
    Pass,
    Refuse,
    Rules,
    Why,
    not_done,
    question,
    refusal,
    remember,
)

__all__ = [
    "OURSELVES",
    "PERSON",
    "Allowance",
    "Answer",
    "AnswerStream",
    "Ask",
    "Call",
    "Decision",
    "Doubt",
    "Effect",
    "EffectClass",
    "Hints",
    "Index",
    "Kind",
    "Mode",
    "Neutralised",
    "Origin",
    "Pass",
    "Refuse",
    "Rules",
    "Text",
    "Tool",
    "Why",
    "check",
    "effect_of",
    "neutralise",
    "not_done",
    "origin_of",
    "page",
    "question",
    "refusal",
    "remember",
    "server",
]
