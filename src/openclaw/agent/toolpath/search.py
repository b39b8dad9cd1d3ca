"""Finding tools by what they do: BM25 over names, descriptions and parameter names."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from openclaw.core.tools import ToolSpec

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_K1, _B = 1.2, 0.6
_NAME_WEIGHT = 3
_DESCRIPTION_CHARS = 1_000
_SHORTEST_STEM = 4


def words(text: str) -> list[str]:
    """The words of `text`, folded, with camelCase and snake_case taken apart."""
    return [_stem(word) for word in _WORD.findall(_CAMEL.sub(" ", text).casefold())]


def _stem(word: str) -> str:
    """A crude singular, so that "files" finds "file"."""
    if len(word) > _SHORTEST_STEM and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


class ToolIndex:
    """An index over some tools; building it is linear, and so is a search."""

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        self._specs = list(specs)
        self._counts = [Counter(_document(spec)) for spec in self._specs]
        self._lengths = [sum(count.values()) for count in self._counts]
        self._mean = (sum(self._lengths) / len(self._lengths)) if self._lengths else 1.0
        self._spread: Counter[str] = Counter()
        for count in self._counts:
            self._spread.update(count.keys())

    def search(self, query: str, limit: int) -> Sequence[ToolSpec]:
        """The best matches, the best first; a tool whose name is asked for comes first of all."""
        asked = Counter(words(query))
        exact = query.strip().casefold()
        scored: list[tuple[float, int]] = []
        for at, spec in enumerate(self._specs):
            score = self._score(at, asked) + (1_000.0 if spec.name.casefold() == exact else 0.0)
            if score > 0:
                scored.append((score, -at))
        scored.sort(reverse=True)
        return [self._specs[-at] for _, at in scored[:limit]]

    def _score(self, at: int, asked: Mapping[str, int]) -> float:
        count, length = self._counts[at], self._lengths[at]
        total = 0.0
        for word in asked:
            often = count.get(word, 0)
            if often:
                rarity = math.log(1 + (len(self._specs) + 0.5) / (self._spread[word] + 0.5))
                norm = _K1 * (1 - _B + _B * length / self._mean)
                total += rarity * often * (_K1 + 1) / (often + norm)
        return total


def _document(spec: ToolSpec) -> list[str]:
    properties: Any = spec.input_schema.get("properties")
    names = list(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else []
    return [
        *words(spec.name) * _NAME_WEIGHT,
        *words(spec.description[:_DESCRIPTION_CHARS]),
        *(word for name in names for word in words(name)),
    ]
