"""One running server and its pins: compared whenever it lists, and again once they were accepted."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import anyio.to_thread

from openclaw.core.errors import OpenClawError
from openclaw.mcp_client.pin_store import PinStore, pin_key, target_of
from openclaw.mcp_client.pins import (
    INSTRUCTIONS,
    Crossing,
    Declarations,
    PinReport,
    crossings,
    declarations,
    mentions,
)

if TYPE_CHECKING:
    from openclaw.config.schema import McpServerConfig
    from openclaw.mcp_client.snapshot import Listing

logger = logging.getLogger(__name__)

PINNED = "pinned"
_MOST_TOLD = 50


class Pinning:
    """What the pins say of one server now. With `strict`, what nobody accepted is withheld."""

    def __init__(
        self,
        name: str,
        config: "McpServerConfig",
        store: PinStore | None,
        redact: Callable[[str], str],
    ) -> None:
        self._name = name
        self._mode = "off" if store is None else config.pin
        self._store = store
        self._key, self._target = pin_key(config), target_of(config)
        self._redact = redact
        self._now: Declarations = {}
        self._stamp = 0
        self._trouble: str | None = None
        self.report: PinReport | None = None
        self.mentions: Mapping[str, frozenset[str]] = {}

    @property
    def words(self) -> str | None:
        """How the server stands, in one line; None where it is not pinned."""
        if self.report is None:
            return None
        if self._trouble is not None:
            return self._trouble
        if not self.report.differs:
            return PINNED
        return f"{self.report.words()}{' (withheld)' if self._mode == 'strict' else ''}"

    def withholds(self, tool: str) -> bool:
        """Whether this tool is not to be used until somebody accepts it."""
        strict = self._mode == "strict" and self.report is not None
        return strict and self.report is not None and tool in self.report.unaccepted

    @property
    def withholds_instructions(self) -> bool:
        """Whether what the server says of itself is not to be shown until somebody accepts it."""
        return (
            self._mode == "strict" and self.report is not None and self.report.instructions_changed
        )

    async def check(self, listing: "Listing") -> None:
        """Compare what the server lists; tells of a change once."""
        await anyio.to_thread.run_sync(self._take, listing)
        await self._compare()

    async def recheck(self) -> bool:
        """Compare again where the pins were changed meanwhile; whether that changed anything."""
        if self.report is None or not self.report.differs or self._store is None:
            return False
        if await anyio.to_thread.run_sync(self._store.stamp) == self._stamp:
            return False
        before = self.report
        await self._compare()
        return self.report != before

    def _take(self, listing: "Listing") -> None:
        self._now = declarations(listing, self._redact)
        self.mentions = {
            name: mentions(declared.text)
            for name, declared in self._now.items()
            if name != INSTRUCTIONS
        }

    async def _compare(self) -> None:
        if self._mode == "off" or self._store is None:
            return
        before, self._trouble = self.report, None
        try:
            self.report = await anyio.to_thread.run_sync(self._observe, self._store)
        except OpenClawError as error:
            # Without its pins nobody can say that a server is what it was.
            self._trouble = error.message
            self.report = PinReport(
                changed=tuple(name for name in self._now if name != INSTRUCTIONS),
                instructions_changed=INSTRUCTIONS in self._now,
            )
        if self.report.differs and self.report != before:
            logger.warning(
                "MCP server '%s' no longer declares what was accepted: %s; look at it with "
                "'openclaw mcp pins show %s'",
                self._name,
                self.words,
                self._name,
                extra={"server": self._name},
            )

    def _observe(self, store: PinStore) -> PinReport:
        report = store.observe(self._key, self._name, self._target, self._now)
        self._stamp = store.stamp()
        return report


class CrossingWatch:
    """Where servers shadow or speak of one another's tools; each finding is logged once."""

    def __init__(self) -> None:
        self._version = -1
        self._found: list[Crossing] = []
        self._told: set[Crossing] = set()

    def look(self, version: int, servers: Iterable[tuple[str, Pinning]]) -> list[Crossing]:
        """The findings among these servers; looked for once for each version of what they offer."""
        if version != self._version:
            self._version = version
            self._found = crossings({name: pinning.mentions for name, pinning in servers})
            for one in self._found[:_MOST_TOLD]:
                if one not in self._told:
                    self._told.add(one)
                    logger.warning("MCP servers: %s", one.words(), extra={"server": one.server})
        return self._found
