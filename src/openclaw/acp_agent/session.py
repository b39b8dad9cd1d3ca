"""One session of a client: its directory, its servers, and its turns."""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
import orjson
from acp import RequestError, schema
from acp.interfaces import Client
from pydantic import ValidationError

from openclaw.acp_agent.updates import (
    ContentBlock,
    Forms,
    Translator,
    Update,
    call_content,
    kind_of,
    locations,
)
from openclaw.agent.port import Agent, AgentSettings, MessageContext, Reply, TurnListener
from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.sensitive import server_credentials
from openclaw.core.content import InboundMedia, Media
from openclaw.core.errors import Cancelled, InvalidRequest, OpenClawError
from openclaw.core.tools import ALWAYS, NO, SESSION, Answer, Choice, JsonObject, PermissionRequest
from openclaw.media import kinds
from openclaw.media.files import OrderFiles, order_files
from openclaw.media.intake import Intake
from openclaw.media.transcription import Transcriber
from openclaw.secrets.refs import has_reference
from openclaw.sessions.model import Entry
from openclaw.sessions.store import SessionStore

_NAME_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Received:
    text: str
    media: tuple[InboundMedia, ...]


async def receive(
    blocks: Sequence[ContentBlock], files: OrderFiles, transcriber: Transcriber
) -> Received:
    """Read a prompt; `InvalidRequest` names the block that can't be accepted."""
    reader = _Reader(Intake(transcriber, lambda: files))
    for index, block in enumerate(blocks):
        await reader.take(block, f"prompt[{index}]")
    text = "".join(reader.words)
    if not text.strip() and not reader.media:
        raise InvalidRequest("is empty", field="prompt")
    return Received(text, tuple(reader.media))


@dataclass(slots=True)
class _Reader:
    intake: Intake
    words: list[str] = field(default_factory=list[str])
    media: list[InboundMedia] = field(default_factory=list[InboundMedia])
    mentioned: bool = False  # whether the last words are a mention

    async def take(self, block: ContentBlock, where: str) -> None:
        match block:
            case schema.TextContentBlock():
                self._say(block.text, mention=False)
            case schema.ResourceContentBlock():
                self._mention(block.name or _name_of(block.uri), block.uri)
            case schema.EmbeddedResourceContentBlock():
                await self._resource(block, where)
            case schema.ImageContentBlock():
                name = _name_of(block.uri or "")
                await self._binary(block.data, block.mime_type, kinds.IMAGE_TYPES, name, where)
            case schema.AudioContentBlock():
                await self._binary(block.data, block.mime_type, kinds.AUDIO_TYPES, "", where)

    def _say(self, text: str, *, mention: bool) -> None:
        """Append words; an editor's mentions are inside a sentence."""
        if not text:
            return
        before = self.words[-1] if self.words else " "
        if not before[-1].isspace() and not text[0].isspace():
            inline = mention or self.mentioned
            self.words.append("" if inline and text[0] in ".,;:!?)" else " " if inline else "\n")
        self.words.append(text)
        self.mentioned = mention

    def _mention(self, name: str, uri: str) -> None:
        self._say(f"[@{name}]({uri})", mention=True)

    async def _resource(self, block: schema.EmbeddedResourceContentBlock, where: str) -> None:
        resource = block.resource
        name = _name_of(resource.uri)
        self._mention(name, resource.uri)
        if isinstance(resource, schema.TextResourceContents):
            # The MIME type of source code is anything; what matters is that it is text.
            await self._take(await self.intake.store_text(resource.text, field=where, name=name))
        else:
            await self._binary(resource.blob, resource.mime_type, None, name, where)

    async def _binary(
        self, data: str, declared: str | None, allowed: Sequence[str] | None, name: str, where: str
    ) -> None:
        declared = declared or "application/octet-stream"
        await self._take(await self.intake.store(data, declared, allowed, field=where, name=name))

    async def _take(self, media: Media) -> None:
        self.media.append(await self.intake.read(media))


def _name_of(uri: str) -> str:
    """The last part of an address, for display. Never used as a path."""
    last = PurePosixPath(unquote(urlsplit(uri).path)).name if uri else ""
    return "".join(char for char in last if char.isprintable())[:_NAME_LENGTH] or uri[:_NAME_LENGTH]


logger = logging.getLogger(__name__)

ORIGIN = "acp"


