"""The process: locked, listening, ready, watched, and down again within a bound."""

import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import TaskGroup, TaskStatus

from openclaw.agent.port import NOBODY, MessageContext, Reply
from openclaw.agent.schedules import JobFile
from openclaw.config.load import LoadedConfig
from openclaw.config.paths import StatePaths
from openclaw.config.schema import GatewayConfig
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError, OperatorFacing
from openclaw.core.events import Emit
from openclaw.gateway.lock import GatewayInfo, GatewayLock
from openclaw.gateway.reload import Reloader
from openclaw.gateway.scheduler import Scheduler
from openclaw.gateway.service_files import Notifier
from openclaw.gateway.sockets import bind_addresses, listen, shown_url
from openclaw.gateway.state import Backend, Gateway
from openclaw.gateway.tokens import TokenFile, Tokens, owner_token
from openclaw.secrets.refs import Secret
from openclaw.version import __version__

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 10.0  # how long turns that were stopped may take to write that down

_SERVER_CLOSE_SECONDS = 3.0

OpenBackend = Callable[[Emit], AbstractAsyncContextManager[Backend]]


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
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """For the commands that we start."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """What `${VAR}` in the configuration refers to."""
    on_ready: Callable[[Gateway], None] = lambda gateway: None

    @property
    def settings(self) -> GatewayConfig:
        return self.loaded.config.gateway


async def serve(daemon: Daemon, lock: GatewayLock, stop: anyio.Event | None = None) -> None:
    """Run until SIGTERM, SIGINT or `stop`. Raises what keeps it from starting."""
    settings = daemon.settings
    tokens = Tokens(
        owner_token(daemon.paths.root),
        daemon.clock,
        await _token(daemon),
        TokenFile(daemon.paths.root, daemon.clock),
    )
    addresses = bind_addresses(settings.bind, settings.port, has_token=tokens.handed_out)
    with ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in listen(addresses)]
        gateway = Gateway(
            settings=settings,
            paths=daemon.paths,
            clock=daemon.clock,
            redact=daemon.redact,
            config_path=daemon.loaded.path,
            started=daemon.clock.now_ms(),
            url=shown_url(sockets),
            log_file=daemon.log_file,
            tokens=tokens,
            environ=daemon.variables,
        )
        failure: OpenClawError | None = None
        async with anyio.create_task_group() as group:
            gateway.background = group
            try:
                async with _listening(gateway, tokens, sockets, group):
                    await _run(daemon, lock, gateway, group, stop or anyio.Event())
            except OpenClawError as error:
                failure = error  # raised in here, it would come out in a group of errors
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure


async def _run(
    daemon: Daemon, lock: GatewayLock, gateway: Gateway, group: TaskGroup, stop: anyio.Event
) -> None:
    await group.start(_signals, stop, gateway, name="signals")
    async with daemon.open_backend(gateway.hub.emit) as backend, _serving(gateway):
        gateway.opened = backend
        if backend.cluster is not None:
            backend.cluster.url = gateway.url
        reloader = Reloader(gateway, daemon.load, daemon.loaded)
        gateway.reload = reloader.reload
        lock.publish(
            GatewayInfo(
                pid=os.getpid(),
                url=gateway.url,
                started=gateway.started,
                version=__version__,
                config=str(daemon.loaded.path),
            )
        )
        group.start_soon(reloader.watch, name="configuration watch")
        group.start_soon(daemon.notifier.keep_alive, name="watchdog")
        scheduler = Scheduler(
            JobFile(daemon.paths.cron),
            lambda: reloader.config.cron,
            partial(_scheduled, gateway),
            daemon.clock,
            daemon.environ,
            daemon.resolve,
        )
        assert gateway.serving is not None
        gateway.serving.start_soon(scheduler.run, name="schedules")
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
            grace = daemon.settings.shutdown_grace_ms / 1000
            await gateway.turns.close(grace, CLOSING_SECONDS)
        # From here on the port may be anybody's, and nobody is to bring a token there.
        lock.publish(GatewayInfo(pid=os.getpid()))


async def _scheduled(gateway: Gateway, context: MessageContext) -> Reply:
    async with gateway.turn(context) as turn:
        return await turn.answer(NOBODY)


@asynccontextmanager
async def _serving(gateway: Gateway) -> AsyncGenerator[None]:
    failure: Exception | None = None
    async with anyio.create_task_group() as gateway.serving:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised in here, it would come out in a group
            failure = error
        gateway.serving.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _token(daemon: Daemon) -> Secret | None:
    configured = daemon.settings.auth.token
    if not configured:
        return None
    secret = await daemon.resolve(configured)
    if not secret:
        raise OperatorFacing("gateway.auth.token is empty", hint="remove it or give it a value")
    return secret


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
    gateway: Gateway, tokens: Tokens, sockets: list[socket.socket], group: TaskGroup
) -> AsyncGenerator[None]:
    from openclaw.gateway.http_server import make_server

    server = make_server(gateway, tokens, sockets)
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
