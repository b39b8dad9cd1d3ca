"""Allow and deny globs on tool names, in layers.

A glob knows `*` (any run), `?` (one character) and `[abc]`, `[a-z]`, `[!a]` (one of, none of).
Names and globs are compared case-folded: no change of case gets a tool past a rule.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, Self

Token = Literal["*", "?"] | str | tuple[bool, tuple[tuple[str, str], ...]]
"""One element of a glob: any run, any one, this character, or (negated, ranges)."""


@dataclass(frozen=True)
class Rules:
    """One layer: deny wins over allow, and an empty `allow` means all."""

    layer: str = "tools"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    @classmethod
    def of(cls, layer: str, *, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> Self:
        """A layer named for the configuration key that it came from."""
        return cls(layer=layer, allow=tuple(allow), deny=tuple(deny))

    @cached_property
    def says_nothing(self) -> bool:
        """Whether this layer restricts nothing."""
        return not self.allow and not self.deny


@dataclass(frozen=True)
class Policy:
    """Layers in the order in which they are asked. A tool must pass every one of them."""

    layers: tuple[Rules, ...] = field(default=())

    @classmethod
    def from_layers(cls, layers: Sequence[Rules]) -> Self:
        """A policy of these layers; those that restrict nothing are left out."""
        return cls(tuple(rules for rules in layers if not rules.says_nothing))


def glob_matches(pattern: str, name: str) -> bool:
    """Whether `name` matches `pattern`, case-folded, in time linear in each of them."""
    return _matches(parse_glob(pattern), name.casefold())


@lru_cache(maxsize=1024)
def parse_glob(pattern: str) -> tuple[Token, ...]:
    """The elements of a glob; an unclosed `[` stands for itself, and `**` is `*`."""
    folded = pattern.strip().casefold()
    tokens: list[Token] = []
    at = 0
    while at < len(folded):
        token, at = _next_token(folded, at)
        if not (token == "*" and tokens and tokens[-1] == "*"):
            tokens.append(token)
    return tuple(tokens)


def _next_token(pattern: str, at: int) -> tuple[Token, int]:
    char = pattern[at]
    if char != "[":
        # A literal is a one-character tuple set, so that `*` and `?` stay unambiguous.
        return (char, at + 1) if char in "*?" else ((False, ((char, char),)), at + 1)
    end = _closing_bracket(pattern, at)
    if end < 0:
        return (False, (("[", "["),)), at + 1
    return _character_set(pattern[at + 1 : end]), end + 1


def _closing_bracket(pattern: str, at: int) -> int:
    start = at + 1
    if pattern[start : start + 1] in {"!", "^"}:
        start += 1
    # As in a shell, a bracket that comes first belongs to the set.
    return pattern.find("]", start + 1)


def _character_set(body: str) -> Token:
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


def _accepts(token: Token, char: str) -> bool:
    if isinstance(token, str):
        return True
    negated, ranges = token
    return any(low <= char <= high for low, high in ranges) is not negated


def _matches(tokens: tuple[Token, ...], name: str) -> bool:
    """Greedy matching that goes back to the last `*` alone: no pattern makes it exponential."""
    token = char = 0
    star = resume = -1
    while char < len(name):
        if token < len(tokens) and tokens[token] == "*":
            star, resume = token, char
            token += 1
        elif token < len(tokens) and _accepts(tokens[token], name[char]):
            token += 1
            char += 1
        elif star >= 0:
            resume += 1
            token, char = star + 1, resume
        else:
            return False
    return all(rest == "*" for rest in tokens[token:])
