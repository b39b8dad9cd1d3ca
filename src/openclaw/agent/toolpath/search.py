"""Finding tools by what they do, with indexes that all sessions of the process share."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from openclaw.core.tools import ToolSpec
from openclaw.discovery import IndexCache, ToolDocument, ToolIndex

_LISTS_KEPT = 8


@dataclass(frozen=True, slots=True)
class Found:
    """Tools for one need, the best first; if none `fits`, they are only the nearest there are."""

    need: str
    specs: tuple[ToolSpec, ...]
    fits: bool


@dataclass(frozen=True, slots=True)
class _Catalogue:
    specs: Sequence[ToolSpec]
    by_name: dict[str, ToolSpec]
    by_folded: dict[str, ToolSpec]
    index: ToolIndex

    def search(self, need: str, limit: int) -> Found:
        """A tool whose name is asked for comes first; one that shares nothing is left out."""
        matches = self.index.search(need, limit)
        exact = self.by_folded.get(need.strip().casefold())
        near = [match for match in matches if match.score > 0 or match.fits]
        names = [exact.name] if exact is not None else []
        names += [match.full_name for match in near if match.full_name not in names]
        specs = tuple(self.by_name[name] for name in names[:limit])
        return Found(need, specs, exact is not None or any(match.fits for match in near))


class ToolSearch:
    """Searches among any list of tools. Without a `directory`, indexes live in memory only."""

    def __init__(self, directory: Path | None = None, cache: IndexCache | None = None) -> None:
        self._cache = cache or IndexCache(directory)
        # The tools are kept beside their ids, so that these cannot come to mean others.
        self._known: OrderedDict[tuple[int, ...], _Catalogue] = OrderedDict()

    async def find(
        self, specs: Sequence[ToolSpec], needs: Iterable[str], limit: int
    ) -> list[Found]:
        catalogue = await self._catalogue(specs)
        return [await anyio.to_thread.run_sync(catalogue.search, need, limit) for need in needs]

    async def nearest(self, specs: Sequence[ToolSpec], text: str, limit: int) -> list[str]:
        if not text.strip():
            return []
        index = (await self._catalogue(specs)).index
        matches = await anyio.to_thread.run_sync(index.nearest, text, limit)
        return [match.full_name for match in matches if match.fits]

    async def _catalogue(self, specs: Sequence[ToolSpec]) -> _Catalogue:
        key = tuple(map(id, specs))
        known = self._known.get(key)
        if known is None:
            known = await anyio.to_thread.run_sync(self._read, specs)
        self._known[key] = known
        self._known.move_to_end(key)
        while len(self._known) > _LISTS_KEPT:
            self._known.popitem(last=False)
        return known

    def _read(self, specs: Sequence[ToolSpec]) -> _Catalogue:
        return _Catalogue(
            specs,
            {spec.name: spec for spec in specs},
            {spec.name.casefold(): spec for spec in specs},
            self._cache.index_of([_document(spec) for spec in specs]),
        )


def _document(spec: ToolSpec) -> ToolDocument:
    return ToolDocument(
        full_name=spec.name,
        server=spec.origin.server or "",
        name=spec.origin.tool or spec.name,
        description=spec.description,
        schema=spec.input_schema,
    )
