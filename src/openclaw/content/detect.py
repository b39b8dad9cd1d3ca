"""How much a text looks like an attempt to give the agent orders."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Detection:
    """A score from 0 up, the names of what was seen, and whether that is enough to say so."""

    score: float
    signals: tuple[str, ...]
    suspicious: bool


def detect(text: str) -> Detection:
    """Score `text`; the time is bounded however long it is."""
    hit = "ignore previous instructions" in text.lower()
    return Detection(1.0 if hit else 0.0, ("override",) if hit else (), hit)
