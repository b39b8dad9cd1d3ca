"""The tool, and one order: arguments in, one aggregated answer out."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from openclaw.agent.port import Agent, AgentSettings, MessageContext, Reply, TurnListener
from openclaw.core import events
from openclaw.core.clock import Clock, order_session_key
from openclaw.core.content import InboundMedia, Text
from openclaw.core.errors import InvalidRequest, OpenClawError, describe
from openclaw.core.questions import ACCEPT, DECLINED, NO, NOBODY, Answer, Ask, Question, form_answer
from openclaw.core.tools import JsonObject, json_objects
from openclaw.mcp import names
from openclaw.mcp.jsonrpc import RpcError
from openclaw.mcp.revisions import Revision
from openclaw.mcp_server.aggregation import AnswerCollector, Json, OutboundRules, render
from openclaw.mcp_server.order_tool import TOOLS
from openclaw.media import kinds
from openclaw.media.stored_files import OrderFiles, order_files
from openclaw.sessions.task_groups import helper_tasks

if TYPE_CHECKING:
    from openclaw.media.transcription import Transcriber

logger = logging.getLogger(__name__)

SILENCE_SECONDS = 10.0  # clients commonly give up after 30 to 60 s without a sign of life
_QUEUED = 256
_ROOTS_SECONDS = 5.0
SESSION_KEY_LENGTH = 512
_ATTACHMENTS = (
    ("images", kinds.MAX_IMAGES, kinds.IMAGE_TYPES),
    ("files", kinds.MAX_FILES, kinds.FILE_TYPES),
)
_TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "a string"),
    "array": (list, "an array"),
    "object": (dict, "an object"),
}


def checked_order(schema: Mapping[str, Any], arguments: Mapping[str, Any] | None) -> Json:
    """An order's arguments; keys that the schema does not have are ignored."""
    order = {key: value for key, value in (arguments or {}).items() if key in schema["properties"]}
    _check(schema, order, "")
    session_key = order.get("sessionKey")
    if session_key is not None and not 0 < len(session_key) <= SESSION_KEY_LENGTH:
        raise InvalidRequest(
            f"must be 1 to {SESSION_KEY_LENGTH} characters long, not {len(session_key)}",
            field="sessionKey",
        )
    if not (order["message"].strip() or order.get("images") or order.get("files")):
        raise InvalidRequest("is empty", field="message")
    return order


def _check(schema: Mapping[str, Any], value: Any, path: str) -> None:
    kind, name = _TYPES[schema["type"]]
    if not isinstance(value, kind):
        raise InvalidRequest(f"must be {name}, not {_name_of(value)}", field=path or "arguments")
    if isinstance(value, list):
        for index, item in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            _check(schema["items"], item, f"{path}[{index}]")
    elif isinstance(value, dict):
        _check_object(schema, value, path)  # pyright: ignore[reportUnknownArgumentType]


def _check_object(schema: Mapping[str, Any], value: Mapping[str, Any], path: str) -> None:
    prefix = f"{path}." if path else ""
    for required in schema.get("required", ()):
        if required not in value:
            raise InvalidRequest("is required", field=prefix + required)
    known: Mapping[str, Any] = schema["properties"]
    for key in known.keys() & value.keys():  # the schema admits further keys
        _check(known[key], value[key], prefix + key)


def _name_of(value: Any) -> str:
    if value is None:
        return "null"
    names = (bool, "a boolean"), (int | float, "a number"), (str, "a string"), (list, "an array")
    return next((name for kind, name in names if isinstance(value, kind)), "an object")


async def receive(
    order: Mapping[str, Any], files: OrderFiles, transcriber: "Transcriber"
) -> tuple[InboundMedia, ...]:
    """Take the order's attachments out of it. All are checked before any is read."""
    wanted: list[tuple[str, Json, Sequence[str]]] = []
    for field, most, allowed in _ATTACHMENTS:
        items = order.get(field, ())
        if len(items) > most:
            raise InvalidRequest(f"has {len(items)} items; at most {most} are allowed", field=field)
        wanted += [(f"{field}[{index}]", item, allowed) for index, item in enumerate(items)]
    if not wanted:
        return ()
    from openclaw.media.intake import Intake  # few orders have attachments

    intake = Intake(transcriber, lambda: files)
    stored = [  # the order does not keep the data in memory
        await intake.store(
            item.pop("data"), item["mimeType"], allowed, field=field, name=item.get("filename")
        )
        for field, item, allowed in wanted
    ]
    return tuple([await intake.read(media) for media in stored])


