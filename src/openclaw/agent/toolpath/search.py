"""Finding tools by what they do, with indexes that all sessions of the process share."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio.to_thread

from openclaw.core.tools import ToolSpec
from openclaw.discovery import IndexCache, Match, ToolDocument, ToolIndex

_LISTS_KEPT = 8


@dataclass(frozen=True, slots=True)
class Found:
    """Tools for one need, the best first; if none `fits`, they are only the nearest there are."""

    need: str
    specs: tuple[ToolSpec, ...]
    fits: bool


class ToolSearch:
    """Searches among any list of tools. Without a `directory`, indexes live in memory only."""

    def __init__(self, directory: Path | None = None, cache: IndexCache | None = None) -> None:
        self._cache = cache or IndexCache(directory)
        # The tools are kept beside their index, so that their ids cannot come to mean others.
        self._known: OrderedDict[tuple[int, ...], tuple[Sequence[ToolSpec], ToolIndex]] = (
            OrderedDict()
        )

    async def find(
        self, specs: Sequence[ToolSpec], needs: Iterable[str], limit: int
    ) -> list[Found]:
        """What there is for each need."""
        index = await self._index(specs)
        by_name = {spec.name: spec for spec in specs}
        found: list[Found] = []
        for need in needs:
            matches = await anyio.to_thread.run_sync(index.search, need, limit)
            found.append(_found(need, matches, by_name, limit))
        return found

    async def nearest(self, specs: Sequence[ToolSpec], text: str, limit: int) -> list[str]:
        """The names of the tools that fit this text, the best first."""
        if not text.strip():
            return []
        index = await self._index(specs)
        matches = await anyio.to_thread.run_sync(partial(index.nearest, text, limit))
        return [match.full_name for match in matches if match.fits]

    async def _index(self, specs: Sequence[ToolSpec]) -> ToolIndex:
        key = tuple(map(id, specs))
        known = self._known.get(key)
        if known is None:
            index = await anyio.to_thread.run_sync(self._build, specs)
            known = self._known[key] = (specs, index)
        self._known.move_to_end(key)
        while len(self._known) > _LISTS_KEPT:
            self._known.popitem(last=False)
        return known[1]

    def _build(self, specs: Sequence[ToolSpec]) -> ToolIndex:
        return self._cache.index_of([_document(spec) for spec in specs])


def _document(spec: ToolSpec) -> ToolDocument:
    return ToolDocument(
        full_name=spec.name,
        server=spec.origin.server or "",
        name=spec.origin.tool or spec.name,
        description=spec.description,
        schema=spec.input_schema,
    )


def _found(need: str, matches: Sequence[Match], by_name: dict[str, ToolSpec], limit: int) -> Found:
    """A tool whose name is asked for comes first of all; one that shares nothing is left out."""
    asked = need.strip().casefold()
    exact = [spec for spec in by_name.values() if spec.name.casefold() == asked]
    near = [by_name[match.full_name] for match in matches if match.score > 0 or match.fits]
    specs = tuple({spec.name: spec for spec in [*exact, *near]}.values())[:limit]
    return Found(need, specs, bool(exact) or any(match.fits for match in matches))
