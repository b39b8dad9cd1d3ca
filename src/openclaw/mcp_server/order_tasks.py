"""Orders that outlive their request, and the questions that they ask meanwhile.

For a client that declares the tasks extension, an order that is not answered soon becomes a task. For
one that is asked through results (multi round-trip requests), an order with a question is a task as
well, of which the client sees the question and then the answer.
"""

import json
import logging
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from openclaw.agent.port import MessageContext, Reply
from openclaw.agent.questions import continuation
from openclaw.core.clock import Clock, order_session_key, random_id, timestamp
from openclaw.core.errors import OpenClawError
from openclaw.core.events import Event
from openclaw.core.questions import NOBODY, Answer, form_answer
from openclaw.core.tools import JsonObject
from openclaw.mcp import names
from openclaw.mcp import tasks as protocol
from openclaw.mcp.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, RpcError, error_data
from openclaw.mcp.request_state import seal, unseal
from openclaw.mcp.revisions import REVISIONS
from openclaw.mcp_server.order_tool import Principal
from openclaw.mcp_server.orders import Caller, OrderHandler, asking, describe_event
from openclaw.sessions import task_records
from openclaw.sessions.records import TurnState
from openclaw.sessions.store import SessionStore
from openclaw.sessions.task_records import Task
from openclaw.sessions.waiting_questions import WaitingQuestion, list_questions

logger = logging.getLogger(__name__)

Json = dict[str, Any]

_ID_BYTES = 24
_POLL_MS = 2_000
_SLOW_POLL_MS = 5_000  # for a task that has taken a minute already
_SYNC_SECONDS = 1.0
_BEATS_PER_LEASE = 5
_LOOK_SECONDS = 0.5
_STATE_SECONDS = 600  # how long a question that was asked through a result may stay open
_CLOSING_SECONDS = 5.0
_TITLE_CHARS = 80
_QUESTION = "question-"  # how the names of our questions begin


def _check_answers(responses: Mapping[str, Any]) -> None:
    for key, response in responses.items():
        if not key.startswith(_QUESTION):
            continue  # not ours: ignored, as the extension says
        answer: JsonObject = cast("JsonObject", response) if isinstance(response, Mapping) else {}
        known = answer.get("action") in ("accept", "decline", "cancel")
        if not known or not isinstance(answer.get("content") or {}, Mapping):
            wanted = "{action: accept, decline or cancel, content: an object}"
            raise RpcError(INVALID_PARAMS, f"an answer in inputResponses is not {wanted}")


@dataclass(slots=True)
class _Question:
    params: JsonObject
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer = NOBODY


@dataclass(slots=True, eq=False)
class _Run:
    task: Task
    arguments: JsonObject
    answer_seconds: float
    waits: bool = False  # for answers to questions that nobody could be asked
    on_disk: bool = False  # as a task
    unsaved: bool = False
    after: float | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    saving: anyio.Lock = field(default_factory=anyio.Lock)
    changed: anyio.Event = field(default_factory=anyio.Event)
    questions: dict[str, _Question] = field(default_factory=dict[str, _Question])
    asked: int = 0

    def change(self, **fields: Any) -> None:
        self.task = replace(self.task, **fields)
        self.unsaved = True
        self.changed.set()
        self.changed = anyio.Event()

    def deliver(self, responses: Mapping[str, Any]) -> None:
        """Answer open questions; answers to others are ignored."""
        for key in self.questions.keys() & responses.keys():
            question = self.questions.pop(key)
            question.answer = form_answer(responses[key])
            question.answered.set()
            self._update_questions()

    async def ask(self, params: JsonObject) -> Answer:
        """Ask the user and wait for the answer; NOBODY after `answer_seconds`."""
        self.asked += 1
        key = f"{_QUESTION}{self.asked}"
        question = self.questions[key] = _Question(params)
        self._update_questions()
        try:
            with anyio.move_on_after(self.answer_seconds):
                await question.answered.wait()
        finally:
            if self.questions.pop(key, None) is not None:
                self._update_questions()
        return question.answer

    def _update_questions(self) -> None:
        requests = {
            key: {"method": names.ELICIT, "params": question.params}
            for key, question in self.questions.items()
        }
        if self.task.open:
            self.change(status="input_required" if requests else "working", requests=requests)