# Progress, the total if known, and a message.
Report = Callable[[float, float | None, str | None], Awaitable[None]]


def describe_event(event: events.Event) -> str | None:
    match event:
        case events.TurnStarted():
            return "working"
        case events.ToolStarted(name=name):
            return f"calling {name}"
        case events.ToolProgress(name=name, message=message):
            return f"{name}: {message}"
        case events.ToolFinished(name=name, result=result):
            return f"{name} failed" if result.is_error else f"{name} finished"
        case events.Notice(message=message):
            return message
        case _:
            return None


@asynccontextmanager
async def _progress(report: Report | None, clock: Clock) -> AsyncGenerator[events.Emit | None]:
    """Passes events on as progress, and breaks a silence that lasts too long."""
    if report is None:
        yield None
        return
    put, queue = anyio.create_memory_object_stream[str](_QUEUED)
    doing, began = "waiting for the session", clock.monotonic()

    def on_event(event: events.Event) -> None:
        nonlocal doing
        message = describe_event(event)
        if message is not None:
            doing = message
            with suppress(anyio.WouldBlock):  # a slow client misses it
                put.send_nowait(message)

    async def run() -> None:
        for step in count(1):  # the protocol wants a number that grows
            message: str | None = None
            with anyio.move_on_after(SILENCE_SECONDS):
                message = await queue.receive()
            seconds = round(clock.monotonic() - began)
            await report(float(step), None, message or f"still working ({doing}, {seconds} s)")

    async with put, queue, helper_tasks() as tasks:
        tasks.start_soon(run, name="order progress")
        yield on_event


AskPerson = Callable[[JsonObject], Awaitable[Answer]]  # takes an elicitation's params
AskClient = Callable[..., Awaitable[Json]]  # a peer's `ask`


def elicitation(ask: AskClient) -> AskPerson:
    async def elicit(params: JsonObject) -> Answer:
        try:
            return form_answer(await ask(names.ELICIT, dict(params)))
        except RpcError:
            return DECLINED

    return elicit


async def client_roots(ask: AskClient) -> Sequence[str]:
    try:
        answer = await ask(names.ROOTS, seconds=_ROOTS_SECONDS)
    except RpcError:
        return ()
    return [str(root.get("uri")) for root in json_objects(answer.get("roots"))]


def asking(put: AskPerson) -> Ask:
    """Ask by elicitation whether a call is allowed, and what an MCP server wants to know."""

    async def ask(question: Question) -> Answer:
        if question.form is not None:
            return await put({**question.form.params, "message": question.title})
        choice = {
            "type": "string",
            "title": "Allow it?",
            "enum": [option.id for option in question.choices],
            "enumNames": [option.label for option in question.choices],
        }
        reason = {"type": "string", "title": "If not, why? The agent will see your reason"}
        form = {
            "type": "object",
            "properties": {"answer": choice, "reason": reason},
            "required": ["answer"],
        }
        message = f"{question.title}\n\n{question.body}".rstrip()
        answer = await put({"mode": "form", "message": message, "requestedSchema": form})
        if answer == NOBODY:
            return answer
        content = (answer.content if answer.choice == ACCEPT else None) or {}
        return Answer(str(content.get("answer", NO)), str(content.get("reason") or ""))

    return ask


@dataclass(frozen=True, slots=True)
class Caller:
    revision: Revision
    report: Report | None
    ask: Ask | None = None
    agent_id: str | None = None
    session: Callable[[str], str] = str
    local: bool = True
    roots: Callable[[], Awaitable[Sequence[str]]] | None = None
    session_key: str | None = None  # instead of the one that the order names
    on_event: events.Emit = events.discard
    turn: str | None = None
    began: Callable[[MessageContext], None] | None = None
    replied: Callable[[Reply], None] | None = None


def asked_by_request(caller: Caller, ask: AskClient, *, asks: bool, roots: bool) -> Caller:
    """The caller with what its client can answer: questions to the person, and its roots."""
    return replace(
        caller,
        ask=asking(elicitation(ask)) if asks else None,
        roots=partial(client_roots, ask) if roots else None,
    )