@dataclass(slots=True)
class Session:
    id: str
    cwd: Path
    agent_id: str
    servers: Mapping[str, McpServerConfig]
    model: str | None = None
    titled: bool = False  # whether the client knows what the conversation is called
    turns: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope])
    asking: anyio.Lock = field(default_factory=anyio.Lock)
    _files: OrderFiles | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def files(self, temp_root: Path) -> OrderFiles:
        """The session's attachments are kept until it ends: later questions may be about them."""
        if self._files is None:
            self._files = self._stack.enter_context(order_files(temp_root))
        return self._files

    def cancel(self) -> None:
        for scope in self.turns:
            scope.cancel()

    def close(self, agent: Agent) -> None:
        self.cancel()
        agent.end_session(self.id)
        self.forget_files()

    def forget_files(self) -> None:
        self._stack.close()
        self._files = None


async def take_turn(
    session: Session,
    blocks: Sequence[ContentBlock],
    agent: Agent,
    client: Client,
    *,
    forms: Forms | None = None,
) -> Reply | None:
    """Answer a prompt, with updates on the way; None if it was cancelled.

    `forms` asks the person what MCP servers want to know. Every update has been sent when this returns.
    """
    with anyio.CancelScope() as scope:
        session.turns.add(scope)
        try:
            settings = await agent.settings(session.agent_id)
            return await _Turn(session, agent, settings, client, forms).run(blocks)
        except Cancelled:
            return None  # somebody stopped it at the gateway
        finally:
            session.turns.discard(scope)
    return None


class _Turn:
    def __init__(
        self,
        session: Session,
        agent: Agent,
        settings: AgentSettings,
        client: Client,
        forms: Forms | None,
    ) -> None:
        self._session = session
        self._forms = forms
        self._agent, self._settings = agent, settings
        self._client = client
        self._translator = Translator(settings.redactor, session.cwd)
        # Unbounded: an event must never wait, and a turn's events are bounded by its limits.
        self._queue, self._queued = anyio.create_memory_object_stream[Update | anyio.Event](
            math.inf
        )

    async def run(self, blocks: Sequence[ContentBlock]) -> Reply:
        session = self._session
        settings = self._settings
        files = session.files(settings.temp_root)
        received = await receive(blocks, files, settings.transcriber)
        context = MessageContext(
            text=received.text,
            session_key=session.id,
            agent_id=session.agent_id,
            media=received.media,
            origin=ORIGIN,
            prompt_calls=True,
            workspace=session.cwd,
            model=session.model,
        )
        failure: OpenClawError | None = None
        reply: Reply | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_all, name=f"updates of {session.id}")
            with self._queue:
                try:
                    reply = await self._agent.reply(
                        context,
                        TurnListener(
                            on_event=lambda event: self._put(self._translator.updates(event)),
                            ask=self._ask,
                            elicit=None if self._forms is None else self._elicit,
                        ),
                    )
                    self._put(self._translator.closing(reply))
                except OpenClawError as error:
                    failure = error  # raised in here, it would come out in a group of errors
        if failure is not None:
            raise failure
        assert reply is not None
        return reply

    def _put(self, updates: Sequence[Update]) -> None:
        for update in updates:
            self._queue.send_nowait(update)

    async def _send_all(self) -> None:
        gone = False
        async for item in self._queued:
            if isinstance(item, anyio.Event):
                item.set()
            elif not gone:
                try:
                    await self._client.session_update(self._session.id, item)
                except ConnectionError:
                    gone = True  # the turn itself ends with the connection

    async def _ask(self, request: PermissionRequest) -> Answer:
        async with self._session.asking:
            self._put(self._translator.asking(request))
            await self._all_shown()
            return Answer(await self._choice(request))

    async def _elicit(self, server: str, params: JsonObject) -> JsonObject:
        assert self._forms is not None
        async with self._session.asking:
            await self._all_shown()
            return await self._forms.ask(self._session.id, server, params)

    async def _all_shown(self) -> None:
        shown = anyio.Event()
        self._queue.send_nowait(shown)
        await shown.wait()

    async def _choice(self, request: PermissionRequest) -> str:
        call = schema.ToolCallUpdate(
            tool_call_id=request.call_id,
            title=request.title,
            kind=kind_of(request.name),
            status="pending",
            content=call_content(request),
            locations=locations(request.name, request.arguments, self._session.cwd),
            raw_input=dict(request.arguments),
        )
        options = [_option(choice) for choice in request.choices]
        try:
            answer = await self._client.request_permission(self._session.id, call, options)
        except (RequestError, ConnectionError, ValueError):
            logger.warning("the client did not say whether %s may be used", request.name)
            return NO
        outcome = answer.outcome
        return outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else NO


