"""The methods of the Agent Client Protocol, served over the client's pipes."""

import functools
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, TypeVar, cast

import anyio
import anyio.abc
from acp import PROTOCOL_VERSION, AgentSideConnection, RequestError, schema
from acp.helpers import update_available_commands, update_current_mode

from openclaw.acp_agent import session as sessions
from openclaw.acp_agent.session import ClientServer, Session
from openclaw.acp_agent.updates import ContentBlock, replay
from openclaw.agent.port import Agent, OpenAgent
from openclaw.core import errors
from openclaw.core.clock import random_id, timestamp
from openclaw.core.outcome import Outcome
from openclaw.core.prompts import PromptInfo
from openclaw.stdio.descriptors import claim_stdio, on_termination, run_and_leave
from openclaw.stdio.lines import LineSplitter, TooLong
from openclaw.stdio.pipes import HIGH_WATER, LineReader, Writer, open_reader, open_writer
from openclaw.version import __version__

if TYPE_CHECKING:
    from acp.interfaces import Client


MODEL_OPTION = "model"
logger = logging.getLogger(__name__)

_CAPABILITIES: dict[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
}
_NOT_FOUND = -32002  # the protocol's own code for a resource that does not exist
P = ParamSpec("P")
R = TypeVar("R")


def no_such_session(session_id: str) -> RequestError:
    return RequestError(_NOT_FOUND, f"there is no session '{session_id}'")


