"""The gateway's process: listens, watches the configuration, runs schedules, ends in bounded time."""

import json
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from openclaw.agent.port import NO_LISTENER, MessageContext, Reply
from openclaw.agent.schedules import Job, JobFile
from openclaw.config.load import LoadedConfig, require_file, stamp
from openclaw.config.paths import StatePaths
from openclaw.config.schema import Config, CronConfig
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError, OperatorFacing, describe
from openclaw.core.events import Emit, Notice
from openclaw.gateway.gateway import Gateway, GatewayBackend, ReloadReport
from openclaw.gateway.listening import bind_addresses, listen, shown_url
from openclaw.gateway.lock import GatewayInfo, Publish
from openclaw.gateway.service_files import Notifier
from openclaw.gateway.tokens import TokenFile, Tokens, owner_token
from openclaw.net.http_request import open_client
from openclaw.secrets.refs import Secret
from openclaw.sessions.task_groups import helper_tasks
from openclaw.version import __version__

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 10.0  # how long stopped turns may take to record that

_SERVER_CLOSE_SECONDS = 3.0

OpenBackend = Callable[[Emit], AbstractAsyncContextManager[GatewayBackend]]


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
    async with daemon.open_backend(gateway.emit) as backend, helper_tasks() as gateway.serving:
        gateway.opened = backend
        if backend.cluster is not None:
            backend.cluster.url = gateway.url
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
_ONCE = """
    sessions.store logging audit gateway.port gateway.bind gateway.auth gateway.limits
    gateway.cluster gateway.allowed_hosts gateway.allowed_origins gateway.dashboard
"""


class Reloader:
    def __init__(
        self, gateway: Gateway, load: Callable[[], LoadedConfig], loaded: LoadedConfig
    ) -> None:
        self._gateway = gateway
        self._load = load
        self.current = loaded
        self._started = loaded.config
        self._lock = anyio.Lock()
        self._seen = stamp(loaded.path)

    async def reload(self) -> ReloadReport:
        """Apply the file as it is now; if it is invalid, raises and changes nothing."""
        async with self._lock:
            self._seen = stamp(self.current.path)
            try:
                return await self._reload()
            except OpenClawError as error:
                reason = self._gateway.redact(describe(error))
                self._gateway.metrics.reload("invalid")
                self._gateway.last_reload_error = reason
                self._gateway.emit(Notice("error", f"the configuration was not reloaded: {reason}"))
                # Without a traceback: the mistake is in the file.
                logger.error("the configuration was not reloaded, the old one stays: %s", reason)  # noqa: TRY400
                raise

    async def _reload(self) -> ReloadReport:
        loaded = await anyio.to_thread.run_sync(self._load)
        require_file(loaded, self.current)
        self._gateway.last_reload_error = None
        # Since the start, not since the last reload: `watch` may have reloaded just before.
        waiting = waiting_changes(self._started, loaded.config)
        if loaded.config == self.current.config:
            self._gateway.metrics.reload("same")
            return ReloadReport(changed=False, waiting=waiting)
        await self._gateway.backend.apply(loaded)
        before, self.current = self.current.config, loaded
        self._gateway.metrics.reload("applied")
        if waiting:
            logger.warning("a restart is needed for the change of %s", ", ".join(waiting))
        self._gateway.emit(Notice("info", "the configuration was reloaded"))
        changed = [
            one.alias or name
            for name, one in Config.model_fields.items()
            if getattr(before, name) != getattr(loaded.config, name)
        ]
        logger.info("the configuration was reloaded; changed: %s", ", ".join(changed))
        return ReloadReport(changed=True, waiting=waiting)

    async def watch(self) -> None:
        """Reload whenever the file has changed and then been left alone for a moment."""
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            settings = self.current.config.gateway.reload
            now = stamp(self.current.path)
            if now == self._seen or settings.mode == "off":
                continue
            await anyio.sleep(settings.debounce_ms / 1000)
            if stamp(self.current.path) != now:
                continue  # still being written
            try:
                await self.reload()
            except OpenClawError:
                continue  # already reported
            except Exception:
                logger.exception("the configuration was not reloaded")


def waiting_changes(before: Config, after: Config) -> tuple[str, ...]:
    """The key paths that changed and that only a restart can apply."""
    return tuple(
        path for path in _ONCE.split() if attrgetter(path)(before) != attrgetter(path)(after)
    )