def _option(choice: Choice) -> schema.PermissionOption:
    lasting = choice.id in (SESSION, ALWAYS)
    allows = "allow_always" if lasting else "allow_once"
    kind = allows if choice.allows else "reject_once"
    return schema.PermissionOption(option_id=choice.id, name=choice.label, kind=kind)


ClientServer = (
    schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio
)


def session_servers(
    given: Iterable[ClientServer], cwd: Path
) -> tuple[Mapping[str, McpServerConfig], tuple[str, ...]]:
    """The usable servers, and values in them that must not be logged.

    A server that can't be used costs only itself, never the session.
    """
    servers: dict[str, McpServerConfig] = {}
    credentials: list[str] = []
    for server in given:
        config = _config(server, cwd)
        if config is None:
            continue
        servers[_free_name(server.name, servers)] = config
        credentials += server_credentials(config)
    return servers, tuple(credentials)


def _config(server: ClientServer, cwd: Path) -> McpServerConfig | None:
    fields = _fields(server, cwd)
    if fields is None:
        problem = "its transport is not known"
    elif has_reference(orjson.dumps(fields).decode()):
        # A project's file must not be able to have our secrets sent to a server of its choice.
        problem = "a client may not use secret references"
    else:
        try:
            return McpServerConfig.model_validate(fields)
        except ValidationError as error:
            problem = error.errors(include_input=False)[0]["msg"]
    logger.warning("MCP server '%s' is left out: %s", server.name, problem)
    return None


def _fields(server: ClientServer, cwd: Path) -> dict[str, Any] | None:
    if isinstance(server, schema.McpServerStdio):
        return {
            "transport": "stdio",
            "command": server.command,
            "args": tuple(server.args),
            "env": {one.name: one.value for one in server.env},
            "cwd": str(cwd),
        }
    if isinstance(server, schema.HttpMcpServer | schema.SseMcpServer):
        return {
            "transport": server.type,
            "url": server.url,
            "headers": {one.name: one.value for one in server.headers},
        }
    return None


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    wanted = name.strip() or "server"
    return next(
        free
        for free in (wanted, *(f"{wanted}-{number}" for number in range(2, len(taken) + 3)))
        if free not in taken
    )


SESSION_PREFIX = "acp-"
_FIRST_ENTRIES = 4  # the first message is among them


@dataclass(frozen=True, slots=True)
class Found:
    agent: str
    entries: Sequence[Entry]
    media: Mapping[str, bytes]


async def find(store: SessionStore, key: str) -> Found | None:
    """The conversation with this key; each agent has stored its own part of it."""
    parts = [part for part in await store.find_sessions(key) if part.key == key]
    if not parts:
        return None
    entries: list[Entry] = []
    media: dict[str, bytes] = {}
    for part in parts:
        said = await store.history(part.ref, since_compaction=False)
        entries += said
        for attached in (one for entry in said for one in entry.data.get("media", ())):
            data = await store.media(part.ref, str(attached.get("digest", "")))
            if data is not None:
                media[attached["digest"]] = data
    latest = max(parts, key=lambda part: part.updated_ms)
    return Found(latest.agent, sorted(entries, key=lambda entry: entry.at_ms), media)


async def list_page(
    store: SessionStore, cwd: str | None, cursor: str | None
) -> tuple[list[schema.SessionInfo], str | None]:
    """Conversations that began in a directory, or only in `cwd`, and the next cursor."""
    page = await store.list_sessions(cursor=cursor, search=SESSION_PREFIX)
    found: dict[str, schema.SessionInfo] = {}
    for info in page.sessions:
        if not info.key.startswith(SESSION_PREFIX) or info.key in found:
            continue
        first = await store.entries(info.ref, limit=_FIRST_ENTRIES)
        began_in = next((str(entry.data["cwd"]) for entry in first if "cwd" in entry.data), None)
        if began_in is not None and cwd in (None, began_in):
            found[info.key] = schema.SessionInfo(
                session_id=info.key,
                cwd=began_in,
                title=info.title,
                updated_at=timestamp(info.updated_ms),
            )
    return list(found.values()), page.cursor


def timestamp(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z")
