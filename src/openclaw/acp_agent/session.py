"""One session of a client: its directory, its servers, and its turns."""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
from acp import RequestError, schema
from acp.interfaces import Client

from openclaw.acp_agent.updates import (
    ContentBlock,
    Translator,
    Update,
    call_content,
    kind_of,
    locations,
    put_form,
)
from openclaw.agent.port import Agent, AgentSettings, MessageContext, Reply, TurnListener
from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.sensitive import client_server, server_credentials
from openclaw.core.clock import timestamp
from openclaw.core.content import InboundMedia, Media
from openclaw.core.errors import Cancelled, InvalidRequest
from openclaw.core.questions import ALWAYS, DECLINED, NO, SESSION, Answer, Choice, Question
from openclaw.media import kinds
from openclaw.media.intake import Intake
from openclaw.media.stored_files import OrderFiles, order_files
from openclaw.media.transcription import Transcriber
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.records import Entry, EntryKind, NewEntry
from openclaw.sessions.store import SessionStore
from openclaw.sessions.task_groups import helper_tasks

_NAME_LENGTH = 120


async def receive(
    blocks: Sequence[ContentBlock], files: OrderFiles, transcriber: Transcriber
) -> tuple[str, tuple[InboundMedia, ...]]:
    """A prompt's words and attachments; `InvalidRequest` names the block that can't be accepted."""
    intake = Intake(transcriber, lambda: files)
    media: list[InboundMedia] = []
    text, mentioned = "", False
    for index, block in enumerate(blocks):
        words, mention = _words(block)
        if words:
            text += _gap(text, words, inline=mention or mentioned) + words
            mentioned = mention
        stored = await _stored(block, intake, f"prompt[{index}]")
        if stored is not None:
            media.append(await intake.read(stored))
    if not text.strip() and not media:
        raise InvalidRequest("is empty", field="prompt")
    return text, tuple(media)


def _words(block: ContentBlock) -> tuple[str, bool]:
    """What a block adds to the text, and whether that is a mention."""
    match block:
        case schema.TextContentBlock():
            return block.text, False
        case schema.ResourceContentBlock():
            return f"[@{block.name or _name_of(block.uri)}]({block.uri})", True
        case schema.EmbeddedResourceContentBlock():
            uri = block.resource.uri
            return f"[@{_name_of(uri)}]({uri})", True
        case _:
            return "", False


def _gap(before: str, after: str, *, inline: bool) -> str:
    """What separates two blocks' words; an editor's mentions are inside a sentence."""
    if not before or before[-1].isspace() or after[0].isspace():
        return ""
    if not inline:
        return "\n"
    return "" if after[0] in ".,;:!?)" else " "


