"""A tool as the router sees it: weighted words, parameters, and whether it changes anything."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from openclaw.models.local.params import Param, read_params
from openclaw.models.local.words import stem, synonyms, terms, word_set, words


class Effect(StrEnum):
    """What calling a tool does to the world."""

    READS = "reads"
    CHANGES = "changes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RoutableTool:
    """A tool that the router may choose."""

    name: str
    description: str
    schema: Mapping[str, Any]
    label: str = ""
    read_only: bool | None = None


@dataclass(frozen=True, slots=True)
class ToolDoc:
    """What the router knows of a tool before it sees a message."""

    tool: RoutableTool
    weights: Mapping[str, float]
    name_terms: frozenset[str]
    verbs: frozenset[str]
    params: tuple[Param, ...]
    effect: Effect
    deprecated: bool

    def says(self, term: str) -> bool:
        """Whether the name or the first sentence has this word."""
        return self.weights.get(term, 0.0) >= _FIRST_SENTENCE


_NAME_WEIGHT, _FIRST_SENTENCE, _PARAM_WEIGHT, _REST_WEIGHT = 3.0, 1.5, 0.8, 0.3
_MAX_DESCRIPTION = 1500
_CHANGING = word_set("""add append apply approve archive assign attach cancel clear clone close commit create delete
    deploy disable drop edit enable erase exec execute exec install invite kill merge modify move
    patch pay post publish purge push put rebase remove rename replace reset restart restore run
    save schedule send set stop submit trigger truncate uninstall update upload write checkout
    switch insert""")
# A server that says that such a tool only reads is not believed.
_PLAINLY_CHANGING = word_set(
    "delete drop edit erase kill move overwrite purge remove rename reset truncate uninstall write"
)
CHANGING_STEMS = frozenset(map(stem, _CHANGING))
_READING = word_set("""check compare convert count current describe diff explain fetch find get grep info inspect
    list log look lookup query read retrieve search show stat status summarize tree validate view
    history branch""")
_PREFIX = re.compile(r"^\[MCP server: ([^\]]*)\]\s*")
_LABEL = re.compile(r"MCP: ([^/]+)/(.+)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")


def _own_name(tool: RoutableTool) -> tuple[str, str]:
    """The tool's own name, and its server's, which says little about what the tool does."""
    labelled = _LABEL.fullmatch(tool.label)
    if labelled:
        return labelled[2], labelled[1]
    said = _PREFIX.match(tool.description)
    if said and tool.name.startswith(f"mcp_{said[1]}_"):
        return tool.name.removeprefix(f"mcp_{said[1]}_"), said[1]
    return tool.name.removeprefix("mcp_"), ""


def _effect(tool: RoutableTool, name_words: list[str]) -> Effect:
    if set(name_words) & _PLAINLY_CHANGING:
        return Effect.CHANGES
    if tool.read_only is not None:
        return Effect.READS if tool.read_only else Effect.CHANGES
    if set(name_words) & _CHANGING:
        return Effect.CHANGES
    return Effect.READS if set(name_words) & _READING else Effect.UNKNOWN


def _verbs(name_words: list[str]) -> frozenset[str]:
    """The stems that plainly ask for a tool which changes something."""
    named = {word for word in name_words if word in _CHANGING} or set(name_words)
    stems = {stem(word) for word in named}
    return frozenset(stems | {other for term in stems for other in synonyms(term)})


def describe_tool(tool: RoutableTool) -> ToolDoc:
    """Read a tool once, so that each message costs little."""
    text = _PREFIX.sub("", tool.description[:_MAX_DESCRIPTION]).strip()
    first, _, rest = (_SENTENCE_END.sub("\0", text, count=1) + "\0").partition("\0")
    name, server = _own_name(tool)
    name_words = words(name)
    params = read_params(tool.schema, f"{' '.join(name_words)} {first}")
    weights: dict[str, float] = {}
    for words_of, weight in (
        (rest, _REST_WEIGHT),
        (server, _PARAM_WEIGHT),
        (" ".join(param.name for param in params), _PARAM_WEIGHT),
        (first, _FIRST_SENTENCE),
        (" ".join(name_words), _NAME_WEIGHT),
    ):
        for term in terms(words_of):
            weights[term] = max(weights.get(term, 0.0), weight)
    return ToolDoc(
        tool=tool,
        weights=weights,
        name_terms=frozenset(terms(" ".join(name_words))),
        verbs=_verbs(name_words),
        params=params,
        effect=_effect(tool, name_words),
        deprecated="deprecated" in text.lower(),
    )
