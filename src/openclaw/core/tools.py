"""What a tool is, native or from a server."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from openclaw.core.content import Block, Text
from openclaw.core.questions import Ask, Elicit

if TYPE_CHECKING:
    from openclaw.core.events import Event

JsonObject = Mapping[str, Any]


def json_object(value: object) -> JsonObject:
    """A JSON value that should be an object; anything else counts as empty."""
    return cast("JsonObject", value) if isinstance(value, Mapping) else {}


def json_list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def json_objects(value: object) -> list[dict[str, Any]]:
    return [one for one in json_list(value) if isinstance(one, dict)]


def json_parts(value: object) -> Iterable[Any]:
    """What is directly inside an object or a list."""
    return cast("JsonObject", value).values() if isinstance(value, dict) else json_list(value)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a tool comes from: an MCP server (`server` and its own `tool` name), or ourselves."""

    server: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it.

    `natural_name` is the name that it would have if no other tool had it: rules apply to that one
    as well. It is `contested` if somebody else's tool has a better claim to it. Calls of one answer
    run at the same time, except that those to tools with `in_order` run one after the other.
    """

    name: str
    description: str
    input_schema: JsonObject
    label: str
    origin: Origin = field(default_factory=Origin)
    read_only: bool | None = None
    destructive: bool | None = None
    natural_name: str | None = None
    contested: bool = False
    in_order: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "server": self.origin.server,
            "tool": self.origin.tool,
            "description": self.description,
            "inputSchema": self.input_schema,
            "readOnly": self.read_only,
            "destructive": self.destructive,
        }


@dataclass(frozen=True, slots=True)
class Untrusted:
    """Whose words a result holds; the tool path frames them before the model reads them.

    Text longer than `limit` is cut. `guarded` words are withheld if they look like orders to the
    agent. `note` is ours: it comes after the frame.
    """

    source: str
    sender: str
    mode: Literal["frame", "datamark"] = "frame"
    guarded: bool = False
    limit: int | None = None
    note: str = ""


@dataclass(slots=True)  # never changed, but freezing it would take twice as long for each call
class ToolResult:
    """The result of a call.

    `blocks` go to the model; `untrusted` says that their text is not ours and not framed yet.
    `outputs` are the same things as the tool gave them, unframed, for front ends. `details` never
    enter a prompt. `structured` is the parsed form if the tool gave one, and `origin` says whose
    words they are, for the transcript.
    """

    blocks: tuple[Block, ...]
    outputs: tuple[Block, ...] = ()
    is_error: bool = False
    details: JsonObject = field(default_factory=dict[str, Any])
    untrusted: Untrusted | None = None
    structured: object = None
    origin: JsonObject | None = None


PENDING = "pending"


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A call made before a crash, to be fetched by its `handle`. Without `wait`, it may be `PENDING`."""

    handle: JsonObject
    wait: bool = True


def ignore_progress(message: str) -> None:
    """Ignores progress messages."""


class CallContext(NamedTuple):
    """On whose behalf a tool is called. `progress` takes a message and never blocks.

    `approved` says that a person agreed to this very call. `elicit` asks that person for what the
    tool wants to know, and `ask` whether a call may be made; without them nobody can be asked.
    The policy sets `spec`, and `ask_reason` if a person must agree. `begin` is awaited right
    before the call is made. `call` makes another call within this one, whose id is `within` there;
    its result is for a script, so it is not framed. `turn` is the turn's id. `on_task` gets a handle
    for fetching the result later; with `earlier`, the result is fetched and no call is made.
    """

    agent: str
    session: str
    call_id: str
    progress: Callable[[str], None] = ignore_progress
    approved: bool = False
    elicit: Elicit | None = None
    ask: Ask | None = None
    emit: "Callable[[Event], None]" = lambda event: None
    spec: ToolSpec | None = None
    ask_reason: str | None = None
    begin: Callable[[], Awaitable[None]] | None = None
    call: "Callable[[str, JsonObject], Awaitable[ToolResult]] | None" = None
    within: str = ""
    turn: str = ""
    on_task: Callable[[JsonObject], Awaitable[None]] | None = None
    earlier: EarlierCall | None = None


class ToolSource(Protocol):
    """Tools that may appear and vanish between two steps of a turn."""

    def specs(self) -> Sequence[ToolSpec]:
        """The current tools; the same object for as long as they do not change."""
        ...

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        """Call one. A failure is a result with `is_error`, never an exception."""
        ...


def failed(message: str, *, details: JsonObject | None = None) -> ToolResult:
    return ToolResult(blocks=(Text(message),), is_error=True, details=details or {})
