"""A running gateway's agent, over HTTP: requests, event streams and their questions."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import anyio
import anyio.to_thread
import orjson
from anyio.abc import TaskGroup, TaskStatus

from openclaw.agent.event_codec import error_from, message_json, reply_from, tell
from openclaw.agent.port import (
    NO_LISTENER,
    AgentInfo,
    AgentSettings,
    MessageContext,
    Notify,
    Reply,
    TurnListener,
    named_agent,
)
from openclaw.config.paths import file_digest, home_dir
from openclaw.core.errors import (
    InvalidConfig,
    NotFound,
    OpenClawError,
    OperatorFacing,
)
from openclaw.core.prompts import PartialArgument, PromptArgument, PromptInfo
from openclaw.core.questions import ACCEPT, DECLINE, DECLINED, NOBODY, elicitation_result
from openclaw.core.tools import Origin, ToolSpec
from openclaw.gateway.lock import GatewayInfo
from openclaw.gateway.pending_questions import question_from
from openclaw.mcp.sse import EventDecoder
from openclaw.mcp_client.transport.environment import child_environment
from openclaw.media.documents import Extracted
from openclaw.media.stored_files import order_files
from openclaw.media.transcription import NoTranscriber, Transcriber
from openclaw.runtime.gateway_connection import (
    AnswerCutOff,
    GatewayConnection,
    GatewayGone,
    Json,
    gone,
)
from openclaw.runtime.lazy_resource import LazyResource
from openclaw.runtime.settings import HostProcess, configured_settings
from openclaw.secrets.refs import has_reference
from openclaw.sessions.task_groups import helper_tasks

if TYPE_CHECKING:
    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.sessions.store import SessionStore

    Servers = Mapping[str, McpServerConfig]


_TOOLS_SECONDS = 30.0  # how long to wait for servers; the gateway itself waits for less


class GatewayClient(GatewayConnection):
    """A connection to the gateway that also carries turns and their questions."""

    def __init__(self, url: str, root: Path) -> None:
        super().__init__(url, root)
        self.settings: dict[str, Mapping[str, Any]] = {}

    async def reply(self, context: MessageContext, listener: TurnListener = NO_LISTENER) -> Reply:
        handlers: dict[str, Callable[[Any], None]] = {
            "accepted": lambda data: self.settings.update({data["agent"]: data["settings"]})
        }
        asks = listener.ask is not None
        async with helper_tasks() as tasks, AsyncExitStack() as stack:
            if asks:
                questions = _Questions(self, listener, tasks)
                handlers |= {"question": questions.ask, "question_closed": questions.close}
            sent = await self._with_files(context, stack)
            whole = listener.on_block_reply or listener.on_tool_result
            body = {
                **message_json(sent),
                "events": listener.on_event is not None,
                "callbacks": whole is not None,
                "questions": asks,
            }
            async with self.stream("/api/messages", body) as events:
                return await _followed(events, handlers, listener)

    async def forward(self, agent_id: str | None, request: Json, notify: Notify) -> Json:
        """The answer of the gateway's MCP server to one request of revision 2026-07-28."""
        params = request["params"]
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": request["method"],
            "mcp-name": params.get("taskId") or params.get("name") or "",
        }
        query = f"?{urlencode({'agent': agent_id})}" if agent_id else ""
        async with self.stream(f"/mcp{query}", request, headers, _messages) as messages:
            async for _, message in messages:
                if "method" not in message:
                    return message
                await notify(message["method"], message.get("params") or {})
        raise gone(EOFError(), sent=True)

    async def answer_question(self, event: Json, listener: TurnListener) -> None:
        question = question_from(event)
        answer = DECLINED if listener.ask is None else await listener.ask(question)
        form = question.form is not None
        agrees = answer.choice == ACCEPT if form else question.allowed_by(answer)
        body: Json = {"action": ACCEPT if agrees else DECLINE}
        if form:
            body = elicitation_result(answer)
        elif answer == NOBODY:
            body["action"] = "wait"
        else:
            body |= {"choice": answer.choice, "reason": answer.reason}
        with suppress(NotFound):  # it is no longer needed
            await self.request("POST", f"/api/questions/{event['id']}", body)

    async def _with_files(self, context: MessageContext, stack: AsyncExitStack) -> MessageContext:
        """The message with its media in an order's directory, where the gateway can read it."""
        if not context.media:
            return context
        files = stack.enter_context(order_files(self.root / "tmp"))
        media = [await anyio.to_thread.run_sync(files.place, one) for one in context.media]
        return replace(context, media=tuple(media))


async def _followed(
    events: AsyncIterator[tuple[str, Any]],
    handlers: Mapping[str, Callable[[Any], None]],
    listener: TurnListener,
) -> Reply:
    async for name, data in events:
        if name == "reply":
            return reply_from(data)
        if name == "error":
            raise error_from(data)
        if name in handlers:
            handlers[name](data)
        else:
            tell(listener, name, data)
    raise AnswerCutOff("no reply")