@dataclass(eq=False)
class OrderTasks:
    """Takes orders that may become tasks.

    In a gateway, tasks survive their clients. With `resumes`, another gateway takes over the turns
    and tasks of one that stopped.
    """

    handler: OrderHandler
    in_gateway: bool = False
    resumes: bool = False
    _runner: str = field(default_factory=random_id)
    _runs: dict[str, _Run] = field(default_factory=dict[str, _Run])
    _group: TaskGroup | None = None
    _wanted: anyio.Event = field(default_factory=anyio.Event)
    _alive: bool = False

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["OrderTasks"]:
        """Carry orders out while this lasts; those that are unfinished at the end fail."""
        async with anyio.create_task_group() as self._group:
            self._group.start_soon(self._sync_with_others, name="tasks")
            try:
                yield self
            finally:
                self._group.cancel_scope.cancel()

    # ---- orders

    async def order(
        self, arguments: Json | None, caller: Caller, person: Principal, *, tasks: bool, asks: bool
    ) -> Json:
        arguments = arguments or {}
        now, key = self.handler.clock.now_ms(), arguments.get("sessionKey")
        key = key if isinstance(key, str) and key else order_session_key(self.handler.clock)
        task = Task(
            id=f"task-{secrets.token_urlsafe(_ID_BYTES)}",
            reader=person.name,
            runner=self._runner,
            agent="",
            session=person.session(key),
            turn=random_id(),
            title=" ".join(str(arguments.get("message", "")).split())[:_TITLE_CHARS],
            secret=secrets.token_hex(_ID_BYTES),
            created_ms=now,
            updated_ms=now,
            in_gateway=self.in_gateway,
            asks=asks,
            revision=caller.revision.name,
        )
        run = _Run(task, arguments, task_records.TTL_MS / 1000 if tasks else _STATE_SECONDS)
        run.waits = tasks and self.in_gateway
        self._carry_out_later(run, caller)
        return await self._answer(run, tasks=tasks)

    async def _answer(self, run: _Run, *, tasks: bool) -> Json:
        """The order's result, or what the client gets until there is one."""
        try:
            await self._first_news(run, tasks=tasks)
            if run.task.open:
                await (self._save(run) if run.on_disk else self._keep(run))
        except BaseException:
            run.scope.cancel()
            raise
        if not run.task.open:
            return _result(run.task)
        if tasks:
            return protocol.EXTENSION_TASKS.created(view(run.task))
        return _input_required(run.task, run.arguments, self.handler.clock)

    def _carry_out_later(self, run: _Run, caller: Caller) -> None:
        assert self._group is not None
        self._runs[run.task.id] = run

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if not run.on_disk and caller.report is not None:
                await caller.report(progress, total, message)

        def on_event(event: Event) -> None:
            message = describe_event(event)
            if message is not None and run.task.open:
                run.change(message=message, updated_ms=self.handler.clock.now_ms())

        def began(context: MessageContext) -> None:
            run.task = replace(run.task, agent=context.agent_id)

        watched = replace(
            caller,
            report=report if caller.report is not None else None,
            ask=asking(run.ask) if run.task.asks else None,
            on_event=on_event,
            turn=run.task.turn,
            session_key=run.task.session,
            began=began,
        )
        self._group.start_soon(self._carry_out, run, watched, name=f"order {run.task.id}")

    async def _carry_out(self, run: _Run, caller: Caller) -> None:
        try:
            with run.scope:
                run.after = await self._task_after()
                run.change()
                arguments = deepcopy(dict(run.arguments))  # attachments are taken out of it
                replies = list[Reply]()
                caller = replace(caller, replied=replies.append)
                result = await self.handler.take(arguments, caller)
                while replies and run.waits:
                    answered = await self._until_answered(run, replies.pop().questions)
                    if answered is None:
                        break
                    result = await self.handler.resume(continuation(answered), caller)
                self._end(run, status="completed", result=result)
            if run.scope.cancelled_caught:
                self._end(run, status="cancelled", message="The order was cancelled.")
        except BaseException:
            if self.resumes and run.on_disk:
                raise  # another gateway continues it
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_SECONDS):
                await self._fail(run, "The program that carried this order out was stopped.")
                await self._finish(run)
            raise
        await self._finish(run)

    async def _until_answered(self, run: _Run, ids: Sequence[str]) -> WaitingQuestion | None:
        """Wait until these questions are answered or expire; None if there is no answer."""
        store = await self.handler.agent.store()
        if ids:
            commands = ", ".join(f"openclaw questions answer {id}" for id in ids)
            run.change(message=f"waiting for the user: {commands}")
        while ids:
            asked = await list_questions(store, self.handler.clock.now_ms(), ids)
            if all(question.state != "open" for question in asked):
                return asked[0] if asked else None
            await anyio.sleep(_SYNC_SECONDS)
        return None

    async def _task_after(self) -> float:
        try:
            return (await self.handler.agent.settings()).task_after
        except OpenClawError:
            return 0.0  # the order will find out why, and say so

    def _end(self, run: _Run, **fields: Any) -> None:
        now = self.handler.clock.now_ms()
        # The clock may have been set back meanwhile.
        ttl = max(0, now - run.task.created_ms) + task_records.TTL_MS
        run.change(**{"message": "", **fields}, requests={}, updated_ms=now, ttl_ms=ttl)

    async def _fail(self, run: _Run, why: str) -> None:
        message = (
            f"{why} {await task_records.what_happened(await self.handler.agent.store(), run.task)}"
        )
        self._end(
            run,
            status="failed",
            message=message,
            error={"code": INTERNAL_ERROR, "message": message},
        )

    async def _finish(self, run: _Run) -> None:
        if run.on_disk:
            await self._save(run)
            await task_records.forget_order(
                await self.handler.agent.store(), run.task.id, self.handler.clock.now_ms()
            )
        self._runs.pop(run.task.id, None)

    async def _first_news(self, run: _Run, *, tasks: bool) -> None:
        """Wait for the end, a question, or the time after which an order becomes a task."""
        began = self.handler.clock.monotonic()
        while run.task.open and not run.questions:
            left = None
            if tasks and run.after is not None:
                left = run.after - (self.handler.clock.monotonic() - began)
            with anyio.move_on_after(left) as patience:
                await run.changed.wait()
            if patience.cancelled_caught:
                return

    async def _keep(self, run: _Run) -> None:
        """Make it a task on disk, which doesn't need the request any more."""
        store = await self.handler.agent.store()
        await self._say_alive(store)
        await task_records.keep_order(store, run.task, run.arguments)
        run.on_disk = True
        await self._save(run)
        self._wanted.set()
        if not run.task.open:  # it ended meanwhile
            await self._finish(run)

    async def _save(self, run: _Run, *, durable: bool = True) -> None:
        async with run.saving:
            run.unsaved = False
            saved = await task_records.write_task(
                await self.handler.agent.store(), run.task, durable=durable
            )
            if saved is None:
                logger.warning("task %s was taken over by another process", run.task.id)
                run.on_disk = False
                run.scope.cancel()
            else:
                run.task = replace(run.task, rev=saved.rev)

    # ---- rounds of questions

    async def continue_with_answers(
        self, state: str, arguments: Json | None, responses: Mapping[str, Any], person: Principal
    ) -> Json:
        """Continue an order whose client was asked through a result."""
        id = state.partition(".")[0]
        run = self._runs.get(id)
        task = run.task if run is not None else await self._stored(id)
        # An order that still runs waits for its answers, whatever the clock says.
        clock = self.handler.clock if run is None else None
        if task is None or not _is_signed(task, state, arguments or {}, person, clock):
            raise RpcError(INVALID_PARAMS, "Invalid or expired requestState")
        _check_answers(responses)
        if run is None:
            return await self._resume_elsewhere(task, arguments or {}, responses)
        run.deliver(responses)
        return await self._answer(run, tasks=False)

    async def _resume_elsewhere(
        self, task: Task, arguments: Json, responses: Mapping[str, Any]
    ) -> Json:
        store = await self.handler.agent.store()
        if task.open:
            await task_records.tell_task(store, task, responses)
        while True:
            current = await self._current(task.id)
            if current is None:
                raise RpcError(INVALID_PARAMS, "the order is no longer known")
            if not current.open:
                return _result(current)
            if current.requests.keys() - responses.keys():
                return _input_required(current, arguments, self.handler.clock)
            await anyio.sleep(_LOOK_SECONDS)

    # ---- what clients ask about tasks

    async def get(self, id: str, person: Principal) -> protocol.Task:
        return view(await self._readable(id, person))

    async def update(self, id: str, responses: Mapping[str, Any], person: Principal) -> None:
        task = await self._readable(id, person)
        _check_answers(responses)
        run = self._runs.get(id)
        if run is not None:
            run.deliver(responses)
        elif task.open:
            await task_records.tell_task(await self.handler.agent.store(), task, responses)

    async def cancel(self, id: str, person: Principal) -> None:
        task = await self._readable(id, person)
        run = self._runs.get(id)
        if run is not None:
            run.scope.cancel()
        elif task.open:
            await task_records.tell_task(await self.handler.agent.store(), task, cancel=True)

    def runs(self, id: str) -> bool:
        return id.partition(".")[0] in self._runs

    async def changed(self, ids: list[str]) -> None:
        events = [self._runs[id].changed for id in ids if id in self._runs]
        with anyio.move_on_after(_SYNC_SECONDS if len(events) < len(ids) else None):
            async with anyio.create_task_group() as group:

                async def wait(event: anyio.Event) -> None:
                    await event.wait()
                    group.cancel_scope.cancel()

                for event in events:
                    group.start_soon(wait, event)
                if not events:
                    await anyio.sleep_forever()

    async def _readable(self, id: str, person: Principal) -> Task:
        task = await self._current(id)
        if task is None or task.reader != person.name:
            raise RpcError(INVALID_PARAMS, "there is no such task, or it has expired")
        return task

    async def _current(self, id: str) -> Task | None:
        run = self._runs.get(id)
        if run is not None:
            return run.task if run.on_disk else None
        task = await self._stored(id)
        if task is not None and task.open:
            store = await self.handler.agent.store()
            if await task_records.is_abandoned(store, task):
                return await self._resume_abandoned(store, task)
        return task

    async def _stored(self, id: str) -> Task | None:
        task = await task_records.find_task(await self.handler.agent.store(), id)
        return task if task is not None and task.expires_ms > self.handler.clock.now_ms() else None

    async def _resume_abandoned(self, store: SessionStore, task: Task) -> Task:
        """Continue a task whose process is gone, if that is safe: no turn is begun twice."""
        if task.in_gateway and not self.in_gateway and hasattr(store, "database"):
            return replace(task, message="its gateway stopped; another one continues it")
        turn = await task_records.find_turn(store, task)
        order = await task_records.kept_order(store, task.id)
        waits = turn is None and self.in_gateway and task.in_gateway
        ended = turn is not None and turn.state in (TurnState.OK, TurnState.ERROR)
        run = _Run(replace(task, runner=self._runner, requests={}), order or {}, _STATE_SECONDS)
        run.on_disk = True
        run.waits = self.in_gateway
        if turn is not None and turn.state is TurnState.CANCELLED:
            self._end(run, status="cancelled", message="The order was cancelled.")
        elif order is None or not (self.resumes or waits or ended):
            await self._fail(run, "The program that carried this order out stopped.")
        written = await task_records.write_task(store, run.task)
        if written is None:  # somebody else was faster
            return await task_records.find_task(store, task.id) or task
        run.task = written
        if written.open:
            await self._say_alive(store)
            self._wanted.set()
            run.change(status="working", message="taken over")
            caller = Caller(
                REVISIONS[task.revision], None, agent_id=task.agent or None, local=False
            )
            self._carry_out_later(run, caller)
        return run.task

    # ---- other processes

    async def _say_alive(self, store: SessionStore) -> None:
        if not self._alive:
            self._alive = True
            await task_records.say_alive(store, self._runner, self.handler.clock.now_ms())

    async def _sync_with_others(self) -> None:
        """Look for answers that other processes got, and save tasks for them to see."""
        beats = 0
        while True:
            await self._wanted.wait()
            await anyio.sleep(_SYNC_SECONDS)
            beats += 1
            runs = [run for run in self._runs.values() if run.on_disk]
            if not runs:
                self._wanted, self._alive = anyio.Event(), False
                continue
            try:
                await self._sync_runs(runs, lease=beats % _BEATS_PER_LEASE == 0)
            except OpenClawError as error:
                logger.warning("tasks cannot be updated: %s", error.message)

    async def _sync_runs(self, runs: list[_Run], *, lease: bool) -> None:
        store = await self.handler.agent.store()
        if lease:
            await task_records.say_alive(store, self._runner, self.handler.clock.now_ms())
        inboxes = await task_records.read_inboxes(store, [run.task.id for run in runs])
        for run in runs:
            inbox = inboxes.get(run.task.id, {})
            run.deliver(inbox.get("responses", {}))
            if inbox.get("cancel"):
                run.scope.cancel()
            if run.unsaved and run.task.open:
                await self._save(run, durable=False)


