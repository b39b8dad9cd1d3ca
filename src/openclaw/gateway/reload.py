"""Changes of `openclaw.json`, applied while the gateway runs."""

import logging
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from openclaw.config.load import LoadedConfig
from openclaw.config.schema import Config
from openclaw.core.errors import InvalidConfig, OpenClawError, Problem, describe
from openclaw.core.events import Notice
from openclaw.gateway.state import Gateway, ReloadReport

# The file is looked at once a second. Watching it through the kernel would save a `stat` a second
# and cost a dependency, and would miss what editors, links and network file systems do: they replace
# the file, or the directory above it.

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0

_ONCE = ("sessions.store", "logging", "audit")
_ONCE_OF_GATEWAY = (
    "port",
    "bind",
    "auth",
    "limits",
    "cluster",
    "allowed_hosts",
    "allowed_origins",
    "dashboard",
)

Stamp = tuple[int, int, int] | None


def stamp(path: Path) -> Stamp:
    """What changes when the file does; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


class Reloader:
    def __init__(
        self, gateway: Gateway, load: Callable[[], LoadedConfig], loaded: LoadedConfig
    ) -> None:
        self._gateway = gateway
        self._load = load
        self._current = loaded
        self._lock = anyio.Lock()
        self._seen = stamp(loaded.path)

    @property
    def config(self) -> Config:
        return self._current.config

    async def reload(self) -> ReloadReport:
        """Apply what the file says now; raises what is wrong with it, having changed nothing."""
        async with self._lock:
            self._seen = stamp(self._current.path)
            try:
                return await self._reload()
            except OpenClawError as error:
                self._gateway.metrics.reload("invalid")
                self._tell_of(error)
                raise

    async def _reload(self) -> ReloadReport:
        loaded = await anyio.to_thread.run_sync(self._load)
        if self._current.exists and not loaded.exists:
            # The defaults would take away every rule that somebody has written.
            problem = Problem("", "no longer exists; put it back, or restart without it")
            raise InvalidConfig([problem], source=str(loaded.path))
        self._gateway.last_reload_error = None
        if loaded.config == self._current.config:
            self._gateway.metrics.reload("same")
            return ReloadReport(changed=False)
        waiting = waiting_changes(self._current.config, loaded.config)
        await self._gateway.backend.apply(loaded)
        before, self._current = self._current.config, loaded
        self._gateway.metrics.reload("applied")
        if waiting:
            logger.warning("a restart is needed for the change of %s", ", ".join(waiting))
        self._gateway.hub.emit(Notice("info", "the configuration was reloaded"))
        changed = [
            one.alias or name
            for name, one in Config.model_fields.items()
            if getattr(before, name) != getattr(loaded.config, name)
        ]
        logger.info("the configuration was reloaded; changed: %s", ", ".join(changed))
        return ReloadReport(changed=True, waiting=waiting)

    def _tell_of(self, error: OpenClawError) -> None:
        told = self._gateway.redact(describe(error))
        self._gateway.last_reload_error = told
        self._gateway.hub.emit(Notice("error", f"the configuration was not reloaded: {told}"))
        logger.error("the configuration was not reloaded, the old one stays: %s", told)

    async def watch(self) -> None:
        """Reload whenever the file has changed and then been left alone for a moment."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            settings = self._current.config.gateway.reload
            now = stamp(self._current.path)
            if now == self._seen or settings.mode == "off":
                continue
            await anyio.sleep(settings.debounce_ms / 1000)
            if stamp(self._current.path) != now:
                continue  # still being written
            try:
                await self.reload()
            except OpenClawError:
                continue  # told already
            except Exception:
                logger.exception("the configuration was not reloaded")


def waiting_changes(before: Config, after: Config) -> tuple[str, ...]:
    """The key paths that changed and that only a restart can apply."""
    found = [name for name in _ONCE if _at(before, name) != _at(after, name)]
    found += [
        f"gateway.{name}"
        for name in _ONCE_OF_GATEWAY
        if getattr(before.gateway, name) != getattr(after.gateway, name)
    ]
    return tuple(found)


def _at(config: Config, path: str) -> object:
    value: object = config
    for name in path.split("."):
        value = getattr(value, name)
    return value