class _Questions:
    def __init__(self, client: GatewayClient, listener: TurnListener, tasks: TaskGroup) -> None:
        self._client, self._tasks, self._listener = client, tasks, listener
        self._open: dict[str, anyio.CancelScope] = {}

    def ask(self, question: Json) -> None:
        self._tasks.start_soon(self._asked, question, name="question")

    def close(self, data: Json) -> None:
        if (scope := self._open.pop(data["id"], None)) is not None:
            scope.cancel()

    async def _asked(self, question: Json) -> None:
        with anyio.CancelScope() as scope:
            self._open[question["id"]] = scope
            await self._client.answer_question(question, self._listener)


async def _messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, Any]]:
    """The JSON-RPC messages in an MCP server's answer: one body, or a stream of events."""
    decoder, body = EventDecoder(), b""
    async for chunk in chunks:
        if body or chunk.lstrip()[:1] == b"{":
            body += chunk
            continue
        for event in decoder.feed(chunk):
            if event.data:
                yield event.event, orjson.loads(event.data)
    if body:
        message = orjson.loads(body)
        if "jsonrpc" not in message:  # refused before it reached the MCP server
            raise error_from(message["error"])
        yield "", message


# ---- the agent


@dataclass(slots=True)
class _GatewaySession:
    """A session's own servers in the gateway; without a `scope` they no longer run."""

    agent: str
    servers: "Servers"
    scope: str = ""
    prompts: tuple[PromptInfo, ...] = ()
    settled: anyio.Event = field(default_factory=anyio.Event)
    connection: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class GatewayAgent:
    """A running gateway's agent, over HTTP. Conversations are read directly from the store."""

    def __init__(
        self,
        info: GatewayInfo,
        process: HostProcess,
        tasks: TaskGroup,
        store: "LazyResource[SessionStore]",
    ) -> None:
        self.info = info
        self._process, self._tasks, self._store = process, tasks, store
        self._client = GatewayClient(info.url, process.paths.root)
        self._names: dict[str, str] = {}  # the default agent first
        self._prompts: dict[str, Sequence[PromptInfo]] = {}
        self._sessions: dict[str, _GatewaySession] = {}

    async def _get(self, path: str) -> Json:
        return await self._client.request("GET", path)

    async def _learn(self) -> None:
        answer = await self._get("/api/agents")
        try:
            rows = answer["agents"]
            self._names = {row["id"]: row["name"] for row in rows}
            self._client.settings = {row["id"]: row["settings"] for row in rows}
        except (LookupError, TypeError) as error:
            message = "the running gateway is a different version"
            hint = f"restart it with: {self._process.program} gateway restart"
            raise OperatorFacing(message, hint=hint) from error

    async def agents(self) -> Sequence[AgentInfo]:
        await self._learn()
        return tuple(AgentInfo(*one) for one in self._names.items())

    async def settings(self, agent_id: str | None = None) -> AgentSettings:
        if agent_id not in self._client.settings and (agent_id is not None or not self._names):
            await self._learn()
        wanted = agent_id or next(iter(self._names), "")
        facts, process = named_agent(self._client.settings, wanted), self._process
        if facts.get("configDigest") == file_digest(process.config_file):
            # no need to read it here too
            later = _LaterTranscriber(lambda: self._configured(wanted))
            return self._settings_from(facts, later)
        try:
            return self._configured(wanted)
        except OpenClawError as error:  # the gateway still uses its previous configuration
            if isinstance(error, InvalidConfig) and error.message not in process.warned:
                process.warned.add(error.message)
                process.warn(
                    f"{process.program}: Warning: {error.message}; the gateway still uses the "
                    f"configuration it read before ('{process.program} config validate' lists the "
                    "problems)"
                )
            return self._settings_from(facts, NoTranscriber())

    def _configured(self, agent_id: str) -> AgentSettings:
        return configured_settings(self._process, agent_id)

    def _settings_from(self, facts: Mapping[str, Any], transcriber: Transcriber) -> AgentSettings:
        return AgentSettings(
            id=facts["agent"],
            temp_root=Path(facts["tempRoot"]),
            directories=tuple(map(Path, facts["directories"])),
            audio=facts["audio"],
            all_tool_text=facts["allToolText"],
            redactor=self._process.redactor,
            transcriber=transcriber,
            model_choices=tuple(facts.get("modelChoices", ())),
            order_workspace=facts.get("orderWorkspace", "agent"),
            private=(home_dir(self._process.environ), self._process.paths.root),
            timezone=facts.get("timezone", "UTC"),
        )

    async def reply(self, context: MessageContext, listener: TurnListener = NO_LISTENER) -> Reply:
        session = self._sessions.get(context.session_key)
        if session is not None:
            if not session.scope:  # the gateway closed the connection, or was restarted
                await self.add_servers(context.session_key, session.agent, session.servers)
            context = replace(context, scope=self._sessions[context.session_key].scope)
        return await self._client.reply(context, listener)

    async def tools(self, agent_id: str, session: str | None = None) -> Sequence[ToolSpec]:
        rows = (await self._get(f"/api/tools?agent={agent_id}"))["tools"]
        return tuple(
            ToolSpec(
                name=row["name"],
                description=row["description"],
                input_schema=row["inputSchema"],
                label=row["label"],
                origin=Origin(row["server"], row["tool"]),
                read_only=row["readOnly"],
                destructive=row["destructive"],
            )
            for row in rows
        )

    def prompts(self, agent_id: str, session: str | None = None) -> Sequence[PromptInfo]:
        own = self._sessions.get(session or "")
        return self._prompts.get(agent_id, ()) if own is None else own.prompts

    async def complete(
        self, agent_id: str, begun: PartialArgument, session: str | None = None
    ) -> Sequence[str]:
        own = self._sessions.get(session or "")
        scope = None if own is None else own.scope
        asked = {"agent": agent_id, "scope": scope, **asdict(begun)}
        return (await self._client.request("POST", "/api/completions", asked))["values"]

    async def refresh(
        self, agent_id: str, session: str | None = None, *, wait: bool = False
    ) -> None:
        own = self._sessions.get(session or "")
        if own is not None:
            if wait:
                with anyio.move_on_after(_TOOLS_SECONDS):
                    await own.settled.wait()
            return
        try:
            rows = (await self._get(f"/api/prompts?agent={agent_id}"))["prompts"]
        except OpenClawError:
            return  # keep what is known
        self._prompts[agent_id] = tuple(map(_prompt, rows))

    async def models(self, agent_id: str) -> Sequence[str]:
        return tuple((await self._get(f"/api/models?agent={agent_id}"))["models"])

    async def model_problem(self, ref: str) -> str | None:
        return (await self._get(f"/api/models?check={quote(ref)}"))["problem"]

    async def store(self) -> "SessionStore":
        return await self._store.get()

    async def add_servers(self, session: str, agent_id: str, servers: "Servers") -> None:
        """Have the gateway start these servers, then stop those that the session had before."""
        added = _GatewaySession(agent_id, servers)
        await self._tasks.start(self._hold, added, name=f"servers of {session}")
        before, self._sessions[session] = self._sessions.get(session), added
        if before is not None:
            before.connection.cancel()

    def end_session(self, session: str) -> None:
        held = self._sessions.pop(session, None)
        if held is not None:
            held.connection.cancel()

    async def forward(self, agent_id: str | None, request: Json, notify: Notify) -> Json | None:
        return await self._client.forward(agent_id, request, notify)

    async def _hold(self, session: _GatewaySession, *, task_status: TaskStatus[None]) -> None:
        """Keep the servers running until the connection ends; raises only if they never ran."""
        servers = {name: self._described(one) for name, one in session.servers.items()}
        body, opened = {"agent": session.agent, "servers": servers}, False
        try:
            with session.connection:
                async with self._client.stream("/api/scopes", body) as events:
                    async for name, data in events:
                        if name == "opened":
                            session.scope, opened = data["scope"], True
                            task_status.started()
                        elif name == "settled":
                            session.prompts = tuple(map(_prompt, data["prompts"]))
                            session.settled.set()
        except OpenClawError:
            if not opened:
                raise
        finally:
            session.scope = ""
            session.settled.set()
        if not opened:
            raise GatewayGone("the gateway went away", sent=False)

    def _described(self, config: "McpServerConfig") -> dict[str, object]:
        """The server for the gateway to start, with the environment it would have here."""
        described = config.model_dump(
            mode="json", by_alias=True, exclude_unset=True, exclude_none=True
        )
        if config.kind == "stdio":
            basics = child_environment(self._process.environ, {}, inherit=False)
            plain = {name: one for name, one in basics.items() if not has_reference(one)}
            described["env"] = {**plain, **{name: str(one) for name, one in config.env.items()}}
        return described


class _LaterTranscriber:
    """Reads the configuration only when there is something to transcribe."""

    def __init__(self, configured: Callable[[], AgentSettings]) -> None:
        self._configured = configured

    async def transcribe(self, path: Path, mime_type: str) -> Extracted:
        return await self._configured().transcriber.transcribe(path, mime_type)


def _prompt(row: dict[str, Any]) -> PromptInfo:
    return PromptInfo(
        server=row["server"],
        name=row["name"],
        description=row["description"],
        arguments=tuple(PromptArgument(**argument) for argument in row["arguments"]),
    )
