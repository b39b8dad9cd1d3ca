"""What a server's connection is given, and what it returns: offers, events and commands.

Most are named tuples: as fixed as frozen dataclasses, but a client that waits for the handshake waits
much less for them to be defined.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from openclaw.mcp import jsonrpc
from openclaw.mcp.jsonrpc import NOTHING, ErrorData, Id, JsonObject, Message
from openclaw.mcp.revisions import REVISIONS, Revision, TaskSupport
from openclaw.mcp.tasks import Task


class Offer(NamedTuple):
    """What a server has. `capabilities` may name everything: each revision gets what it knows.

    `methods` are those of extensions other than tasks.
    """

    name: str
    version: str
    capabilities: JsonObject
    instructions: str | None = None
    info: Mapping[str, Any] = NOTHING
    methods: frozenset[str] = frozenset()
    revisions: tuple[Revision, ...] = tuple(REVISIONS.values())

    @property
    def server_info(self) -> JsonObject:
        return {"name": self.name, "version": self.version, **self.info}

    def has(self, *path: str) -> bool:
        """Whether it offers this, such as ("resources", "subscribe")."""
        inside: Any = self.capabilities
        for key in path:
            inside = inside.get(key)
            if inside is None or inside is False:
                return False
        return True

    def at(self, revision: Revision) -> JsonObject:
        """The capabilities that clients of this revision know."""
        unknown = {
            "completions": not revision.completions_capability,
            "extensions": not revision.stateless,
            "tasks": revision.tasks is not TaskSupport.CORE,
        }
        return {key: value for key, value in self.capabilities.items() if not unknown.get(key)}


class Client(NamedTuple):
    """What a client says about itself."""

    info: Mapping[str, Any] = NOTHING
    capabilities: Mapping[str, Any] = NOTHING

    def can(self, *path: str) -> bool:
        """Whether it declares this capability, such as ("sampling", "tools")."""
        inside: Any = self.capabilities
        for key in path:
            inside = cast("JsonObject", inside).get(key) if isinstance(inside, dict) else None
        return isinstance(inside, dict)


# ---- events: what comes out of `receive`


class Outgoing(NamedTuple):
    """To be written: one message, or several as a batch.

    Over HTTP it belongs to the stream of the request `call`; if that is None, to the client's own
    stream. `is_final` says that nothing more follows for that request, or for its batch.
    """

    messages: tuple[Message, ...]
    call: Id | None = None
    is_final: bool = False
    is_batch: bool = False

    def encode(self) -> bytes:
        if self.is_batch:
            return jsonrpc.encode_batch(list(self.messages))
        return jsonrpc.encode(self.messages[0])


class Call(NamedTuple):
    """A request to be carried out."""

    id: Id
    method: str
    params: JsonObject
    revision: Revision
    client: Client

    @property
    def meta(self) -> JsonObject:
        return self.params.get("_meta") or {}

    @property
    def progress_token(self) -> Id | None:
        return self.meta.get("progressToken")

    @property
    def input_responses(self) -> JsonObject:
        return (self.params.get("inputResponses") or {}) if self.revision.result_types else {}

    @property
    def request_state(self) -> str | None:
        return self.params.get("requestState") if self.revision.result_types else None

    @property
    def core_task(self) -> JsonObject | None:
        """What a client of 2025-11-25 says of the task that it wants this to become."""
        return self.params.get("task") if self.revision.tasks is TaskSupport.CORE else None


class Cancelled(NamedTuple):
    """The client does not want this call's answer any more."""

    id: Id


class Answered(NamedTuple):
    """The client's answer to a request of ours."""

    id: Id
    result: JsonObject | None = None
    error: ErrorData | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """The client has ended the handshake."""


class Notified(NamedTuple):
    """A notification that does not concern the connection."""

    method: str
    params: JsonObject


Event = Outgoing | Call | Cancelled | Answered | Ready | Notified


# ---- commands: what goes into `send`


class Answer(NamedTuple):
    id: Id
    result: JsonObject


class Refuse(NamedTuple):
    id: Id
    error: ErrorData


class Report(NamedTuple):
    """Progress, which is sent if the client asked for it and if it grows."""

    id: Id
    progress: float
    total: float | None = None
    message: str | None = None


class Log(NamedTuple):
    """A log message, which is sent if the client wants its level."""

    level: str
    data: Any
    logger: str | None = None
    call: Id | None = None


class Ask(NamedTuple):
    """A request to the client; the answer is an event. `deadline` is on the caller's clock."""

    method: str
    params: JsonObject | None = None
    call: Id | None = None
    deadline: float | None = None


class Withdraw(NamedTuple):
    """Nobody waits for the answer to this request of ours any more."""

    id: Id
    reason: str = ""


class Acknowledge(NamedTuple):
    """Begin a subscription, for the notifications that are granted."""

    id: Id
    granted: JsonObject


class ListChanged(NamedTuple):
    """The list of `tools`, `prompts` or `resources` is another one."""

    kind: str


class ResourceUpdated(NamedTuple):
    uri: str


class TaskChanged(NamedTuple):
    task: Task


class Notify(NamedTuple):
    """Any other notification."""

    method: str
    params: JsonObject | None = None
    call: Id | None = None


Command = (
    Answer
    | Refuse
    | Report
    | Log
    | Ask
    | Withdraw
    | Acknowledge
    | ListChanged
    | ResourceUpdated
    | TaskChanged
    | Notify
)
