"""The hub as an MCP service: what a client asks for, found at the servers and passed on."""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from openclaw.agent.questions import TurnQuestions, waiting_line
from openclaw.agent.toolpath.search import ToolSearch, described, needs_of
from openclaw.config.schema import HubConfig
from openclaw.core.clock import Clock, random_id
from openclaw.core.content import text_of
from openclaw.core.errors import NotFound
from openclaw.core.questions import Answer, Ask, Question
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSource, ToolSpec, failed
from openclaw.mcp import names
from openclaw.mcp.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError
from openclaw.mcp.server import Acknowledge, Call, Command, ListChanged, Offer
from openclaw.mcp_client.bridge.results import render_failure
from openclaw.mcp_client.bridge.tool_source import CallableTool, read_resource
from openclaw.mcp_client.errors import CallFailed, RemoteError
from openclaw.mcp_client.lifecycle.managed_server import ServerUse
from openclaw.mcp_client.lifecycle.manager import McpManager
from openclaw.mcp_hub import catalogue as catalogues
from openclaw.mcp_hub.catalogue import Catalogue, CatalogueCache
from openclaw.mcp_hub.client import HubCall, HubClient, counted, label_of
from openclaw.mcp_hub.offer import CALL_TOOL, DESCRIBE_TOOL, OFFER, SEARCH_TOOLS, SEARCHING
from openclaw.mcp_hub.progress import passing_on_progress
from openclaw.mcp_hub.raw_results import Cleaner, text_blocks
from openclaw.mcp_hub.rounds import AskClient, Rounds
from openclaw.mcp_server.conversation import Conversation, Peer
from openclaw.mcp_server.order_tool import OWNER, Source
from openclaw.mcp_server.orders import asking, client_roots, elicitation, root_directory
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.records import SessionRef
from openclaw.sessions.store import SessionStore
from openclaw.sessions.waiting_questions import HUB

logger = logging.getLogger(__name__)

_FIRST_TOOLS_SECONDS, _NEW_SERVER_SECONDS = 20.0, 10.0
_MANY_TOOLS = 40  # from which a client gets the search instead of all of them
_SETTLING_SECONDS = 0.2  # a server that starts changes several lists at once
_KINDS = ("tools", "prompts", "resources")
_NEEDS_SESSION = (
    "the server '{}' is started for each client (perClient), so it needs a connection that lasts: "
    "use stdio, or a revision before 2026-07-28"
)


@dataclass(frozen=True, slots=True)
class HubBackend:
    """What the hub needs from the program it runs in.

    `permitted` adds policy, hooks, approval and audit to a source of tools for this agent; it is
    asked again when `rules` returns another object.
    """

    manager: McpManager
    agent: Callable[[str | None], str]
    settings: Callable[[], HubConfig]
    rules: Callable[[], object]
    permitted: Callable[[ToolSource, str], ToolSource]
    store: Callable[[], Awaitable[SessionStore]]
    question_ms: Callable[[], int]
    redactor: Redactor
    clock: Clock
    finder: ToolSearch
    refresh: Callable[[], Awaitable[None]]


Tell = Callable[[Command], Awaitable[None]]


