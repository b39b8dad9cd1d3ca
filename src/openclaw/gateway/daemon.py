"""The gateway's process: listens, watches the configuration, ends in bounded time."""

import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import TaskGroup, TaskStatus

from openclaw.agent.port import NO_LISTENER
from openclaw.agent.schedules import JobFile, Scheduler
from openclaw.config.load import LoadedConfig
from openclaw.config.paths import StatePaths
from openclaw.config.reload import ConfigReload, ReloadReport
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError, OperatorFacing, describe
from openclaw.core.events import Emit, Notice
from openclaw.gateway.answered_questions import AnsweredQuestions
from openclaw.gateway.gateway import Gateway, GatewayBackend
from openclaw.gateway.listening import bind_addresses, listen, shown_url
from openclaw.gateway.lock import GatewayInfo, Publish
from openclaw.gateway.service_files import Notifier
from openclaw.gateway.tokens import TokenFile, Tokens, owner_token
from openclaw.secrets.refs import Secret
from openclaw.sessions.task_groups import helper_tasks
from openclaw.version import __version__

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 10.0  # how long stopped turns may take to record that

_SERVER_CLOSE_SECONDS = 3.0

# Takes where events outside of turns go, and the gateway's address.
OpenBackend = Callable[[Emit, str], AbstractAsyncContextManager[GatewayBackend]]


@dataclass(frozen=True, slots=True)
class Daemon:
    loaded: LoadedConfig
    load: Callable[[], LoadedConfig]
    paths: StatePaths
    clock: Clock
    redact: Callable[[str], str]
    open_backend: OpenBackend
    resolve: Callable[[str], Awaitable[Secret]]
    notifier: Notifier
    log_file: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str])  # for commands that we start
    variables: Mapping[str, str] = field(default_factory=dict[str, str])  # `${VAR}` in the config
    on_ready: Callable[[Gateway], None] = lambda gateway: None


async def serve(daemon: Daemon, publish: Publish, stop: anyio.Event | None = None) -> None:
    """Run until SIGTERM, SIGINT or `stop`. Raises what keeps it from starting."""
    settings = daemon.loaded.config.gateway
    configured: Secret | None = None
    if settings.auth.token:
        configured = await daemon.resolve(settings.auth.token)
        if not configured:
            raise OperatorFacing("gateway.auth.token is empty", hint="remove it or give it a value")
    root, clock = daemon.paths.root, daemon.clock
    tokens = Tokens(owner_token(root), clock, configured, TokenFile(root, clock))
    addresses = bind_addresses(settings.bind, settings.port, has_token=tokens.handed_out)
    with ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in listen(addresses)]
        gateway = Gateway(
            settings=settings,
            paths=daemon.paths,
            clock=clock,
            redact=daemon.redact,
            config_path=daemon.loaded.path,
            started=clock.now_ms(),
            url=shown_url(sockets),
            log_file=daemon.log_file,
            tokens=tokens,
            environ=daemon.variables,
        )
        async with helper_tasks() as group:
            gateway.background = group
            async with _listening(gateway, sockets, group):
                await _run(daemon, publish, gateway, group, stop or anyio.Event())


