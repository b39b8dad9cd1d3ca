"""Allow, deny and ask globs on tool names, in layers.

A glob knows `*` (any run), `?` (one character) and `[abc]`, `[a-z]`, `[!a]` (one of, none of).
Names and globs are compared case-folded: no change of case gets a tool past a rule.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, Self

ANY_RUN = "*"
ANY_ONE = "?"
Element = Literal["*", "?"] | tuple[bool, tuple[tuple[str, str], ...]]
"""One element of a glob: any run, any one character, or (negated, ranges of characters)."""


@dataclass(frozen=True)
class Rules:
    """One layer: deny wins over allow, and an empty `allow` means all.

    `ask` makes a person decide over each call that is allowed otherwise.
    """

    layer: str = "tools"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        layer: str,
        *,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        ask: Iterable[str] = (),
    ) -> Self:
        """A layer named for the configuration key that it came from."""
        return cls(layer=layer, allow=tuple(allow), deny=tuple(deny), ask=tuple(ask))

    @cached_property
    def says_nothing(self) -> bool:
        """Whether this layer restricts nothing."""
        return not self.allow and not self.deny and not self.ask


@dataclass(frozen=True)
class Policy:
    """Layers in the order in which they are asked. A tool must pass every one of them."""

    layers: tuple[Rules, ...] = field(default=())

    @classmethod
    def from_layers(cls, layers: Sequence[Rules]) -> Self:
        """A policy of these layers; those that restrict nothing are left out."""
        return cls(tuple(rules for rules in layers if not rules.says_nothing))


def glob_matches(pattern: str, name: str) -> bool:
    """Whether `name` matches `pattern`, case-folded, in time bounded by the product of their lengths."""
    return _matches(parse_glob(pattern), name.casefold())


@lru_cache(maxsize=1024)
def parse_glob(pattern: str) -> tuple[Element, ...]:
    """The elements of a glob; an unclosed `[` stands for itself, and `**` is `*`."""
    folded = pattern.strip().casefold()
    elements: list[Element] = []
    at = 0
    while at < len(folded):
        element, at = _next_element(folded, at)
        if not (element == ANY_RUN and elements and elements[-1] == ANY_RUN):
            elements.append(element)
    return tuple(elements)


def accepts(element: Element, char: str) -> bool:
    """Whether an element other than `*` stands for this character."""
    if isinstance(element, str):
        return element == ANY_ONE
    negated, ranges = element
    return any(low <= char <= high for low, high in ranges) is not negated


def _next_element(pattern: str, at: int) -> tuple[Element, int]:
    char = pattern[at]
    if char == "*" or char == "?":
        return char, at + 1
    end = _closing_bracket(pattern, at) if char == "[" else -1
    if end < 0:
        return (False, ((char, char),)), at + 1
    return _character_set(pattern[at + 1 : end]), end + 1


def _closing_bracket(pattern: str, at: int) -> int:
    first = at + 1
    if pattern[first : first + 1] in {"!", "^"}:
        first += 1
    # As in a shell, a bracket that comes first belongs to the set.
    return pattern.find("]", first + 1)


def _character_set(body: str) -> Element:
    negated = body[:1] in {"!", "^"}
    members = body[1:] if negated else body
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(members):
        if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
            ranges.append((members[at], members[at + 2]))
            at += 3
        else:
            ranges.append((members[at], members[at]))
            at += 1
    return negated, tuple(ranges)


def _matches(glob: tuple[Element, ...], name: str) -> bool:
    """Greedy, and back to the last `*` alone: at worst the product of the two lengths."""
    element = char = 0
    star = resume = -1
    while char < len(name):
        if element < len(glob) and glob[element] == ANY_RUN:
            star, resume = element, char
            element += 1
        elif element < len(glob) and accepts(glob[element], name[char]):
            element += 1
            char += 1
        elif star >= 0:
            resume += 1
            element, char = star + 1, resume
        else:
            return False
    return all(rest == ANY_RUN for rest in glob[element:])