class HubService:
    """Serves any number of clients; each conversation is a client of its own."""

    def __init__(self, backend: HubBackend, tasks: TaskGroup) -> None:
        self._backend = backend
        self._clients: dict[Conversation, HubClient] = {}
        self._paths: dict[HubClient, tuple[object, ToolSource]] = {}
        self._catalogues = CatalogueCache(backend.manager.uses_of)
        self._rounds = Rounds(tasks)
        self._changed = anyio.Event()
        self.redactor = backend.redactor

    @property
    def offer(self) -> Offer:
        return OFFER

    def input_schema(self, tool: str) -> dict[str, Any] | None:
        for catalogue in self._catalogues:
            bound = catalogue.tool(tool)
            if bound is not None:
                return dict(bound.spec.input_schema)
        return None

    async def watch(self, tell: Tell) -> None:
        """Tell clients when the lists may have changed."""
        with self._backend.manager.watched(self._on_change):
            while True:
                await self._changed.wait()
                await anyio.sleep(_SETTLING_SECONDS)
                self._changed = anyio.Event()
                for kind in _KINDS:
                    await tell(ListChanged(kind))

    def _on_change(self) -> None:
        self._catalogues.clear()
        self._changed.set()

    def end(self, conversation: Conversation) -> None:
        """The client has gone."""
        client = self._clients.pop(conversation, None)
        if client is not None:
            self._paths.pop(client, None)
            self._backend.manager.end_session(client.scope)
            self._backend.manager.forget_client(client.scope)

    @property
    def conversations(self) -> list[Conversation]:
        return list(self._clients)

    @property
    def open_calls(self) -> list[HubCall]:
        return [call for client in self._clients.values() for call in client.calls.values()]

    def catalogue(self, client: HubClient) -> Catalogue:
        return self._catalogues.of(client.agent, client.scope)

    # ---- requests

    async def carry_out(self, call: Call, peer: Peer) -> dict[str, Any]:
        await self._backend.refresh()
        client = self._client(call, peer)
        match call.method:
            case names.LISTEN:
                return await self._listen(call, peer)
            case names.TOOLS_CALL:
                return await self._call_tool(call, peer, client)
            case names.COMPLETE:
                return await self._complete(call, client)
            case _:
                await self._ready(client)
        match call.method:
            case names.TOOLS_LIST:
                return {"tools": self._listed_tools(client)}
            case names.PROMPTS_LIST:
                listed = self.catalogue(client).prompts
                return {
                    "prompts": [catalogues.prompt_json(name, p) for name, (_, p) in listed.items()]
                }
            case names.RESOURCES_LIST:
                listed = self._readable(client).resources
                return {
                    "resources": [catalogues.resource_json(u, r) for u, (_, r) in listed.items()]
                }
            case names.TEMPLATES_LIST:
                templates = self._readable(client).templates
                return {
                    "resourceTemplates": [catalogues.template_json(one) for _, one in templates]
                }
            case names.PROMPTS_GET:
                return await self._get_prompt(call, peer, client)
            case _:
                return await self._read(call, peer, client)

    def _client(self, call: Call, peer: Peer) -> HubClient:
        client = self._clients.get(peer.conversation)
        if client is None:
            source: Source = peer.source
            agent = self._backend.agent(source.agent_id)
            label = self.redactor.redact(source.client or label_of(call.client))
            client = HubClient(agent, source.owner, self.redactor, label)
            self._clients[peer.conversation] = client
        return client

    async def _ready(self, client: HubClient) -> None:
        await self._backend.manager.wait_for_tools(
            client.agent, client.scope, timeout=_FIRST_TOOLS_SECONDS, newcomer=_NEW_SERVER_SECONDS
        )

    def _path(self, client: HubClient) -> ToolSource:
        """The client's tools behind policy and the rest, as they are configured now."""
        rules = self._backend.rules()
        known = self._paths.get(client)
        if known is None or known[0] is not rules:
            path = self._backend.permitted(HubTools(self, client), client.agent)
            known = self._paths[client] = rules, path
        return known[1]

    def _usable(self, client: HubClient) -> list[CallableTool]:
        tools = self.catalogue(client).tools
        return [tools[spec.name] for spec in self._path(client).specs() if spec.name in tools]

    def _readable(self, client: HubClient) -> Catalogue:
        """The catalogue without the resources of servers that policy keeps from being read."""
        catalogue = self.catalogue(client)
        usable = {spec.name for spec in self._path(client).specs()}
        denied = {s for s, one in catalogue.readers.items() if one.spec.name not in usable}
        return catalogue.without_resources_of(denied) if denied else catalogue

    def _searches(self, tools: Sequence[CallableTool]) -> bool:
        wanted = self._backend.settings().tools
        return wanted == "search" or (wanted == "auto" and len(tools) > _MANY_TOOLS)

    def _listed_tools(self, client: HubClient) -> list[dict[str, Any]]:
        tools = self._usable(client)
        if not self._searches(tools):
            return [catalogues.tool_json(one) for one in tools]
        by_name = {one.spec.name: one for one in tools}
        shown = [by_name[name] for name in client.shown if name in by_name]
        return [*SEARCHING, *(catalogues.tool_json(one) for one in shown)]

    # ---- tools

    async def _call_tool(self, call: Call, peer: Peer, client: HubClient) -> dict[str, Any]:
        name: str = call.params["name"]
        arguments: dict[str, Any] = call.params.get("arguments") or {}
        if self.catalogue(client).tool(name) is None:
            await self._ready(client)
        tools = self._usable(client)
        # Also if they are not listed now: a server may have gone since the client saw them.
        if name == SEARCH_TOOLS:
            return await self._search(client, peer, tools, arguments)
        if name == DESCRIBE_TOOL:
            return self._describe(tools, arguments)
        if name == CALL_TOOL:
            name, arguments = str(arguments.get("name")), arguments.get("arguments") or {}
        if self.catalogue(client).tool(name) is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name}")
        return await self._in_rounds(call, peer, client, name, arguments)

    async def _search(
        self,
        client: HubClient,
        peer: Peer,
        tools: Sequence[CallableTool],
        arguments: dict[str, Any],
    ) -> dict[str, Any]:
        try:
            needs, limit = needs_of(arguments)
        except (TypeError, ValueError):
            needs, limit = [], 0
        if not needs:
            return _text("Say in `query` what the tool should do.", is_error=True)
        specs = tuple(one.spec for one in tools)
        (found, *_) = await self._backend.finder.find(specs, needs[:1], limit)
        if not found.specs:
            return _text("No tool fits. Try other words.")
        fresh = [spec.name for spec in found.specs if spec.name not in client.shown]
        client.shown.update(dict.fromkeys(fresh))
        if fresh:
            await peer.send(ListChanged("tools"))
        return _text("\n".join(described(found.specs)).strip())

    def _describe(self, tools: Sequence[CallableTool], arguments: dict[str, Any]) -> dict[str, Any]:
        name = arguments.get("name")
        tool = next((one for one in tools if one.spec.name == name), None)
        if tool is None:
            return _text(f"There is no tool {name}; {SEARCH_TOOLS} finds them.", is_error=True)
        declared = catalogues.tool_json(tool)
        return {**_text(json.dumps(declared, ensure_ascii=False)), "structuredContent": declared}

    async def _in_rounds(
        self, call: Call, peer: Peer, client: HubClient, name: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Make the call; a client that cannot be asked by request is asked in results."""
        asks = call.client.can("elicitation") or call.client.can("sampling")
        if call.revision.server_requests or not asks:
            return await self._carried_out(call, peer, client, name, arguments, peer.ask)
        state = call.request_state
        if state is not None:
            return await self._rounds.resume(client.owner, state, call.input_responses)

        async def work(ask: AskClient) -> dict[str, Any]:
            return await self._carried_out(call, peer, client, name, arguments, ask)

        return await self._rounds.begin(client.owner, work)

    async def _carried_out(
        self,
        call: Call,
        peer: Peer,
        client: HubClient,
        name: str,
        arguments: dict[str, Any],
        ask: AskClient,
    ) -> dict[str, Any]:
        await self._give_own_server(call, peer.source, client, name, ask)
        may_answer = peer.source.principal.may_be_asked and call.client.can("elicitation")
        put: Ask | None = asking(elicitation(ask)) if may_answer else None
        asked = _Questions(self._backend, client, put)
        async with passing_on_progress(peer) as report:
            made = HubCall(ask, call.client, report)
            client.calls[call_id := random_id()] = made
            context = CallContext(
                client.agent, client.session, call_id, elicit=client.elicit, ask=asked.ask
            )
            try:
                result = await self._path(client).call(name, arguments, context)
            finally:
                del client.calls[call_id]
        if made.error is not None:
            raise made.error
        if made.result is None:  # it was not made, or gave no result
            words = await asked.waiting() or text_of(result.blocks)
            return _text(self.redactor.redact(words, shapes=False), is_error=True)
        bound = self.catalogue(client).tool(name)
        framed = bound.how if bound is not None and self._backend.settings().frame else None
        return dict(await Cleaner(self.redactor, framed).clean(made.result))

    async def ask_server(
        self, client: HubClient, bound: CallableTool, arguments: JsonObject, context: CallContext
    ) -> JsonObject:
        """The server's own answer; raises `CallFailed`."""
        bound.server.clients[client.scope] = client.label
        if bound.tool.ours:
            return await read_resource(bound, arguments, context)
        report = client.calls[context.call_id].report
        with bound.server.asking.on_behalf(client.elicit, client.sample):
            return await bound.server.connection.call_tool(
                bound.tool.name, arguments, on_progress=report
            )

    async def _give_own_server(
        self, call: Call, source: Source, client: HubClient, name: str, ask: AskClient
    ) -> None:
        """Start the tool's server for this client alone, if it must not be shared."""
        bound = self.catalogue(client).tool(name)
        if bound is None or bound.server.name in client.own_servers:
            return
        server, manager = bound.server.name, self._backend.manager
        config = manager.uses_of(client.agent, client.scope)[server].config
        # Roots decide what a confined server may reach, so only programs of this account have a say.
        roots_matter = (
            bound.server.connection.depends_on_roots
            and config.roots is None
            and call.client.can("roots")
            and source.owner == OWNER.name
        )
        if not (config.per_client or roots_matter):
            return
        if call.revision.stateless and not source.local:
            if config.per_client:
                raise RpcError(INVALID_PARAMS, _NEEDS_SESSION.format(server))
            return
        roots: list[Path] | None = None
        if roots_matter:
            named = [root_directory(uri) for uri in await client_roots(ask)]
            roots = [path for path in named if path is not None] or None
        if config.per_client or roots:
            client.own_servers.add(server)
            manager.add(server, config, client.scope, client.agent, roots=roots)
            await manager.wait_for_tools(
                client.agent, client.scope, servers={server}, timeout=_FIRST_TOOLS_SECONDS
            )

    # ---- resources and prompts

    async def _read(self, call: Call, peer: Peer, client: HubClient) -> dict[str, Any]:
        catalogue = self._readable(client)
        try:
            use, uri = catalogue.owner_of(call.params["uri"])
        except NotFound as error:
            raise RpcError(RESOURCE_NOT_FOUND, error.message) from None
        reader = catalogue.readers[use.server.name].spec.name
        return await self._carried_out(call, peer, client, reader, {"uri": uri}, peer.ask)

    async def _get_prompt(self, call: Call, peer: Peer, client: HubClient) -> dict[str, Any]:
        known = self.catalogue(client).prompts.get(call.params["name"])
        if known is None:
            raise RpcError(INVALID_PARAMS, f"Unknown prompt: {call.params['name']}")
        use, prompt = known
        use.server.clients[client.scope] = client.label
        made = HubCall(peer.ask, call.client)
        with counted(client, use.server.name, made):
            raw = await _answer_of(
                use,
                client,
                lambda: use.server.connection.get_prompt(
                    prompt.name, call.params.get("arguments") or {}
                ),
            )
        framed = use.rendering(prompt.name) if self._backend.settings().frame else None
        return dict(await Cleaner(self.redactor, framed).clean(raw))

    async def _complete(self, call: Call, client: HubClient) -> dict[str, Any]:
        ref, catalogue = dict(call.params["ref"]), self.catalogue(client)
        use: ServerUse | None = None
        if ref.get("type") == "ref/prompt" and (known := catalogue.prompts.get(str(ref["name"]))):
            use, prompt = known
            ref["name"] = prompt.name
        elif ref.get("type") == "ref/resource":
            use = catalogue.template_owner(str(ref["uri"]))
        if use is None:
            raise RpcError(INVALID_PARAMS, "there is no such prompt or resource template")
        params = {key: call.params[key] for key in ("argument", "context") if key in call.params}
        try:
            values = await use.server.connection.complete({"ref": ref, **params})
        except CallFailed:
            values = []
        clean = [self.redactor.redact(value, shapes=False) for value in values]
        return {"completion": {"values": clean, "total": len(clean), "hasMore": False}}

    async def _listen(self, call: Call, peer: Peer) -> dict[str, Any]:
        wanted = call.params["notifications"]
        keys = [f"{kind}ListChanged" for kind in _KINDS]
        await peer.send(Acknowledge(call.id, {key: True for key in keys if wanted.get(key)}))
        await anyio.sleep_forever()
        return {}


class HubTools:
    """A client's tools as a source whose results stay as the servers gave them.

    They are left in the `HubCall`; what the tool path gets is for its record.
    """

    def __init__(self, service: HubService, client: HubClient) -> None:
        self._service, self._client = service, client

    def specs(self) -> Sequence[ToolSpec]:
        return self._service.catalogue(self._client).specs

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        bound = self._service.catalogue(self._client).callable(name)
        if bound is None:
            return failed(f"There is no tool {name}.")
        call = self._client.calls[context.call_id]
        try:
            with counted(self._client, bound.server.name, call):
                raw = await self._service.ask_server(self._client, bound, arguments, context)
        except RemoteError as error:
            words = self._service.redactor.redact(error.message, shapes=False)
            call.error = RpcError(error.code, words)
            return failed(words)
        except CallFailed as error:
            return render_failure(error, bound.how)
        call.result = raw
        blocks = text_blocks(raw)
        return ToolResult(blocks, blocks, bool(raw.get("isError")))


class _Questions:
    """Asks about one call; what nobody can answer now waits for `openclaw questions`."""

    def __init__(self, backend: HubBackend, client: HubClient, put: Ask | None) -> None:
        self._backend, self._client, self._put = backend, client, put
        self._opened: TurnQuestions | None = None

    async def ask(self, question: Question) -> Answer:
        if self._opened is None:  # most calls ask nothing
            backend, client = self._backend, self._client
            session = SessionRef(client.session, client.agent, client.session)
            store = await backend.store()
            self._opened = TurnQuestions(store, session, backend.clock, backend.question_ms())
            await self._opened.load()
        return await self._opened.asking(self._put)(question)

    async def waiting(self) -> str:
        """What to tell the client about questions that wait."""
        if self._opened is None:
            return ""
        new = await self._opened.store_new("", HUB)
        waiting = [*self._opened.repeated, *([] if new is None else [new])]
        return "\n\n".join(map(waiting_line, waiting))


async def _answer_of(
    use: ServerUse, client: HubClient, ask: Callable[[], Awaitable[JsonObject]]
) -> JsonObject:
    try:
        with use.server.asking.on_behalf(client.elicit, client.sample):
            return await ask()
    except RemoteError as error:
        words = client.redactor.redact(error.message, shapes=False)
        raise RpcError(error.code, words) from None
    except CallFailed as error:
        words = client.redactor.redact(f"{use.server.name}: {error.message}", shapes=False)
        raise RpcError(INTERNAL_ERROR, words) from None


def _text(text: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}
