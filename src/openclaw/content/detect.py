"""How much a text looks like an attempt to give the agent orders.

A scorer over named signals (`openclaw.content.signals`), not a guard: the frame holds whether it
fires or not. Its answer goes to the log, to an event and, where the operator wants it, replaces
the result by a note.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from openclaw.content.fold import HIDDEN, layers, shape
from openclaw.content.signals import compiled, compiled_foreign, discussion

THRESHOLD = 1.0

# Of a long text, the beginning, the end and windows in between are read: what is said to an agent
# is put where an agent will read it, and the time stays bounded.
_HEAD, _TAIL, _WINDOW, _WINDOWS = 12_000, 6_000, 2_000, 6

_TAGS = re.compile(
    "[\U000e0020-\U000e007e]{4,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}|[\u200b-\u200d\u2060]{8,}"
)
_SPACED_OUT = re.compile(r"\b(?:\w[ ]){5,}\w\b")
_MIXED_LEET = re.compile(r"\b(?=\w*[a-z])(?=\w*[013457])[a-z013457]{3,}\b")
_LEET = tuple(str.maketrans("013457", letters) for letters in ("oieast", "oleast"))
_RUNS = re.compile(r"[^\S\n]+")


@dataclass(frozen=True, slots=True)
class Detection:
    """A score from 0 up, the names of what was seen, and whether that is enough to say so."""

    score: float
    signals: tuple[str, ...]
    suspicious: bool


def detect(text: str) -> Detection:
    """Score `text`; the time is bounded however long it is."""
    sample = _sample(text)
    found: dict[str, float] = {}
    if _TAGS.search(sample):
        found["hidden-characters"] = 1.0
    about = 0
    for view in _views(sample):
        about = max(about, discussion(view))
        _score(view, found)
    _score_foreign(unicodedata.normalize("NFKC", sample).lower(), found)
    score = sum(found.values())
    if about >= 2 and "hidden-characters" not in found:
        score *= 0.4  # who writes about attacks quotes them
    return Detection(round(score, 2), tuple(sorted(found)), score >= THRESHOLD)


def _score(view: str, found: dict[str, float]) -> None:
    for signal in compiled():
        if signal.name not in found and signal.fires(view):
            found[signal.name] = signal.weight


def _score_foreign(view: str, found: dict[str, float]) -> None:
    # Orders and secrets alone are everyday words; the first two must make them an attempt.
    override, concealment, *others = compiled_foreign()
    if override.fires(view) or concealment.fires(view):
        found.update({s.name: s.weight for s in (override, concealment, *others) if s.fires(view)})


def _sample(text: str) -> str:
    if len(text) <= _HEAD + _TAIL + _WINDOW * _WINDOWS:
        return text
    step = (len(text) - _HEAD - _TAIL) // _WINDOWS
    windows = (text[at : at + _WINDOW] for at in range(_HEAD, len(text) - _TAIL, step))
    return "\n".join([text[:_HEAD], *windows, text[-_TAIL:]])


def _views(text: str) -> Iterator[str]:
    """The text as a reader may take it: folded, decoded, and with its letters drawn together."""
    folded = _folded(text)
    yield folded
    for layer in layers(text):
        yield _folded(layer.text)
    together = _SPACED_OUT.sub(lambda match: match[0].replace(" ", ""), text.lower())
    if together != text.lower():
        yield _spread(together)
    if _MIXED_LEET.search(folded):
        for table in _LEET:
            yield _MIXED_LEET.sub(lambda match, table=table: match[0].translate(table), folded)


def _folded(text: str) -> str:
    # A line break before the first word makes it the beginning of a line like any other.
    return "\n" + _RUNS.sub(" ", shape(text.lower()).replace(HIDDEN, ""))


def _spread(text: str) -> str:
    """Words that were written letter by letter have lost their gaps: find the telling ones."""
    for word in ("ignore", "previous", "instructions", "disregard", "system", "prompt", "all"):
        text = text.replace(word, f" {word} ")
    return _RUNS.sub(" ", text)