def _result(task: Task) -> Json:
    if task.result is not None:
        return dict(task.result)
    if task.error is not None:
        raise RpcError(task.error["code"], task.error["message"])
    raise RpcError(INTERNAL_ERROR, task.message or "the order was cancelled")


def view(task: Task) -> protocol.Task:
    """A task as clients see it."""
    age = task.updated_ms - task.created_ms
    return protocol.Task(
        id=task.id,
        status=protocol.TaskStatus(task.status),
        created=timestamp(task.created_ms),
        updated=timestamp(task.updated_ms),
        ttl_ms=task.ttl_ms,
        poll_ms=_POLL_MS if age < 60_000 else _SLOW_POLL_MS,
        message=task.message or None,
        result=None if task.result is None else dict(task.result),
        error=None if task.error is None else error_data(task.error),
        requests=task.requests,
    )


# ---- the state that a client carries from one round to the next


def _input_required(task: Task, arguments: JsonObject, clock: Clock) -> Json:
    body = f"{task.id}.{clock.now_ms() + _STATE_SECONDS * 1000}"
    return {
        "resultType": "input_required",
        "inputRequests": dict(task.requests),
        "requestState": seal(task.secret.encode(), body, _order_of(arguments, task.reader)),
    }


def _order_of(arguments: JsonObject, reader: str) -> str:
    return json.dumps([arguments, reader], sort_keys=True)


def _is_signed(
    task: Task, state: str, arguments: JsonObject, person: Principal, clock: Clock | None
) -> bool:
    """Whether we made this state for this order of this person; with a `clock`, not too long ago."""
    body = unseal(task.secret.encode(), state, _order_of(arguments, person.name))
    if body is None:
        return False
    return clock is None or int(body.rpartition(".")[2]) > clock.now_ms()
