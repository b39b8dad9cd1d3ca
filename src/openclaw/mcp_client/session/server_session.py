"""An open connection to a server, over any transport."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread

from openclaw.core.tools import json_list, json_object
from openclaw.mcp import http, names, negotiation
from openclaw.mcp.client import ClientConnection, ClientSettings
from openclaw.mcp.jsonrpc import (
    CONNECTION_CLOSED,
    URL_ELICITATION_REQUIRED,
    ErrorData,
    JsonObject,
    Notification,
    RpcError,
)
from openclaw.mcp.negotiation import Ask, Handshake, Negotiation, NotAnswered, NotUnderstood
from openclaw.mcp_client.errors import (
    CallFailed,
    Interrupted,
    InvalidResult,
    RemoteError,
    Unavailable,
)
from openclaw.mcp_client.session.caller import Caller, OnProgress
from openclaw.mcp_client.session.era_memory import Era, EraMemory
from openclaw.version import __version__

if TYPE_CHECKING:
    from openclaw.mcp_client.session.notifications import NotificationHandler
    from openclaw.mcp_client.session.request_handlers import RequestHandlers

logger = logging.getLogger(__name__)

CLIENT_INFO = {"name": "openclaw", "version": __version__}
MAX_ROUNDS = 10  # how often a server may ask for more input before it gives the result of one call

_FIRST_PAUSE, _LAST_PAUSE = 0.05, 0.25
_URL_SECONDS, _URL_PAUSE = 300.0, 5.0  # how long a user has at a web page; how often we look
_MAX_COMPLETED = 1000


def _log_level() -> str:
    """The lowest level of a server's log messages that we show; it need not send the others."""
    level = logging.getLogger(__name__).getEffectiveLevel()
    if level <= logging.DEBUG:
        return "debug"
    return "info" if level <= logging.INFO else "warning"


