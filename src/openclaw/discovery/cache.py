"""One index per catalogue, in memory and in a file. Imports numpy when the first one is asked for."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.discovery.stems import ToolDocument, catalogue_hash

if TYPE_CHECKING:
    from openclaw.discovery.tool_index import ToolIndex

logger = logging.getLogger(__name__)

IN_MEMORY = 4
IN_FILES = 16  # agents, workspaces and versions of servers each have their own catalogue

SUFFIX = ".index"


class IndexCache:
    """Safe to share between threads. Without a `directory`, nothing is written."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._indexes: OrderedDict[str, ToolIndex] = OrderedDict()
        self._working = threading.Lock()

    def index_of(self, documents: Sequence[ToolDocument]) -> "ToolIndex":
        """From memory, from its file, or built by reusing parts of the last one. May take seconds."""
        key = catalogue_hash(documents)
        with self._working:
            index = self._indexes.get(key)
            if index is None:
                index = self._indexes[key] = self._read(key) or self._build(documents, key)
            self._indexes.move_to_end(key)
            while len(self._indexes) > IN_MEMORY:
                self._indexes.popitem(last=False)
            return index

    def _read(self, key: str) -> "ToolIndex | None":
        from openclaw.discovery.tool_index import load_index

        if self._directory is None:
            return None
        path = self._directory / f"{key}{SUFFIX}"
        found = load_index(path, key)
        if found is not None:
            with suppress(OSError):
                path.touch()  # the files used longest ago are removed first
        return found

    def _build(self, documents: Sequence[ToolDocument], key: str) -> "ToolIndex":
        from openclaw.discovery.tool_index import build_index, save_index

        previous = next(reversed(self._indexes.values()), None)
        index = build_index(documents, previous=previous)
        if self._directory is not None:
            try:
                save_index(index, self._directory / f"{key}{SUFFIX}", key)
                self._remove_old(self._directory)
            except OSError as error:
                logger.warning("the index of tools could not be saved: %s", error)
        return index

    def _remove_old(self, directory: Path) -> None:
        files = sorted(directory.glob(f"*{SUFFIX}"), key=_used, reverse=True)
        for path in files[IN_FILES:]:
            path.unlink(missing_ok=True)


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process removed it
        return 0.0
