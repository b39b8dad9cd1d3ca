"""Applies changes of `openclaw.json` to a running program, with and without a gateway."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import anyio
import anyio.to_thread

from openclaw.config.agent_schema import Section
from openclaw.config.load import FileStamp, LoadedConfig, require_file, stamp
from openclaw.config.schema import Config


@dataclass(frozen=True, slots=True)
class ReloadReport:
    changed: tuple[str, ...] = ()  # the top-level keys that were changed
    waiting: tuple[str, ...] = ()  # key paths whose change needs a restart


class ConfigReload:
    """The configuration that is in effect, and how to replace it by what the file says now.

    `apply` either applies a configuration or raises and changes nothing.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        load: Callable[[], LoadedConfig],
        apply: Callable[[LoadedConfig], Awaitable[None]],
    ) -> None:
        self.current = loaded
        self._load, self._apply = load, apply
        self._started = loaded.config
        self._lock = anyio.Lock()
        self._seen = loaded.stamp

    @property
    def is_due(self) -> bool:
        """Whether the file has changed since it was last read."""
        return self.stamp() != self._seen

    def stamp(self) -> FileStamp:
        return stamp(self.current.path)

    async def reload(self) -> ReloadReport:
        """Apply the file as it is now; if it is invalid, raises and changes nothing."""
        async with self._lock:
            return await self._reload()

    async def reload_if_due(self) -> ReloadReport | None:
        async with self._lock:
            return await self._reload() if self.is_due else None

    async def _reload(self) -> ReloadReport:
        self._seen = self.stamp()
        loaded = await anyio.to_thread.run_sync(self._load)
        require_file(loaded, self.current)
        # Since the start, not since the last reload: another one may just have applied the rest.
        waiting = tuple(waiting_changes(self._started, loaded.config))
        before = self.current.config
        if loaded.config == before:
            return ReloadReport(waiting=waiting)
        await self._apply(loaded)
        self.current = loaded
        changed = tuple(
            field.alias or name
            for name, field in Config.model_fields.items()
            if getattr(before, name) != getattr(loaded.config, name)
        )
        return ReloadReport(changed, waiting)


def waiting_changes(before: Section, after: Section, path: str = "") -> Iterator[str]:
    """The key paths that changed and that only a restart applies."""
    for name, field in type(before).model_fields.items():
        old, new = getattr(before, name), getattr(after, name)
        place = f"{path}{field.alias or name}"
        if old == new:
            continue
        if isinstance(old, Section) and isinstance(new, Section):
            yield from waiting_changes(old, new, f"{place}.")
        elif type(before).field_applies(name) == "restart":
            yield place
