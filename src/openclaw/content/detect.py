"""How much a text looks like an attempt to give the agent orders.

A scorer over named signals, not a guard: the frame holds whether it fires or not. Its answer goes
to the log, to an event and, where the operator wants it, replaces the result by a note.

It reads in three steps, each only where the one before saw a reason: the words of the text
(`concepts`), then the patterns over the sentences whose words speak to an agent (`signals`,
`demands`), and the same again for what the text may be read as (`views`, `foreign`).
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

from openclaw.content.concepts import FOREIGN, SELF, Region, regions, words_about, worth_reading
from openclaw.content.demands import DEMANDS
from openclaw.content.foreign import foreign_signals
from openclaw.content.signals import SIGNALS, Matcher, discussion
from openclaw.content.views import disguises, folded

THRESHOLD = 1.0

# Of a long text, the beginning, the end and windows in between are read: what is said to an agent
# is put where an agent will read it, and the time stays bounded.
_HEAD, _TAIL, _WINDOW, _WINDOWS = 12_000, 6_000, 2_000, 6

_TAGS = re.compile(
    "[\U000e0020-\U000e007e]{4,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}|[\u200b-\u200d\u2060]{8,}"
)
# What is asked of nobody in particular, with a "you" somewhere or without one.
_OF_SOMEBODY, _OF_NOBODY = 0.95, 0.8
# Who writes about attacks quotes them.
_DISCUSSED = 0.4


@dataclass(frozen=True, slots=True)
class Detection:
    """A score from 0 up, the names of what was seen, and whether that is enough to say so."""

    score: float
    signals: tuple[str, ...]
    suspicious: bool


_NOTHING = Detection(0.0, (), suspicious=False)


def detect(text: str) -> Detection:
    """Score `text`; the time is bounded however long it is."""
    sample = _sample(text)
    plain = folded(sample)
    about = words_about(plain)
    found = _best(plain) if worth_reading(about) else {}
    for view in disguises(sample, plain, about):
        if worth_reading(words_about(view)):
            found = max(found, _best(view), key=_total)
    if about & FOREIGN or not sample.isascii():
        normal = unicodedata.normalize("NFKC", sample).lower()
        found = max(found, foreign_signals(normal), key=_total)
        if _TAGS.search(sample):
            found = found | {"hidden-characters": 1.0}
    if not found:
        return _NOTHING
    score = _total(found)
    if score >= THRESHOLD and "hidden-characters" not in found and discussion(plain) >= 2:
        score *= _DISCUSSED
    return Detection(round(score, 2), tuple(sorted(found)), score >= THRESHOLD)


def _total(found: dict[str, float]) -> float:
    return round(sum(found.values()), 3)


def _best(view: str) -> dict[str, float]:
    """The signals of the region that has most of them."""
    best: dict[str, float] = {}
    for region in regions(view):
        found = _score(region)
        if _total(found) > _total(best):
            best = found
    return best


def _score(region: Region) -> dict[str, float]:
    fired = [matcher for matcher in _matchers() if matcher.fires(region)]
    weight = 1.0
    if not any(matcher.to_agent for matcher in fired):
        weight = _OF_SOMEBODY if region.about & SELF else _OF_NOBODY
    return {matcher.name: matcher.weight * weight for matcher in fired}


@cache
def _matchers() -> tuple[Matcher, ...]:
    return tuple(map(Matcher, (*SIGNALS, *DEMANDS)))


def _sample(text: str) -> str:
    if len(text) <= _HEAD + _TAIL + _WINDOW * _WINDOWS:
        return text
    step = (len(text) - _HEAD - _TAIL) // _WINDOWS
    windows = (text[at : at + _WINDOW] for at in range(_HEAD, len(text) - _TAIL, step))
    return "\n".join([text[:_HEAD], *windows, text[-_TAIL:]])