AnswerOrder = Callable[[MessageContext, TurnListener], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class OrderHandler:
    """Takes the orders of one program's tool, and has the agent or `answer` answer them."""

    program: str
    agent: Agent
    clock: Clock
    agent_id: str | None
    answer: AnswerOrder | None = None

    async def take(self, arguments: dict[str, Any] | None, caller: Caller) -> Json:
        """The result of the call, as JSON."""
        return await self._result_of(self._carry_out(arguments, caller))

    async def resume(self, context: MessageContext, caller: Caller) -> Json:
        """The same for a turn that takes up the answer to a question that had to wait."""
        return await self._result_of(self._carried_on(context, caller))

    async def _result_of(self, work: Awaitable[Json]) -> Json:
        try:
            return await work
        except OpenClawError as error:
            return refusal(describe(error))
        except Exception as error:
            logger.exception("an order failed")
            return refusal(f"unexpected {type(error).__name__}; see the server's log")

    async def works_here(self) -> bool:
        """Whether orders work in the directory that this process was started in."""
        try:
            return (await self.agent.settings(self.agent_id)).order_workspace == "cwd"
        except OpenClawError:
            return False

    async def _carry_out(self, arguments: dict[str, Any] | None, caller: Caller) -> Json:
        order = checked_order(TOOLS[self.program]["inputSchema"], arguments)
        settings = await self.agent.settings(caller.agent_id or self.agent_id)
        workspace = await _workspace(settings, caller) if caller.local else None
        with order_files(settings.temp_root) as files:
            context = MessageContext(
                text=order["message"],
                session_key=caller.session_key
                or caller.session(order.get("sessionKey") or order_session_key(self.clock)),
                agent_id=settings.id,
                media=await receive(order, files, settings.transcriber),
                origin="mcp",
                workspace=workspace,
                idempotency_key=caller.turn,
            )
            if caller.began is not None:
                caller.began(context)
            return await self._answered(context, settings, files, caller)

    async def _carried_on(self, context: MessageContext, caller: Caller) -> Json:
        settings = await self.agent.settings(context.agent_id)
        with order_files(settings.temp_root) as files:
            return await self._answered(context, settings, files, caller)

    async def _answered(
        self, context: MessageContext, settings: AgentSettings, files: OrderFiles, caller: Caller
    ) -> Json:
        collector = AnswerCollector(all_tool_text=settings.all_tool_text)
        await self._work(context, collector, caller)
        rules = OutboundRules(
            directories=(context.workspace or settings.directories[0], files.directory),
            audio=settings.audio,
            secrets=settings.redactor,
        )
        blocks, left_out = await render(collector.media, rules, caller.revision)
        collector.add_reply(tuple(map(Text, left_out)))
        return _result(collector.text(), *blocks)

    async def _work(
        self, context: MessageContext, collector: AnswerCollector, caller: Caller
    ) -> None:
        async with _progress(caller.report, self.clock) as on_progress:
            watched = on_progress is not None or caller.on_event is not events.discard
            listener = TurnListener(
                on_block_reply=collector.add_reply,
                on_tool_result=lambda name, result: collector.add_tool_output(result.outputs),
                on_event=events.both(caller.on_event, on_progress or events.discard)
                if watched
                else None,
                ask=caller.ask,
                attended=caller.ask is not None,
            )
            reply = await (self.answer or self.agent.reply)(context, listener)
        if caller.replied is not None:
            caller.replied(reply)
        collector.add_reply((Text(reply.text), *reply.media))


async def _workspace(settings: AgentSettings, caller: Caller) -> Path | None:
    """The directory that the client wants an order to work in, if it may choose one."""
    named: list[Path] = []
    if settings.order_workspace != "agent" and caller.roots is not None:
        named = [path for uri in await caller.roots() if (path := root_directory(uri))]
    if settings.order_workspace == "cwd":
        named.append(Path.cwd())
    private = [path.resolve() for path in settings.private]
    for directory in (path.resolve() for path in named):
        if not any(private_path.is_relative_to(directory) for private_path in private):
            return directory
    return None


def root_directory(uri: str) -> Path | None:
    """The directory that this root names, if it is one on this machine."""
    from urllib.request import url2pathname  # it imports an HTTP client, and few clients name roots

    try:
        parts = urlsplit(uri)
        path = Path(url2pathname(parts.path))
        local = parts.scheme == "file" and parts.netloc in ("", "localhost")
        return path if local and path.is_dir() else None
    except (OSError, ValueError):  # not an address, a name too long, or no permission
        return None


def refusal(message: str) -> Json:
    return _result(f"Error: {message}", is_error=True)


def _result(text: str, *blocks: Json, is_error: bool = False) -> Json:
    content = [{"text": text, "type": "text"}, *blocks]
    return {"content": content, "isError": is_error, "resultType": "complete"}
