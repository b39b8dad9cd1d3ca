"""One client of the hub: what it was shown, what it can be asked, and which servers are its own."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from openclaw.content.labels import single_line
from openclaw.core.clock import random_id
from openclaw.core.questions import DECLINED, elicitation_result
from openclaw.core.tools import JsonObject
from openclaw.mcp import names
from openclaw.mcp.jsonrpc import INVALID_REQUEST, RpcError
from openclaw.mcp.server_events import Client
from openclaw.mcp_client.session.caller import OnProgress
from openclaw.mcp_hub.rounds import AskClient
from openclaw.secrets.redactor import Redactor, redacted_tree

_NAME = 80


@dataclass(eq=False)
class HubCall:
    """A call that is being made; `ask` puts a request to the client that made it."""

    ask: AskClient
    client: Client
    report: OnProgress | None = None
    result: JsonObject | None = None
    error: RpcError | None = None


def label_of(client: Client) -> str:
    """A client's name and version as it gave them, in one line."""
    words = " ".join(str(client.info.get(key) or "") for key in ("name", "version"))
    return single_line(words.strip(), _NAME) or "a client"


@dataclass(eq=False)
class HubClient:
    """`elicit` and `sample` are bound to the client, so that a server's questions find it."""

    agent: str
    owner: str
    redactor: Redactor
    label: str
    scope: str = field(default_factory=lambda: f"hub-{random_id()}")
    shown: dict[str, None] = field(default_factory=dict[str, None])
    calls: dict[str, HubCall] = field(default_factory=dict[str, HubCall])
    own_servers: set[str] = field(default_factory=set[str])
    calls_by_server: dict[str, list[HubCall]] = field(default_factory=dict[str, list[HubCall]])

    @property
    def session(self) -> str:
        """The session of its approvals and waiting questions: one for each program."""
        return f"hub:{self.label}" if self.owner == "owner" else f"hub:{self.owner}:{self.label}"

    async def elicit(self, server: str, params: JsonObject) -> JsonObject:
        call = self._call_of(server)
        if call is None or not call.client.can("elicitation"):
            return elicitation_result(DECLINED)
        try:
            return await call.ask(names.ELICIT, dict(params))
        except RpcError:
            return elicitation_result(DECLINED)

    async def sample(self, server: str, params: JsonObject) -> JsonObject:
        call = self._call_of(server)
        if call is None or not call.client.can("sampling"):
            raise RpcError(INVALID_REQUEST, "sampling is unavailable here")
        clean = redacted_tree(dict(params), self.redactor.redact)
        assert isinstance(clean, dict)
        return await call.ask(names.SAMPLING, clean)

    def _call_of(self, server: str) -> HubCall | None:
        """The latest call of this server: its question is most likely about that one."""
        calls = self.calls_by_server.get(server)
        return calls[-1] if calls else None


@contextmanager
def counted(client: HubClient, server: str, call: HubCall) -> Generator[None]:
    """While this lasts, the client has this call open at the server."""
    calls = client.calls_by_server.setdefault(server, [])
    calls.append(call)
    try:
        yield
    finally:
        calls.remove(call)
