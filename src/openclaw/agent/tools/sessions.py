"""`sessions_list` and `session_history`: what the agent itself was told and did before."""

from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from openclaw.agent.tools.base import FLAG, WHOLE, Arguments, FunctionTool, said, schema
from openclaw.content.frame import frame
from openclaw.content.labels import sanitise_label
from openclaw.core.errors import ToolFailure
from openclaw.core.tools import CallContext, ToolResult, ToolSpec
from openclaw.sessions.model import MESSAGE_KINDS, Entry, EntryKind, SessionInfo
from openclaw.sessions.store import SessionStore

MAX_SESSIONS = 100
MAX_ENTRIES = 200
MAX_ENTRY_CHARS = 4000
MAX_CHARS = 48_000

_LIST = ToolSpec(
    name="sessions_list",
    description="List stored conversations that you may read, the latest first.",
    input_schema=schema(
        [], search="In key or title.", limit={**WHOLE, "description": "Default 20."}
    ),
    label="List sessions",
    read_only=True,
    destructive=False,
)
_HISTORY = ToolSpec(
    name="session_history",
    description="Read this conversation from its beginning, or one from sessions_list.",
    input_schema=schema(
        ["key"],
        key="",
        limit={**WHOLE, "description": "Last entries; default 40."},
        tools={**FLAG, "description": "With tool calls."},
    ),
    label="Session history",
    read_only=True,
    destructive=False,
)
_SPEAKERS = {EntryKind.USER_MESSAGE: "User", EntryKind.ASSISTANT_MESSAGE: "Assistant"}
_TOOLS = frozenset({EntryKind.TOOL_CALL, EntryKind.TOOL_RESULT})


def session_tools(store: SessionStore, readable: Sequence[str] = ()) -> list[FunctionTool]:
    """The tools that look into the store.

    A session reads itself, and of the same agent's sessions those whose keys match `readable`.
    """

    def may_read(info: SessionInfo, context: CallContext) -> bool:
        return info.key == context.session or any(fnmatchcase(info.key, p) for p in readable)

    async def list_(arguments: Arguments, context: CallContext) -> ToolResult:
        limit = arguments.whole("limit", 20, least=1, most=MAX_SESSIONS)
        search = arguments.text("search", "") or None
        shown: list[str] = []
        cursor: str | None = None
        while len(shown) <= limit:
            page = await store.list_sessions(
                context.agent, limit=MAX_SESSIONS, cursor=cursor, search=search
            )
            shown += [_line(info) for info in page.sessions if may_read(info, context)]
            if (cursor := page.cursor) is None:
                break
        more = ["[there are more; use `search` or a greater `limit`]"] if shown[limit:] else []
        return said("\n".join([*shown[:limit], *more]) or "(no session)")

    async def history(arguments: Arguments, context: CallContext) -> ToolResult:
        key = arguments.text("key")
        found = await store.find_sessions(key, context.agent)
        found = [info for info in found if may_read(info, context)]
        if not found:
            raise ToolFailure("There is no session with that key that you may read.")
        wanted = MESSAGE_KINDS | _TOOLS if arguments.flag("tools") else MESSAGE_KINDS
        limit = arguments.whole("limit", 40, least=1, most=MAX_ENTRIES)
        # Several entries make a message; look back far enough, and never through all of it.
        after = max(0, found[0].entries - 20 * limit)
        entries = await store.entries(found[0].ref, after=after, limit=20 * limit)
        chosen = [entry for entry in entries if entry.kind in wanted][-limit:]
        return said(_rendered(chosen, key) or "(no message)")

    return [FunctionTool(_LIST, list_), FunctionTool(_HISTORY, history)]


def _line(info: SessionInfo) -> str:
    title = f" “{sanitise_label(info.title, 100)}”" if info.title else ""
    return f"{_when(info.updated_ms)}  {info.key!r}{title}  {info.messages} messages"


def _rendered(entries: list[Entry], key: str) -> str:
    shown: list[str] = []
    room = MAX_CHARS
    for entry in reversed(entries):
        text = _entry(entry, key)
        room -= len(text)
        if room < 0:
            shown.append("[earlier entries left out; they did not fit]")
            break
        shown.append(text)
    return "\n\n".join(reversed(shown))


def _entry(entry: Entry, key: str) -> str:
    text = entry.text
    if len(text) > MAX_ENTRY_CHARS:
        text = f"{text[:MAX_ENTRY_CHARS]}[… {len(entry.text) - MAX_ENTRY_CHARS} characters more]"
    when = _when(entry.at_ms)
    if entry.kind in _SPEAKERS:
        return f"[{when}] {_SPEAKERS[entry.kind]}: {text}"
    # What a tool once said is as untrusted now as it was then.
    what = "Tool call" if entry.kind is EntryKind.TOOL_CALL else "Tool result"
    return f"[{when}] {what}:\n{frame(text, source='Session History', sender=key)}"


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