# ---- schedules
#
# A run's id is made of its schedule and its time, and is the id of its turn: of several gateways on
# one store, only the first runs it. Which run is due follows from the clock, so no runs are stored.

LOOK_SECONDS = 5.0  # between two checks of the clock and the file
_NOTIFY_SECONDS = 60.0


@dataclass(slots=True)
class Scheduler:
    jobs: JobFile
    settings: Callable[[], CronConfig]
    answer: Callable[[MessageContext], Awaitable[Reply]]
    clock: Clock
    environ: Mapping[str, str]
    resolve: Callable[[str], Awaitable[Secret]]
    stopped: bool = False
    _begun: dict[str, int] = field(default_factory=dict[str, int])
    _broken: str = ""

    async def run(self) -> None:
        started = self.clock.now_ms()
        async with anyio.create_task_group() as group:
            while True:
                if not self.stopped:
                    self.look(started, group)
                await anyio.sleep(LOOK_SECONDS)

    def look(self, started_ms: int, group: TaskGroup) -> None:
        for job, due in self.due(started_ms):
            group.start_soon(self._run, job, due, name=f"schedule {job.id}")

    def due(self, started_ms: int) -> list[tuple[Job, int]]:
        """Due jobs that were not started here; with `missed: "run"`, also from before the start."""
        settings = self.settings()
        found: list[tuple[Job, int]] = []
        for job in self._jobs() if settings.enabled else ():
            due = job.due(self.clock.now_ms())
            if due is None or self._begun.get(job.id) == due:
                continue
            self._begun[job.id] = due
            if due >= started_ms or settings.missed == "run":
                found.append((job, due))
        return found

    def _jobs(self) -> Sequence[Job]:
        try:
            jobs = [job for job in self.jobs.read().values() if not job.paused]
        except (OpenClawError, OSError) as error:
            if str(error) != self._broken:
                self._broken = str(error)
                logger.warning("the schedules cannot be read: %s", error)
            return ()
        self._broken = ""
        return jobs

    async def _run(self, job: Job, due: int) -> None:
        context = MessageContext(
            text=job.message,
            session_key=job.session_key,
            agent_id=job.agent or "main",
            origin="cron",
            idempotency_key=job.run_id(due),
        )
        try:
            reply = await self.answer(context)
        except OpenClawError as error:
            logger.warning("the schedule '%s' failed: %s", job.id, describe(error))
            await self._notify(job, "error", describe(error))
            return
        except Exception:
            logger.exception("the schedule '%s' failed", job.id)
            return
        if reply.outcome != "duplicate":
            logger.info("the schedule '%s' has run: %s", job.id, reply.outcome)
            await self._notify(job, reply.outcome, reply.text)

    async def _notify(self, job: Job, outcome: str, text: str) -> None:
        settings = self.settings()
        result = {"id": job.id, "session": job.session_key, "outcome": outcome, "text": text}
        if settings.notify:
            from openclaw.agent.toolpath.hooks import run_hook_command

            program, *rest = settings.notify
            words = [program, *(_filled(word, result) for word in rest)]
            reason = await run_hook_command(
                words, json.dumps(result).encode(), self.environ, seconds=_NOTIFY_SECONDS
            )
            if reason is not None:
                logger.warning("the command in cron.notify failed: %s", reason)
        if settings.webhook is not None:
            await self._post(settings.webhook, settings.webhook_token, result)

    async def _post(self, address: str, token: str | None, result: Mapping[str, str]) -> None:
        import httpx2

        try:
            headers = {"Content-Type": "application/json"}
            if token is not None:
                headers["Authorization"] = f"Bearer {(await self.resolve(token)).reveal()}"
            async with open_client(address, self.environ, silence=_NOTIFY_SECONDS) as client:
                answer = await client.post(address, content=json.dumps(result), headers=headers)
                answer.raise_for_status()
        except (httpx2.HTTPError, httpx2.InvalidURL, OpenClawError) as error:
            logger.warning("cron.webhook could not be reached: %s", error)


_MOST_SHOWN = 1_000


def _filled(word: str, result: Mapping[str, str]) -> str:
    """An argument with its placeholders filled in; no value becomes an option."""
    for name, value in result.items():
        word = word.replace(f"{{{name}}}", value[:_MOST_SHOWN].lstrip("-").replace("\0", ""))
    return word