class ServerSession:
    """Once the handshake is done, `request` may be used."""

    handshake_result: Handshake

    def __init__(
        self,
        server: str,
        notifications: "NotificationHandler",
        handlers: "RequestHandlers",
        transport: str,
        pid: int | None = None,
    ) -> None:
        self.transport, self.pid = transport, pid
        self._handlers, self._notifications = handlers, notifications
        settings = ClientSettings(
            client_info=CLIENT_INFO,
            capabilities=handlers.capabilities(),
            log_level=_log_level(),
            over_http=transport != "stdio",
        )
        self.connection = ClientConnection(settings)
        self.caller = Caller(self.connection, server, handlers.answer, self._notified)
        self._completed: set[str] = set()  # elicitations by URL
        self._completion = anyio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[anyio.abc.TaskGroup]:
        async with self.caller.running() as group:
            yield group

    def _notified(self, method: str, params: JsonObject) -> None:
        if method == names.ELICITATION_COMPLETE:
            id = params.get("elicitationId")
            if isinstance(id, str) and len(self._completed) < _MAX_COMPLETED:
                self._completed.add(id)
                self._completion.set()
                self._completion = anyio.Event()
            return
        self._notifications.notification(method, params)

    # ---- the handshake

    async def handshake(
        self,
        memory: EraMemory,
        turned_away: Callable[[], bool] | None = None,
        patience: float | None = None,
    ) -> None:
        """Do the handshake that fits the server, and remember which one that was.

        `turned_away` says whether the last answer came from something in front of the server (a
        login, a maintenance page): that says nothing about its era. Without it, the server is a
        child process. With `patience`, each request may take that many seconds.
        """
        remembered = await anyio.to_thread.run_sync(memory.recall)
        discovery_was_turned_away = False

        def observe(method: str) -> None:
            nonlocal discovery_was_turned_away
            if method == names.DISCOVER and turned_away is not None:
                discovery_was_turned_away = turned_away()

        try:
            result = await self._negotiate(remembered is Era.LEGACY, observe, patience)
        except Exception:
            if remembered is None and turned_away is None:
                # A child that crashes on `server/discover` is not asked again.
                await anyio.to_thread.run_sync(memory.remember, Era.LEGACY)
            raise
        self.handshake_result = result
        self.connection.begin(result)
        stateless = result.revision.stateless
        if not stateless:
            await self.caller.transport.deliver(Notification(names.INITIALIZED))
        if not discovery_was_turned_away:
            era = Era.MODERN if stateless else Era.LEGACY
            await anyio.to_thread.run_sync(memory.remember, era)

    async def _negotiate(
        self, legacy: bool, observe: Callable[[str], None], patience: float | None
    ) -> Handshake:
        stall = negotiation.STALL if patience is None else patience
        steps = Negotiation(CLIENT_INFO, self._handlers.capabilities(), stall)
        changed = anyio.Event()
        last: CallFailed | None = None

        async def ask(step: Ask) -> None:
            nonlocal last
            try:
                seconds = step.timeout if patience is None else patience
                result = await self.caller.call(step.method, step.params, timeout=seconds)
            except CallFailed as failure:
                observe(step.method)
                last = failure
                logger.debug("%s was refused: %s", step.method, failure)
                start(steps.refused(step.method, _refusal(failure), anyio.current_time()))
            else:
                start(steps.answered(step.method, result, anyio.current_time()))
            changed.set()

        def start(asks: list[Ask]) -> None:
            for step in asks:
                group.start_soon(ask, step, name=step.method)

        async with anyio.create_task_group() as group:
            start(steps.start(anyio.current_time(), legacy=legacy))
            while not steps.is_over:
                changed = anyio.Event()
                with anyio.CancelScope(deadline=steps.deadline):
                    await changed.wait()
                start(steps.expire(anyio.current_time()))
            group.cancel_scope.cancel()
        if isinstance(steps.failure, NotUnderstood):
            raise InvalidResult(str(steps.failure))
        if steps.result is None:
            raise last or InvalidResult("the handshake failed")
        return steps.result

    # ---- requests

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout: float | None,
        on_progress: OnProgress | None = None,
    ) -> JsonObject:
        """One request, with as many rounds of input as the server asks for."""
        send = partial(self.caller.call, method, timeout=timeout, on_progress=on_progress)
        result = await self._after_visits(send, params)
        pause = _FIRST_PAUSE
        for round in range(MAX_ROUNDS + 1):
            if result.get("resultType") != "input_required":
                return result
            if round == MAX_ROUNDS:
                break
            answers = await self.answers(result)
            if not answers:
                await anyio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
            again = {**params, "inputResponses": answers} if answers else dict(params)
            if (state := result.get("requestState")) is not None:
                again["requestState"] = state
            try:
                result = await send(again)
            except Unavailable as gone:  # an earlier round was sent, so it must not be repeated
                raise Interrupted(gone.reason) from None
        raise InvalidResult(f"the server asked for input more than {MAX_ROUNDS} times")

    async def answers(self, result: JsonObject) -> JsonObject:
        """Our answers to the questions in a result."""
        requests = json_object(result.get("inputRequests"))
        if (result.get("inputRequests") and not requests) or not all(
            map(_is_request, requests.values())
        ):
            raise InvalidResult("the server sent a malformed input request")
        answers: JsonObject = {}
        for key, request in requests.items():
            try:
                params = json_object(request.get("params"))
                answers[key] = await self._handlers.answer(request["method"], dict(params))
            except RpcError as refusal:
                message = f"the server needs input: {refusal.message}"
                raise RemoteError(refusal.code, message) from None
        return answers

    async def _after_visits(
        self, send: Callable[[Mapping[str, Any]], Awaitable[JsonObject]], params: Mapping[str, Any]
    ) -> JsonObject:
        """The result, once the user has done what the server wants to see done at web pages.

        Section "URL Elicitation Required Error" of 2025-11-25: a request that was refused like that
        has not been carried out.
        """
        deadline = anyio.current_time() + _URL_SECONDS
        visited: set[str] = set()
        while True:
            try:
                return await send(params)
            except RemoteError as refusal:
                if refusal.code != URL_ELICITATION_REQUIRED or anyio.current_time() > deadline:
                    raise
                wanted = _visits(refusal)
                fresh = {id: visit for id, visit in wanted.items() if id not in visited}
                if not wanted or not await self._visit(fresh):
                    raise
                visited.update(fresh)
                await self._until_completed(set(wanted))

    async def _visit(self, visits: Mapping[str, JsonObject]) -> bool:
        """Ask the user to open these pages; returns whether they agreed to all."""
        for visit in visits.values():
            try:
                answer = await self._handlers.answer(names.ELICIT, {**visit, "mode": "url"})
            except RpcError:
                return False
            if answer.get("action") != "accept":
                return False
        return True

    async def _until_completed(self, ids: set[str]) -> None:
        """Wait until the server says so, or a moment: it need not say anything."""
        with anyio.move_on_after(_URL_PAUSE):
            while not ids <= self._completed:
                await self._completion.wait()
        self._completed -= ids

    # ---- tools

    def refuses(self, schema: Mapping[str, Any]) -> str | None:
        """Why a tool with this schema can't be called: the headers that it names are invalid."""
        over_http = self.connection.settings.over_http
        if not (over_http and self.handshake_result.revision.routing_headers):
            return None
        return http.problem_of_annotations(schema)


def _is_request(value: object) -> bool:
    request = json_object(value)
    known = (names.ROOTS, names.SAMPLING, names.ELICIT)
    return request.get("method") in known and isinstance(request.get("params", {}), dict)


def _visits(refusal: RemoteError) -> dict[str, JsonObject]:
    """The pages that the server wants visited, by their ids."""
    listed = [
        dict(json_object(visit))
        for visit in json_list(json_object(refusal.data).get("elicitations"))
    ]
    return {
        visit["elicitationId"]: visit
        for visit in listed
        if isinstance(visit.get("elicitationId"), str)
    }


def _refusal(failure: CallFailed) -> ErrorData | NotAnswered:
    if isinstance(failure, RemoteError) and failure.code != CONNECTION_CLOSED:
        return ErrorData(failure.code, failure.message, failure.data)
    return NotAnswered(failure)