async def _stored(block: ContentBlock, intake: Intake, where: str) -> Media | None:
    allowed: Sequence[str] | None = None
    match block:
        case schema.EmbeddedResourceContentBlock(
            resource=schema.TextResourceContents() as resource
        ):
            # The MIME type of source code is anything; what matters is that it is text.
            return await intake.store_text(resource.text, field=where, name=_name_of(resource.uri))
        case schema.EmbeddedResourceContentBlock(
            resource=schema.BlobResourceContents() as resource
        ):
            data, declared, name = resource.blob, resource.mime_type, _name_of(resource.uri)
        case schema.ImageContentBlock():
            data, declared, name = block.data, block.mime_type, _name_of(block.uri or "")
            allowed = kinds.IMAGE_TYPES
        case schema.AudioContentBlock():
            data, declared, name = block.data, block.mime_type, ""
            allowed = kinds.AUDIO_TYPES
        case _:
            return None
    declared = declared or "application/octet-stream"
    return await intake.store(data, declared, allowed, field=where, name=name)


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
    titled: bool = False  # whether the client knows the conversation's title
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
    forms: schema.ElicitationCapabilities | None,
) -> Reply | None:
    """Answer a prompt, with updates on the way; None if it was cancelled.

    `forms` are the questions of MCP servers that the client can show. Every update has been sent
    when this returns.
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


@dataclass
class _Turn:
    session: Session
    agent: Agent
    settings: AgentSettings
    client: Client
    forms: schema.ElicitationCapabilities | None

    def __post_init__(self) -> None:
        self._translator = Translator(self.settings.redactor, self.session.cwd)
        # Unbounded: an event must never wait, and a turn's events are bounded by its limits.
        self._queue, self._queued = anyio.create_memory_object_stream[Update | anyio.Event](
            math.inf
        )

    async def run(self, blocks: Sequence[ContentBlock]) -> Reply:
        session = self.session
        files = session.files(self.settings.temp_root)
        text, media = await receive(blocks, files, self.settings.transcriber)
        context = MessageContext(
            text=text,
            session_key=session.id,
            agent_id=session.agent_id,
            media=media,
            origin=ORIGIN,
            prompt_calls=True,
            workspace=session.cwd,
            model=session.model,
        )
        listener = TurnListener(
            on_event=lambda event: self._put(self._translator.updates(event)),
            ask=self._ask,
        )
        with self._queue, self._queued:
            async with helper_tasks() as tasks:
                tasks.start_soon(self._send_all, name=f"updates of {session.id}")
                try:
                    reply = await self.agent.reply(context, listener)
                    self._put(self._translator.closing(reply))
                finally:
                    await self._all_shown()
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
                    await self.client.session_update(self.session.id, item)
                except ConnectionError:
                    gone = True  # the turn itself ends with the connection

    async def _ask(self, question: Question) -> Answer:
        if question.form is not None and self.forms is None:
            return DECLINED
        async with self.session.asking:
            if question.form is None:
                self._put(self._translator.asking(question))
            await self._all_shown()
            if question.form is None or self.forms is None:
                return Answer(await self._choice(question))
            return await put_form(self.client, self.forms, self.session.id, question.form)

    async def _all_shown(self) -> None:
        shown = anyio.Event()
        self._queue.send_nowait(shown)
        await shown.wait()

    async def _choice(self, question: Question) -> str:
        asked = question.call
        call = schema.ToolCallUpdate(
            tool_call_id=asked.id,
            title=question.title,
            kind=kind_of(asked.name),
            status="pending",
            content=call_content(question),
            locations=locations(asked.name, asked.arguments, self.session.cwd),
            raw_input=dict(asked.arguments),
        )
        options = [_option(choice) for choice in question.choices]
        try:
            answer = await self.client.request_permission(self.session.id, call, options)
        except (RequestError, ConnectionError, ValueError):
            logger.warning("the client did not say whether %s may be used", asked.name)
            return NO
        return answer.outcome.option_id if answer.outcome.outcome == "selected" else NO


def _option(choice: Choice) -> schema.PermissionOption:
    lasting = choice.id in (SESSION, ALWAYS)
    allows = "allow_always" if lasting else "allow_once"
    kind = allows if choice.allows else "reject_once"
    return schema.PermissionOption(option_id=choice.id, name=choice.label, kind=kind)


ClientServer = (
    schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio
)


def session_servers(
    requested: Iterable[ClientServer], cwd: Path, redactor: Redactor
) -> Mapping[str, McpServerConfig]:
    """The usable servers; the redactor learns their credentials.

    A server that can't be used is left out, and does not fail the session.
    """
    servers: dict[str, McpServerConfig] = {}
    for server in requested:
        try:
            config = _config(server, cwd)
        except InvalidRequest as error:
            logger.warning("MCP server '%s' is left out: %s", server.name, error.message)
            continue
        servers[_free_name(server.name, servers)] = config
        for value in server_credentials(config):
            redactor.register(value)
    return servers


def _config(server: ClientServer, cwd: Path) -> McpServerConfig:
    fields: dict[str, Any]
    if isinstance(server, schema.McpServerStdio):
        variables = {pair.name: pair.value for pair in server.env}
        fields = {"transport": "stdio", "command": server.command, "args": tuple(server.args)}
        fields |= {"env": variables, "cwd": str(cwd)}
    elif isinstance(server, schema.HttpMcpServer | schema.SseMcpServer):
        headers = {pair.name: pair.value for pair in server.headers}
        fields = {"transport": server.type, "url": server.url, "headers": headers}
    else:
        raise InvalidRequest("its transport is not known")
    return client_server(fields)


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    wanted = name.strip() or "server"
    numbered = (f"{wanted}-{number}" for number in count(2))
    return next(free for free in chain([wanted], numbered) if free not in taken)


SESSION_PREFIX = "acp-"
_FIRST_ENTRIES = 8  # the first message is among them
_NOTE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class FoundSession:
    agent: str
    entries: Sequence[Entry]
    media: Mapping[str, bytes]


async def find(store: SessionStore, key: str) -> FoundSession | None:
    """The conversation with this key; each agent has stored its own part of it."""
    parts = [part for part in await store.find_sessions(key) if part.key == key]
    if not parts:
        return None
    entries: list[Entry] = []
    media: dict[str, bytes] = {}
    for part in parts:
        history = await store.history(part.ref, since_compaction=False)
        entries += history
        for attached in (record for entry in history for record in entry.data.get("media", ())):
            data = await store.media(part.ref, str(attached.get("digest", "")))
            if data is not None:
                media[attached["digest"]] = data
    latest = max(parts, key=lambda part: part.updated_ms)
    return FoundSession(latest.agent, sorted(entries, key=lambda entry: entry.at_ms), media)


async def note_agent(store: SessionStore, session: Session) -> None:
    """Make this agent's part of the conversation the latest, which says whose turn is next."""
    part = await store.open_session(session.agent_id, session.id)
    with anyio.move_on_after(_NOTE_SECONDS):  # a turn that holds it will make it the latest
        async with store.acquire_lane(part) as lane:
            await lane.append(None, [NewEntry(EntryKind.NOTICE, {})])


async def list_page(
    store: SessionStore, cwd: str | None, cursor: str | None
) -> tuple[list[schema.SessionInfo], str | None]:
    """Conversations that began in a directory, or only in `cwd`, and the next cursor."""
    page = await store.list_sessions(cursor=cursor, search=SESSION_PREFIX)
    listed: dict[str, schema.SessionInfo] = {}
    for info in page.sessions:
        if not info.key.startswith(SESSION_PREFIX) or info.key in listed:
            continue
        first = await store.entries(info.ref, limit=_FIRST_ENTRIES)
        began_in = next((str(entry.data["cwd"]) for entry in first if "cwd" in entry.data), None)
        if began_in is not None and cwd in (None, began_in):
            listed[info.key] = schema.SessionInfo(
                session_id=info.key,
                cwd=began_in,
                title=info.title,
                updated_at=timestamp(info.updated_ms),
            )
    return list(listed.values()), page.cursor