def as_protocol_errors(method: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Reports a method's failures to the client as messages, without a traceback."""

    @functools.wraps(method)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await method(*args, **kwargs)
        except RequestError:
            raise
        except errors.OpenClawError as error:
            raise RequestError(errors.jsonrpc_code(error), errors.describe(error)) from error
        except Exception as error:
            logger.exception("a request failed")
            message = f"unexpected {type(error).__name__}; see the agent's log"
            raise RequestError(errors.JSONRPC_INTERNAL, message) from error

    return guarded


@dataclass(eq=False)
class OpenClawAgent:
    agent: Agent
    tasks: anyio.abc.TaskGroup
    program: str
    agent_id: str | None
    _sessions: dict[str, Session] = field(default_factory=dict[str, Session])
    _forms: schema.ElicitationCapabilities | None = None

    def on_connect(self, conn: "Client") -> None:  # the SDK's first call
        self._client = conn

    @property
    def open_sessions(self) -> Iterable[Session]:
        return self._sessions.values()

    # ---- methods

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        **kwargs: Any,
    ) -> schema.InitializeResponse:
        self._forms = client_capabilities.elicitation if client_capabilities else None
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(
                name=self.program, title="OpenClaw", version=__version__
            ),
            agent_capabilities=schema.AgentCapabilities.model_validate(_CAPABILITIES),
            auth_methods=[],
        )

    @as_protocol_errors
    async def new_session(
        self,
        cwd: str,
        mcp_servers: Sequence[ClientServer] | None = None,
        **kwargs: Any,
    ) -> schema.NewSessionResponse:
        session = await self._open(
            f"{sessions.SESSION_PREFIX}{random_id()}", self.agent_id, cwd, mcp_servers or ()
        )
        # So that it can be loaded even if no prompt follows.
        await (await self.agent.store()).open_session(session.agent_id, session.id)
        return schema.NewSessionResponse(session_id=session.id, **await self._choices(session))

    @as_protocol_errors
    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[ClientServer] | None = None,
        **kwargs: Any,
    ) -> schema.LoadSessionResponse:
        session, stored = await self._reopen(session_id, cwd, mcp_servers or ())
        for update in replay(stored.entries, stored.media) if stored is not None else ():
            await self._client.session_update(session.id, update)
        return schema.LoadSessionResponse(**await self._choices(session))

    @as_protocol_errors
    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[ClientServer] | None = None,
        **kwargs: Any,
    ) -> schema.ResumeSessionResponse:
        session, _ = await self._reopen(session_id, cwd, mcp_servers or ())
        return schema.ResumeSessionResponse(**await self._choices(session))

    @as_protocol_errors
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> schema.ListSessionsResponse:
        listed, following = await sessions.list_page(await self.agent.store(), cwd, cursor)
        return schema.ListSessionsResponse(sessions=listed, next_cursor=following)

    @as_protocol_errors
    async def close_session(self, session_id: str, **kwargs: Any) -> schema.CloseSessionResponse:
        """Stop the session's turns and servers; the conversation is kept."""
        session = self._session(session_id)
        del self._sessions[session.id]
        session.close(self.agent)
        return schema.CloseSessionResponse()

    @as_protocol_errors
    async def set_session_mode(
        self, session_id: str, mode_id: str, **kwargs: Any
    ) -> schema.SetSessionModeResponse:
        session = self._session(session_id)
        session.agent_id = (await self.agent.settings(mode_id)).id
        session.model = None
        await self._connect(session)
        await sessions.note_agent(await self.agent.store(), session)
        await self._client.session_update(session.id, update_current_mode(session.agent_id))
        return schema.SetSessionModeResponse()

    @as_protocol_errors
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **kwargs: Any
    ) -> schema.SetSessionConfigOptionResponse:
        session = self._session(session_id)
        if config_id != MODEL_OPTION:
            raise errors.NotFound(f"there is no setting '{config_id}'")
        names = await self._models(session)
        if value not in names:
            raise errors.InvalidRequest(
                f"there is no model '{value}'", hint=f"available: {', '.join(names)}"
            )
        session.model = str(value)
        return schema.SetSessionConfigOptionResponse(config_options=await self._options(session))

    @as_protocol_errors
    async def prompt(
        self, session_id: str, prompt: Sequence[ContentBlock], **kwargs: Any
    ) -> schema.PromptResponse:
        session = self._session(session_id)
        reply = await sessions.take_turn(session, prompt, self.agent, self._client, self._forms)
        if reply is None:
            return schema.PromptResponse(stop_reason="cancelled")
        await self._send_title(session)
        reason = "max_turn_requests" if reply.outcome == Outcome.LIMIT else "end_turn"
        sent, got = reply.usage.input_tokens, reply.usage.output_tokens
        usage = schema.Usage(total_tokens=sent + got, input_tokens=sent, output_tokens=got)
        return schema.PromptResponse(stop_reason=reason, usage=usage)

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            session.cancel()

    # ---- sessions

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise no_such_session(session_id)
        return session

    async def _open(
        self, key: str, agent_id: str | None, cwd: str, requested: Sequence[ClientServer]
    ) -> Session:
        settings = await self.agent.settings(agent_id)
        directory = _directory(cwd)
        servers = sessions.session_servers(requested, directory, settings.redactor)
        before = self._sessions.pop(key, None)
        if before is not None:
            before.close(self.agent)
        session = Session(key, directory, settings.id, servers)
        await self._connect(session)
        self._sessions[key] = session
        return session

    async def _connect(self, session: Session) -> None:
        await self.agent.add_servers(session.id, session.agent_id, session.servers)
        self.tasks.start_soon(self._announce, session, name=f"commands of {session.id}")

    async def _reopen(
        self, key: str, cwd: str, requested: Sequence[ClientServer]
    ) -> tuple[Session, sessions.FoundSession | None]:
        stored = await sessions.find(await self.agent.store(), key)
        if stored is None and key not in self._sessions:
            raise no_such_session(key)
        agent_id = stored.agent if stored is not None else self._sessions[key].agent_id
        return await self._open(key, agent_id, cwd, requested), stored

    async def _choices(self, session: Session) -> dict[str, Any]:
        agents = await self.agent.agents()
        modes = schema.SessionModeState(
            current_mode_id=session.agent_id,
            available_modes=[schema.SessionMode(id=agent.id, name=agent.name) for agent in agents],
        )
        options = await self._options(session)
        return {"modes": modes if len(agents) > 1 else None, "config_options": options}

    async def _options(self, session: Session) -> list[Any]:
        names = await self._models(session)
        if not names:
            return []
        return [
            schema.SessionConfigOptionSelect(
                id=MODEL_OPTION,
                name="Model",
                category="model",
                type="select",
                current_value=session.model if session.model in names else names[0],
                options=[schema.SessionConfigSelectOption(value=name, name=name) for name in names],
            )
        ]

    async def _models(self, session: Session) -> tuple[str, ...]:
        """The agent's own models first, then all others in the configuration."""
        own: Sequence[str] = ()
        try:
            own = await self.agent.models(session.agent_id)
        except errors.OpenClawError as error:
            logger.info("the agent's models are not known: %s", error)
        settings = await self.agent.settings(session.agent_id)
        return tuple(dict.fromkeys((*own, *settings.model_choices)))

    async def _announce(self, session: Session) -> None:
        await self.agent.refresh(session.agent_id, session.id, wait=True)
        commands = [_command(prompt) for prompt in self.agent.prompts(session.agent_id, session.id)]
        if not commands or self._sessions.get(session.id) is not session:
            return
        try:
            await self._client.session_update(session.id, update_available_commands(commands))
        except ConnectionError:
            logger.debug("the client went away before the commands were announced")

    async def _send_title(self, session: Session) -> None:
        store = await self.agent.store()
        sessions_found = await store.find_sessions(session.id, session.agent_id)
        if sessions_found and sessions_found[0].title and not session.titled:
            session.titled = True
            update = schema.SessionInfoUpdate(
                session_update="session_info_update",
                title=sessions_found[0].title,
                updated_at=timestamp(sessions_found[0].updated_ms),
            )
            await self._client.session_update(session.id, update)


