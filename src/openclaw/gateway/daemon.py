"""The process: locked, listening, ready, watched, and down again within a bound."""

import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import TaskGroup, TaskStatus

from openclaw.config.load import LoadedConfig
from openclaw.config.paths import StatePaths
from openclaw.config.schema import GatewayConfig
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError, OperatorFacing
from openclaw.core.events import Emit
from openclaw.gateway.addresses import bind_addresses, listen, shown_url
from openclaw.gateway.house import House
from openclaw.gateway.lock import GatewayInfo, GatewayLock
from openclaw.gateway.notify import Notifier
from openclaw.gateway.reload import Reloader
from openclaw.gateway.state import Gateway
from openclaw.gateway.tokens import Tokens, local_token
from openclaw.secrets.secret import Secret
from openclaw.version import __version__

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 10.0
"""How long turns that were stopped may take to write that down."""

_SERVER_CLOSE_SECONDS = 3.0

OpenHouse = Callable[[Emit], AbstractAsyncContextManager[House]]


@dataclass(frozen=True, slots=True)
class Daemon:
    """What the process was started with."""

    loaded: LoadedConfig
    load: Callable[[], LoadedConfig]
    paths: StatePaths
    clock: Clock
    redact: Callable[[str], str]
    open_house: OpenHouse
    resolve: Callable[[str], Awaitable[Secret]]
    notifier: Notifier
    log_file: Path | None = None
    on_ready: Callable[[], None] = lambda: None

    @property
    def settings(self) -> GatewayConfig:
        """The gateway's part of the configuration."""
        return self.loaded.config.gateway


async def serve(daemon: Daemon, lock: GatewayLock, stop: anyio.Event | None = None) -> None:
    """Run until SIGTERM, SIGINT or `stop`. Raises what keeps it from starting."""
    settings = daemon.settings
    token = await _token(daemon)
    addresses = bind_addresses(settings.bind, settings.port, has_token=token is not None)
    with ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in listen(addresses)]
        local = stack.enter_context(local_token(daemon.paths.root))
        gateway = Gateway(
            settings=settings,
            paths=daemon.paths,
            clock=daemon.clock,
            redact=daemon.redact,
            config_path=daemon.loaded.path,
            started=daemon.clock.now_ms(),
            url=shown_url(sockets),
            log_file=daemon.log_file,
        )
        failure: OpenClawError | None = None
        async with anyio.create_task_group() as group:
            gateway.background = group
            try:
                async with _listening(gateway, Tokens(token, local), sockets, group):
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
    async with daemon.open_house(gateway.hub.emit) as house:
        gateway.opened = house
        if house.member is not None:
            house.member.url = gateway.url
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
        daemon.notifier.ready(gateway.url)
        logger.info("the gateway is ready at %s", gateway.url)
        daemon.on_ready()
        await stop.wait()
        logger.info("the gateway is stopping")
        daemon.notifier.stopping()
        gateway.stop()
        if house.member is not None:
            house.member.drain()
        with anyio.CancelScope(shield=True):
            grace = daemon.settings.shutdown_grace_ms / 1000
            await gateway.turns.close(grace, CLOSING_SECONDS)


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
