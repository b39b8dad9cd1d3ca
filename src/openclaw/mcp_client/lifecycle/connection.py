"""One MCP server, and the one task that owns it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.abc

from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.errors import OperatorFacing, SecretUnavailable, ServerUnavailable, describe
from openclaw.core.events import ServerChanged
from openclaw.core.tools import EarlierCall, JsonObject
from openclaw.mcp import names
from openclaw.mcp.client import MAX_EXTENSION
from openclaw.mcp.declarations import Listing
from openclaw.mcp.jsonrpc import JsonObject as RawResult
from openclaw.mcp.revisions import TaskSupport
from openclaw.mcp.tasks import server_takes_core_tasks
from openclaw.mcp_client import bounds, errors
from openclaw.mcp_client.bridge.skills import MOST_SKILLS, ServedSkill, served_skills
from openclaw.mcp_client.lifecycle import server_state as states
from openclaw.mcp_client.lifecycle.server_state import Event, ServerState
from openclaw.mcp_client.session import listing as listings
from openclaw.mcp_client.session.caller import OnProgress
from openclaw.mcp_client.session.connect import ConnectionDeps, ConnectParams
from openclaw.mcp_client.session.era_memory import EraMemory, identity
from openclaw.mcp_client.session.listing import are_blocks, are_objects, ignore_progress
from openclaw.mcp_client.session.local import open_local
from openclaw.mcp_client.session.notifications import ChangeSubscription, NotificationHandler
from openclaw.mcp_client.session.remote import open_remote
from openclaw.mcp_client.session.request_handlers import RequestHandlers
from openclaw.mcp_client.session.server_session import ServerSession
from openclaw.mcp_client.session.server_tasks import TTL_MS, OnTask, RemoteTask, handle_of
from openclaw.mcp_client.transport.child_process import StderrTail

logger = logging.getLogger(__name__)

# a call waits for a restart due within this many seconds, and while the server starts
RESTART_PATIENCE = 5.0

# seconds that resources and prompts may take longer than tools before it is ready
OTHERS_PATIENCE = 2.0
_COMPLETION_SECONDS = 5.0  # somebody is typing
_MOST_VALUES = 100
_SOFTWARE, _SOFTWARE_READ = 200, 4096  # characters of a server's own name or version


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """A server at one moment. `since` is milliseconds since 1970; `next_retry_in` is in seconds."""

    name: str
    state: ServerState
    since: int
    transport: str
    pid: int | None = None
    protocol: str | None = None
    server_name: str | None = None
    server_version: str | None = None
    restarts: int = 0
    last_error: str | None = None
    next_retry_in: float | None = None
    stderr: tuple[str, ...] = ()


class ServerConnection:
    """One server. Anyone may call it; only `run` opens and closes it.

    The owner sets `on_listing`, `on_state` and `on_resource_updated`, which must not fail.
    """

    def __init__(self, name: str, config: McpServerConfig, deps: ConnectionDeps) -> None:
        self.name = name
        self.config = config
        self.listing = Listing()
        self.on_listing: Callable[[], None] = lambda: None
        self.on_state: Callable[[], None] = lambda: None
        self.on_resource_updated: Callable[[str], None] = lambda uri: None
        self._deps = deps
        self._redact = deps.redactor.redact
        self._clock = deps.clock
        self._most_restarts = config.max_restarts if config.restart_on_crash else 0
        first = ServerState.DISCONNECTED if config.enabled else ServerState.DISABLED
        self._life = states.ServerLifecycle(first)
        self._since = deps.clock.now_ms()
        self._changed = anyio.Event()
        self.asked = anyio.Event()  # the first handshake has begun
        self._attempt: anyio.CancelScope | None = None
        self._session: ServerSession | None = None
        self._subscription: ChangeSubscription | None = None
        self._memory = EraMemory(deps.cache, identity(config), deps.clock)
        self._stderr = StderrTail(name, deps.redactor, deps.clock)
        self._state_log = states.StateLog(name, self._stderr.tail)
        self._tool_timeout = config.tool_timeout / 1000
        self._wanted_updates: list[str] = []
        self._task_tools: frozenset[str] = frozenset()
        self.lists_privately = False  # the server says that its lists are for this login only
        self._handlers: RequestHandlers | None = None

    @property
    def state(self) -> ServerState:
        return self._life.state

    @property
    def depends_on_roots(self) -> bool:
        """Whether the running server has asked for the client's roots."""
        return self._handlers is not None and self._handlers.roots_were_asked

    @property
    def is_retrying(self) -> bool:
        """Whether it is connecting again after it failed."""
        life = self._life
        return life.state is ServerState.CONNECTING and bool(life.restarts or life.waits)

    @property
    def snapshot(self) -> ServerSnapshot:
        life, session = self._life, self._session
        handshake = None if session is None else session.handshake_result
        return ServerSnapshot(
            name=self.name,
            state=life.state,
            since=self._since,
            transport=self.config.kind if session is None else session.transport,
            pid=None if session is None else session.pid,
            protocol=None if handshake is None else handshake.revision.name,
            server_name=None if handshake is None else self._shown(handshake.name),
            server_version=None if handshake is None else self._shown(handshake.version),
            restarts=life.restarts,
            # Again: something in it may have become a secret since.
            last_error=None if life.last_error is None else self._redact(life.last_error),
            next_retry_in=self._retry_in(),
            stderr=self._stderr.tail(),
        )

    def _shown(self, text: str | None) -> str | None:
        if text is None:
            return None
        return bounds.printable(self._redact(text[:_SOFTWARE_READ]), _SOFTWARE)

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Own the server until `stop`; never raises anything but cancellation."""
        task_status.started()
        if not self.config.lazy:
            self.start()
        try:
            while self.state is not ServerState.CLOSED:
                if self.state in (ServerState.CONNECTING, ServerState.READY):
                    await self._serve()
                else:
                    await self._rest()
        finally:
            self._advance(Event.STOPPED)

    def start(self) -> None:
        self._advance(Event.STARTED)

    def stop(self) -> None:
        self._advance(Event.STOPPED)
        self._end_attempt()

    def restart(self) -> None:
        """Connect again, whatever the state, and reset the restart count."""
        self._advance(Event.RESTARTED)
        self._end_attempt()

    def answered_before(self) -> bool:
        """Whether it ever completed a handshake, in this process or an earlier one."""
        return self._memory.is_known()

    async def wait_ready(self, timeout: float) -> None:
        """Return once the server is ready; raises `ServerUnavailable`."""
        try:
            await self._ready_session(timeout)
        except errors.Unavailable as unavailable:
            raise ServerUnavailable(
                self.name, unavailable.reason, retry_in=unavailable.retry_in
            ) from None

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        on_task: OnTask | None = None,
        earlier: EarlierCall | None = None,
        meta: JsonObject | None = None,
    ) -> RawResult:
        """The decoded result of one call; raises `CallFailed`.

        `on_task` gets what identifies the call if the server makes it a task. With `earlier`,
        the result of that call is fetched instead.
        """
        timeout = self._tool_timeout if timeout is None else timeout
        progress = on_progress or ignore_progress
        result: RawResult = {}
        task = None if earlier is None else earlier.handle
        if task is None:
            params: dict[str, Any] = {"name": tool, "arguments": arguments}
            if meta is not None:
                params["_meta"] = meta
            if self._session is None:  # what its tools support is known only once connected
                await self._ready_session(self.config.timeout / 1000)
            if tool in self._task_tools:
                params["task"] = {"ttl": TTL_MS}
            result = await self._request(names.TOOLS_CALL, params, timeout, progress)
            task = handle_of(result)
        if task is not None:
            remote = RemoteTask(
                task,
                partial(self._request, timeout=timeout),
                self._answers,
                progress,
                timeout * MAX_EXTENSION,
            )
            fetch_once = earlier is not None and not earlier.wait
            result = await (remote.once() if fetch_once else remote.result(on_task))
        content = result.get("content")
        if not are_blocks(content) and not (content is None and "structuredContent" in result):
            raise errors.InvalidResult("the result's content is not a list of content blocks")
        return result

    async def read_resource(self, uri: str) -> RawResult:
        return await self._objects("contents", "resources/read", {"uri": uri})

    async def list_skills(self) -> list[ServedSkill]:
        session, skills = self._session, list[ServedSkill]()
        if (
            session is None
            or names.SKILLS_EXTENSION
            not in session.handshake_result.capabilities.get("extensions", {})
        ):
            return skills
        params: dict[str, Any] = {}
        for _ in range(bounds.MAX_PAGES):
            page = await self._request("skills/list", params)
            skills += served_skills(page.get("skills"))
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or len(skills) >= MOST_SKILLS:
                break
            params = {"cursor": cursor}
        return skills[:MOST_SKILLS]

    async def get_skill(self, uri: str) -> list[ServedSkill]:
        page = await self._request("skills/get", {"uri": uri})
        return served_skills([page.get("skill")])

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> RawResult:
        params = {"name": name, "arguments": arguments}
        return await self._objects("messages", "prompts/get", params)

    async def _objects(self, key: str, method: str, params: Mapping[str, Any]) -> RawResult:
        result = await self._request(method, params)
        if not are_objects(result.get(key)):
            raise errors.InvalidResult(f"the result's {key} are not a list of objects")
        return result

    async def complete(self, params: JsonObject) -> list[str]:
        session = self._session
        if session is None or "completions" not in session.handshake_result.capabilities:
            return []
        timeout = min(self._tool_timeout, _COMPLETION_SECONDS)
        match await self._request("completion/complete", params, timeout):
            case {"completion": {"values": [*values]}}:
                return [value for value in values[:_MOST_VALUES] if isinstance(value, str)]
            case _:
                raise errors.InvalidResult("the suggestions are not a list")

    async def subscribe(self, uris: Sequence[str]) -> None:
        """Get updates of these resources if the server offers them, now and after restarts."""
        self._wanted_updates = list(uris)
        if self._subscription is not None:
            self._subscription.want_updates(self._wanted_updates)

    async def _request(
        self,
        method: str,
        params: Mapping[str, Any],
        timeout: float | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> RawResult:
        timeout = self._tool_timeout if timeout is None else timeout
        session = self._session or await self._ready_session(self.config.timeout / 1000)
        try:
            return await session.request(method, params, timeout=timeout, on_progress=on_progress)
        except errors.Unavailable:
            # It was never sent, so sending it to the restarted server doesn't repeat it.
            session = await self._ready_session(self.config.timeout / 1000)
            return await session.request(method, params, timeout=timeout, on_progress=on_progress)

    async def _answers(self, status: RawResult) -> JsonObject:
        return await (await self._ready_session(self.config.timeout / 1000)).answers(status)

    async def _ready_session(self, patience: float) -> ServerSession:
        deadline = anyio.current_time() + patience
        self.start()
        while (session := self._session) is None or session.caller.is_gone:
            left = deadline - anyio.current_time()
            retry_in = self._retry_in()
            if (
                self._life.state in states.UNAVAILABLE
                or left <= 0
                or (retry_in or 0.0) > min(left, RESTART_PATIENCE)
            ):
                state = self._life.state.replace("_", " ")
                why = f"{state} ({self._life.last_error})" if self._life.last_error else state
                raise errors.Unavailable(why, retry_in=retry_in)
            with anyio.move_on_after(left):
                await self._changed.wait()
        return session

    def _retry_in(self) -> float | None:
        retry_at = self._life.retry_at
        return None if retry_at is None else max(0.0, retry_at - self._clock.monotonic())

    def _advance(self, event: Event, reason: str = "") -> None:
        before, now = self._life, self._clock.monotonic()
        self._life = states.advance(before, event, now, self._most_restarts, reason)
        if self._life == before:
            return
        if self._life.state is not before.state:
            self._since = self._clock.now_ms()
            wrong = self._state_log.say(self._life, now)
            self._deps.emit(ServerChanged(self.name, self._life.state, wrong))
            self.on_state()
        self._signal()

    def _signal(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _end_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()

    async def _rest(self) -> None:
        with anyio.move_on_after(self._retry_in()):
            await self._changed.wait()
            return
        self._advance(Event.RETRY_DUE)

    async def _serve(self) -> None:
        """One connection, from opening to closing. Only here does failure become state."""
        try:
            with anyio.CancelScope() as self._attempt:
                await self._run_session()
        except Exception as error:  # noqa: BLE001  a failure must affect only this server
            self._failed(error)
        finally:
            self._attempt = self._session = self._subscription = None
            self._signal()

    def _failed(self, error: Exception) -> None:
        cause = errors.first_cause(error)
        match cause:
            case errors.NeedsLogin():
                event, reason = Event.LOGIN_NEEDED, errors.error_text(cause)
            case SecretUnavailable():
                # The secret store may be unreachable for a while.
                event, reason = Event.NOT_BEGUN, describe(cause)
            case OperatorFacing():
                event, reason = Event.BROKEN, describe(cause)
            case errors.Interrupted():
                event, reason = Event.LOST, cause.reason
            case _:
                # A trace says nothing about a bad address.
                trace = None if isinstance(cause, errors.ConnectionFailed) else error
                logger.debug("MCP server '%s' failed", self.name, exc_info=trace)
                event, reason = Event.LOST, bounds.printable(self._redact(errors.error_text(cause)))
        self._advance(event, self._redact(reason))

    async def _run_session(self) -> None:
        subscription = ChangeSubscription(self._refresh, lambda uri: self.on_resource_updated(uri))
        self._subscription = subscription
        deps = self._deps
        sampling = deps.on_sampling if self.config.sampling.enabled else None
        self._handlers = RequestHandlers(self.name, deps.roots, sampling, deps.on_elicitation)
        params = ConnectParams(
            name=self.name,
            config=self.config,
            deps=deps,
            request_handlers=self._handlers,
            notifications=NotificationHandler(self.name, subscription, deps.redactor, deps.clock),
            memory=self._memory,
            stderr=self._stderr,
            on_asked=self.asked.set,
        )
        open_session = open_local if self.config.kind == "stdio" else open_remote
        async with open_session(params) as session:
            await self._list_all(session, subscription)
            async with anyio.create_task_group() as group:
                group.start_soon(subscription.run, session, name=f"changes of {self.name}")
                subscription.want_updates(self._wanted_updates)
                self._session = session
                self._advance(Event.CONNECTED)
                await session.caller.lost.wait()
                self._session = None
                self._advance(Event.LOST, session.caller.why_lost())
                group.cancel_scope.cancel()

    async def _list_all(self, session: ServerSession, subscription: ChangeSubscription) -> None:
        """List what the server offers. Only tools delay readiness; what is late is listed later."""
        # Twice as much is redacted as is kept, so that no secret is cut in two and missed.
        handshake, limit = session.handshake_result, bounds.MAX_INSTRUCTIONS
        instructions = self._redact((handshake.instructions or "")[: 2 * limit])
        fresh = Listing(instructions=instructions[:limit] or None)
        offered = [k for k in listings.KINDS if k in handshake.capabilities and self._wants(k)]
        fetched: dict[str, dict[str, listings.Listed]] = {}
        async with anyio.create_task_group() as group:
            for kind in offered:
                if kind != "tools":
                    group.start_soon(self._list_one, session, kind, fetched, name=f"list {kind}")
            if "tools" in offered:
                await self._list_one(session, "tools", fetched)
            group.cancel_scope.deadline = anyio.current_time() + OTHERS_PATIENCE
        for kind in offered:
            fresh = listings.merged(fresh, fetched.get(kind, {}))
            if kind not in fetched:
                subscription.list_changed(kind)
        self._replace_listing(session, fresh)

    async def _list_one(
        self, session: ServerSession, kind: str, fetched: dict[str, dict[str, listings.Listed]]
    ) -> None:
        seconds = self.config.timeout / 1000
        try:
            with anyio.fail_after(seconds):
                fetched[kind] = await self._fetch(session, kind)
        except (TimeoutError, errors.TimedOut):
            if kind == "tools":
                raise errors.ConnectionFailed(
                    f"it did not list its tools within {seconds:g} s"
                ) from None
        except errors.CallFailed as failure:
            if kind == "tools" or session.caller.is_gone:
                raise
            logger.debug("MCP server '%s' did not list its %s: %s", self.name, kind, failure)

    async def _refresh(self, session: ServerSession, kind: str) -> bool:
        """List this kind again; returns whether all of it could be listed."""
        if kind not in session.handshake_result.capabilities or not self._wants(kind):
            return True
        fetched = await self._fetch(session, kind)
        whole = {name: part for name, part in fetched.items() if not part.failed}
        if whole:  # what could not be listed again stays as it was
            self._replace_listing(session, listings.merged(self.listing, whole))
        return len(whole) == len(fetched)

    async def _fetch(self, session: ServerSession, kind: str) -> dict[str, listings.Listed]:
        timeout = self.config.timeout / 1000

        async def ask(method: str, params: dict[str, Any]) -> RawResult:
            page = await session.request(method, params, timeout=timeout)
            ttl = page.get("ttlMs")
            if isinstance(ttl, int | float) and ttl > 0 and self._subscription is not None:
                self._subscription.stale_after(kind, ttl / 1000)
            self.lists_privately |= page.get("cacheScope") == "private"
            return page

        return await listings.fetch(ask, kind, self._redact)

    def _wants(self, kind: str) -> bool:
        return {"resources": self.config.resources, "prompts": self.config.prompts}.get(kind, True)

    def _replace_listing(self, session: ServerSession, listing: Listing) -> None:
        listing = listings.without(listing, session.refuses)
        for note in set(listing.dropped) - set(self.listing.dropped):
            logger.warning("MCP server '%s': %s", self.name, note)
        self.listing = listing
        self._task_tools = frozenset(
            tool.name
            for tool in listing.tools
            if tool.takes_tasks
            and session.handshake_result.revision.tasks is TaskSupport.CORE
            and server_takes_core_tasks(session.handshake_result.capabilities)
        )
        session.connection.learn_tools({tool.name: tool.input_schema for tool in listing.tools})
        self._deps.emit(ServerChanged(self.name, self._life.state, "listing"))
        self.on_listing()