async def _run(
    daemon: Daemon, publish: Publish, gateway: Gateway, group: TaskGroup, stop: anyio.Event
) -> None:
    await group.start(_signals, stop, gateway, name="signals")
    async with (
        daemon.open_backend(gateway.emit, gateway.url) as backend,
        helper_tasks() as gateway.serving,
    ):
        gateway.opened = backend
        reloader = Reloader(gateway, daemon.load, daemon.loaded)
        gateway.reload = reloader.reload
        config = str(daemon.loaded.path)
        publish(GatewayInfo(os.getpid(), gateway.url, gateway.started, __version__, config))
        group.start_soon(reloader.watch, name="configuration watch")
        group.start_soon(daemon.notifier.keep_alive, name="watchdog")
        scheduler = Scheduler(
            JobFile(daemon.paths.cron),
            lambda: reloader.current.config.cron,
            lambda context: gateway.answer(context, NO_LISTENER),
            daemon.clock,
            daemon.environ,
            daemon.resolve,
        )
        gateway.serving.start_soon(scheduler.run, name="schedules")
        answered = AnsweredQuestions(
            backend.store, lambda context: gateway.answer(context, NO_LISTENER), daemon.clock
        )
        gateway.answered = answered
        gateway.serving.start_soon(answered.run, name="answered questions")
        daemon.notifier.ready(gateway.url)
        logger.info("the gateway is ready at %s", gateway.url)
        daemon.on_ready(gateway)
        await stop.wait()
        logger.info("the gateway is stopping")
        daemon.notifier.stopping()
        scheduler.stopped = True
        gateway.stop()
        if backend.cluster is not None:
            backend.cluster.drain()
        with anyio.CancelScope(shield=True):
            grace = gateway.settings.shutdown_grace_ms / 1000
            await gateway.turns.close(grace, CLOSING_SECONDS)
        # From here on another program may have the port, and must not get a token.
        publish(GatewayInfo(pid=os.getpid()))


async def _signals(
    stop: anyio.Event,
    gateway: Gateway,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """The first signal lets turns finish; the second one does not."""
    if sys.platform == "win32":
        task_status.started()
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            if stop.is_set():
                gateway.turns.stop_all()
            stop.set()


@asynccontextmanager
async def _listening(
    gateway: Gateway, sockets: list[socket.socket], group: TaskGroup
) -> AsyncGenerator[None]:
    from openclaw.gateway.http_server import make_server

    server = make_server(gateway)
    ended = anyio.Event()

    async def run() -> None:
        try:
            await server.serve(sockets)
        finally:
            ended.set()

    group.start_soon(run, name="http server")
    try:
        yield
    finally:
        server.should_exit = True
        with anyio.CancelScope(shield=True), anyio.move_on_after(_SERVER_CLOSE_SECONDS):
            await ended.wait()


# ---- changes of `openclaw.json`, applied while the gateway runs
#
# The file is checked once a second. Watching it through the kernel would save a `stat` a second, but
# need a dependency, and would miss changes by editors, links and network file systems, which replace
# the file or its directory.

_LOOK_SECONDS = 1.0


class Reloader:
    """Reloads the configuration, and tells the log, the metrics and the watchers of events."""

    def __init__(
        self, gateway: Gateway, load: Callable[[], LoadedConfig], loaded: LoadedConfig
    ) -> None:
        self._gateway = gateway
        self._config = ConfigReload(loaded, load, gateway.backend.apply)

    @property
    def current(self) -> LoadedConfig:
        return self._config.current

    async def reload(self) -> ReloadReport:
        """Apply the file as it is now; if it is invalid, raises and changes nothing."""
        try:
            report = await self._config.reload()
        except OpenClawError as error:
            reason = self._gateway.redact(describe(error))
            self._gateway.metrics.reload("invalid")
            self._gateway.last_reload_error = reason
            self._gateway.emit(Notice("error", f"the configuration was not reloaded: {reason}"))
            # Without a traceback: the mistake is in the file.
            logger.error("the configuration was not reloaded, the old one stays: %s", reason)  # noqa: TRY400
            raise
        self._gateway.last_reload_error = None
        self._gateway.metrics.reload("applied" if report.changed else "same")
        if report.changed:
            if report.waiting:
                logger.warning("restart the gateway to apply %s", ", ".join(report.waiting))
            self._gateway.emit(Notice("info", "the configuration was reloaded"))
            logger.info("the configuration was reloaded; changed: %s", ", ".join(report.changed))
        return report

    async def watch(self) -> None:
        """Reload whenever the file has changed and then been left alone for a moment."""
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            settings = self.current.config.gateway.reload
            if settings.mode == "off" or not self._config.is_due:
                continue
            before = self._config.stamp()
            await anyio.sleep(settings.debounce_ms / 1000)
            if self._config.stamp() != before:
                continue  # still being written
            try:
                await self.reload()
            except OpenClawError:
                continue  # already reported
            except Exception:
                logger.exception("the configuration was not reloaded")
