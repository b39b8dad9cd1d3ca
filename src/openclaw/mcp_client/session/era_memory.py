"""Remembers on disk which era of the protocol a server speaks, so that it need not be found out."""

import hashlib
import json
import logging
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.config.paths import private_directory, write_atomically
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import OperatorFacing

if TYPE_CHECKING:
    from openclaw.config.agent_schema import McpServerConfig

logger = logging.getLogger(__name__)

FORGET_LEGACY_AFTER = 7 * 24 * 3600.0  # seconds; servers are updated now and then


class Era(StrEnum):
    LEGACY = "legacy"
    MODERN = "modern"


def identity(config: "McpServerConfig") -> str:
    """A key for this server that changes with its program or address."""
    parts = [config.kind, config.command, list(config.args), config.cwd, config.url]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class EraMemory:
    """One small file per server. If it can't be read or written, nothing is remembered."""

    def __init__(self, directory: Path | None, key: str, clock: Clock | None = None) -> None:
        self._path = None if directory is None else directory / "mcp-protocols" / key
        self._clock = clock or SystemClock()

    def recall(self) -> Era | None:
        if self._path is None:
            return None
        try:
            era = Era(self._path.read_text("ascii").strip())
            age = self._clock.now_ms() / 1000 - self._path.stat().st_mtime
        except (OSError, ValueError):
            return None
        return None if era is Era.LEGACY and age > FORGET_LEGACY_AFTER else era

    def is_known(self) -> bool:
        """Whether it was ever found out, however long ago."""
        return self._path is not None and self._path.exists()

    def remember(self, era: Era) -> None:
        if self._path is None or self.recall() is era:
            return
        try:
            private_directory(self._path.parent)
            write_atomically(self._path, era)
        except OperatorFacing as error:
            logger.debug("the protocol era cannot be remembered: %s", error)