def _directory(cwd: str) -> Path:
    path = Path(cwd)
    if not path.is_absolute() or not path.is_dir():
        raise errors.InvalidRequest("must be the absolute path of a directory", field="cwd")
    return path


def _command(prompt: PromptInfo) -> schema.AvailableCommand:
    wanted = " ".join(f"{argument.name}=…" for argument in prompt.arguments)
    text = schema.UnstructuredCommandInput(hint=wanted)
    hint = schema.AvailableCommandInput(text) if wanted else None
    return schema.AvailableCommand(
        name=prompt.command.removeprefix("/"), description=prompt.description, input=hint
    )


_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600


class LineTransport:
    def __init__(self, lines: LineReader, writer: Writer) -> None:
        self._lines, self._writer = lines, writer

    async def send(self, message: dict[str, Any]) -> None:
        if not self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n"):
            raise ConnectionResetError("the client closed its end")
        if self._writer.unsent > HIGH_WATER:
            await self._writer.drained()

    async def receive(self) -> dict[str, Any] | None:
        while (line := await self._lines.next()) is not None:
            if isinstance(line, TooLong):
                await self._refuse(_INVALID_REQUEST, f"a message is over {line.limit} bytes long")
                continue
            try:
                message: Any = json.loads(line)
            except (ValueError, RecursionError):
                await self._refuse(_PARSE_ERROR, "a line is not JSON")
                continue
            if isinstance(message, dict):
                return message  # pyright: ignore[reportUnknownVariableType] - any JSON
            await self._refuse(_INVALID_REQUEST, "a message is not a JSON object")
        return None

    async def close(self) -> None:
        await self._writer.drained(0)

    async def _refuse(self, code: int, problem: str) -> None:
        logger.warning("from the client: %s", problem)
        error = {"code": code, "message": problem}
        await self.send({"jsonrpc": "2.0", "id": None, "error": error})


_CLOSING_SECONDS = 2.0  # for stopped turns to be recorded when the client goes away


def serve_stdio(open_agent: OpenAgent, *, program: str, agent_id: str | None) -> NoReturn:
    wire_in, wire_out = claim_stdio()
    opened = functools.partial(
        serve, open_agent, wire_in, wire_out, program=program, agent_id=agent_id
    )
    # Unlike asyncio.run, anyio.run lets the loop's callbacks start tasks.
    run_and_leave(lambda: anyio.run(opened))


async def serve(
    open_agent: OpenAgent, wire_in: int, wire_out: int, *, program: str, agent_id: str | None
) -> None:
    transport = LineTransport(
        LineReader(open_reader(wire_in), LineSplitter()), open_writer(wire_out)
    )
    with anyio.CancelScope() as scope:
        on_termination(scope.cancel)
        async with open_agent() as answering, anyio.create_task_group() as tasks:
            agent = OpenClawAgent(answering, tasks, program=program, agent_id=agent_id)
            # Closing and resuming a session are still marked as unstable in the SDK.
            connection = AgentSideConnection(
                cast(Any, agent), transport, listening=False, use_unstable_protocol=True
            )
            try:
                await connection.listen()
            finally:
                for session in agent.open_sessions:
                    session.cancel()
                with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_SECONDS):
                    await connection.close()
                for session in agent.open_sessions:
                    session.forget_files()
            tasks.cancel_scope.cancel()
