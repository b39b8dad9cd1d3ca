"""What the agent remembers between conversations: notes in files, and earlier conversations."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio.to_thread

from openclaw.agent.budget import cut_to
from openclaw.agent.tools.base import FLAG, WHOLE, Arguments, FunctionTool, quoted, said, spec
from openclaw.config.paths import (
    PRIVATE_FILE,
    locked,
    private_directory,
    target_of,
    write_atomically,
)
from openclaw.content.frame import frame
from openclaw.content.labels import sanitise_label
from openclaw.core.clock import Clock
from openclaw.core.errors import ToolFailure
from openclaw.core.tools import CallContext, ToolResult
from openclaw.sessions.records import (
    MESSAGE_KINDS,
    Entry,
    EntryKind,
    SessionInfo,
    session_owner,
)
from openclaw.sessions.store import SessionStore

PERSON, OTHERS = "MEMORY.md", "HEARD.md"  # what the person said, and what came from elsewhere
MAX_FACT_CHARS = 2_000  # of one fact
_BUDGET = 1_500  # tokens of each file in the prompt: the newest lines

_MOST_FOUND = 40
_MOST_HITS = 20
_SOURCE = "Memory"
_FRAME = "<<<EXTERNAL_UNTRUSTED_CONTENT"
_WORD = re.compile(r"\w+")
_SHORT = 3
_DATED = re.compile(r"^- (?:\d{4}-\d\d-\d\d: )?")
_MOST_SIMILAR = 3


@dataclass(frozen=True, slots=True)
class Memory:
    """An agent's notes: `MEMORY.md`, `HEARD.md` and other files that the person puts there."""

    directory: Path

    def add(self, name: str, day: str, text: str, replaces: str = "") -> bool:
        """Add a note, in place of the one that it `replaces`; false if it is there already."""
        private_directory(self.directory)
        with locked(self.directory / name):
            return self._add(self.directory / name, day, text, replaces)

    def _add(self, file: Path, day: str, text: str, replaces: str) -> bool:
        if not file.exists():
            file.touch(mode=PRIVATE_FILE)
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        kept = [line for line in lines if not replaces or _fact(line) != _fact(replaces)]
        if len(kept) < len(lines):
            write_atomically(target_of(file), "".join(f"{line}\n" for line in kept))
        if any(_fact(line) == _fact(text) for line in kept):
            return False
        with file.open("a", encoding="utf-8") as notes:
            notes.write(f"- {day}: {' '.join(text.split())}\n")
        return True

    def forget(self, name: str, text: str, shown: Callable[[str], str] = str) -> bool:
        """Remove the lines of a file that are `shown` as this text; false if there are none."""
        file = next((one for one in self.directory.glob("*.md") if one.name == name), None)
        if file is None or file.is_symlink():
            return False
        with locked(file):
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            kept = [line for line in lines if shown(line) != text]
            if len(kept) < len(lines):
                write_atomically(target_of(file), "".join(f"{line}\n" for line in kept))
        return len(kept) < len(lines)

    def about_the_same(self, name: str, text: str) -> list[str]:
        """The notes, but this one, that share most of their words with it."""
        wanted = _words(text)
        return [
            line
            for file, line in self.lines()
            if file == name
            and _fact(line) != _fact(text)
            and 2 * len(wanted & _words(_fact(line))) >= max(1, len(wanted))
        ][-_MOST_SIMILAR:]

    def lines(self) -> Iterator[tuple[str, str]]:
        for file in sorted(self.directory.glob("*.md")):
            if file.is_file() and not file.is_symlink():
                text = file.read_text(encoding="utf-8", errors="replace")
                yield from ((file.name, line) for line in text.splitlines() if line.strip())

    def find(self, query: str) -> list[tuple[str, str]]:
        """The lines that share words with the query, the best first."""
        wanted = _words(query)
        scored = [(len(wanted & _words(line)), name, line) for name, line in self.lines()]
        best = sorted((one for one in scored if one[0]), key=lambda one: -one[0])
        return [(name, line) for _, name, line in best[:_MOST_FOUND]]

    def prompt(self) -> str:
        """What comes before every conversation: the newest lines of both files."""
        own, heard = self._newest(PERSON), self._newest(OTHERS)
        parts: list[str] = []
        if own:
            parts.append(f"# Memory: what the person told you in earlier conversations\n\n{own}")
        if heard:
            parts.append(frame(heard, source=_SOURCE, sender="what you heard elsewhere"))
        return "\n\n".join(parts)

    def _newest(self, name: str) -> str:
        lines = [line for file, line in self.lines() if file == name]
        kept = _last_within(lines, 3 * _BUDGET, "(older lines are left out; recall finds them)")
        return cut_to("\n".join(kept), 2 * _BUDGET)


def _fact(line: str) -> str:
    """What a note says, without its date and however it is written."""
    return " ".join(_DATED.sub("", line).casefold().split()).rstrip(".")


def _last_within(texts: Sequence[str], room: int, left_out: str) -> list[str]:
    """The last texts that fit into `room` characters, after a note if there are more."""
    kept: list[str] = []
    for text in reversed(texts):
        room -= len(text) + 3
        if room < 0:
            return [left_out, *reversed(kept)]
        kept.append(text)
    return kept[::-1]


def is_from_person(text: str, entries: Iterable[Entry], *, heard: bool = False) -> bool:
    """Whether this is what the person said: they wrote it, or nobody else said anything.

    In a conversation with untrusted content, or if the prompt has some (`heard`), every word that
    means something has to be in the person's own messages.
    """
    own: set[str] = set()
    untrusted = heard
    for entry in entries:
        if entry.kind is EntryKind.USER_MESSAGE:
            typed = entry.data.get("typed")
            own |= _every_word(entry.text if typed is None else typed)
            # What an MCP prompt, another agent or an attachment says is not theirs.
            untrusted = untrusted or typed is not None or bool(entry.data.get("media"))
        untrusted = untrusted or _FRAME in entry.text
    if not untrusted:
        return True
    wanted = _every_word(text) - _FUNCTION_WORDS
    return bool(wanted) and wanted <= own


def _every_word(text: str) -> set[str]:
    """With "uses" as "use": notes about the person are in the third person."""
    found = (word.casefold() for word in _WORD.findall(text))
    return {w[:-1] if len(w) > _SHORT and w.isalpha() and w.endswith("s") else w for w in found}


# Not among them: words that permit, forbid or negate.
_FUNCTION_WORDS = _every_word(
    "a an and are at by for from had has have in is of on person s that the their they this to was "
    "were with"
)


def _words(text: str) -> set[str]:
    meant = _every_word(text) - _FUNCTION_WORDS
    return {w for w in meant if len(w) >= _SHORT or any(c.isdigit() for c in w)}


_REMEMBER = spec(
    "remember",
    "Remember a fact for later conversations, such as the person's preference or decision. "
    "No secrets.",
    "text",
    changes=True,
    text="One sentence that makes sense by itself.",
    replaces="A note that is no longer true, word for word.",
)
_RECALL = spec(
    "recall", "Search what you remember, and the person's notes.", "query", query="A few words."
)


def memory_tools(
    memory: Memory,
    store: SessionStore,
    clock: Clock,
    timezone: str,
    readable: Sequence[str] = (),
) -> list[FunctionTool]:
    async def remember(arguments: Arguments, context: CallContext) -> ToolResult:
        text = arguments.text("text").strip()
        if not text or len(text) > MAX_FACT_CHARS:
            most = f"at most {MAX_FACT_CHARS} characters"
            raise ToolFailure(f"Give `text` as one sentence of {most}.")
        session = await store.open_session(context.agent, context.session)
        heard = await anyio.to_thread.run_sync((memory.directory / OTHERS).exists)
        history = await store.history(session, since_compaction=False)
        own = is_from_person(text, history, heard=heard)
        today = datetime.fromtimestamp(clock.now_ms() / 1000, ZoneInfo(timezone))
        name = PERSON if own else OTHERS
        # Nobody but the person has a note of theirs replaced.
        replaces = arguments.text("replaces", "")
        day = f"{today:%Y-%m-%d}"
        if not await anyio.to_thread.run_sync(memory.add, name, day, text, replaces):
            return said("That is remembered already.")
        if own:
            similar = await anyio.to_thread.run_sync(memory.about_the_same, name, text)
            hint = "".join(f"\n{line}" for line in similar)
            hint = hint and f"\nIf one of these is no longer true, replace it:{hint}"
            return said(f"Remembered in {memory.directory / name}.{hint}")
        return said(
            f"Stored in {memory.directory / name} as something you heard: the person did not "
            "say it. It will be shown to you as untrusted."
        )

    async def recall(arguments: Arguments, context: CallContext) -> ToolResult:
        query = arguments.text("query")
        found = await anyio.to_thread.run_sync(memory.find, query)
        lines = [f"{name}: {line}" for name, line in found]
        for hit in await store.search(query, agent=context.agent, limit=_MOST_HITS):
            if hit.kind in MESSAGE_KINDS and _may_read(hit.session.key, context, readable):
                day = datetime.fromtimestamp(hit.at_ms / 1000, ZoneInfo(timezone))
                lines.append(f"conversation {hit.session.key}, {day:%Y-%m-%d}: {hit.snippet}")
        if not lines:
            return said("Nothing is remembered about that.")
        return quoted("\n".join(lines), _SOURCE, "notes and conversations")

    return [FunctionTool(_REMEMBER, remember), FunctionTool(_RECALL, recall)]


MAX_SESSIONS = 100
MAX_ENTRIES = 200
MAX_ENTRY_CHARS = 4000
MAX_CHARS = 48_000

_SESSIONS = spec(
    "sessions_list",
    "List stored conversations that you may read, the latest first.",
    label="List sessions",
    search="In key or title.",
    limit={**WHOLE, "description": "Default 20."},
)
_HISTORY = spec(
    "session_history",
    "Read this conversation from its beginning, or one from sessions_list.",
    "key",
    label="Session history",
    key="",
    limit={**WHOLE, "description": "Last entries; default 40."},
    tools={**FLAG, "description": "With tool calls."},
)
_SPEAKERS = {EntryKind.USER_MESSAGE: "User", EntryKind.ASSISTANT_MESSAGE: "Assistant"}
_TOOLS = frozenset({EntryKind.TOOL_CALL, EntryKind.TOOL_RESULT})


def _may_read(key: str, context: CallContext, readable: Sequence[str]) -> bool:
    """A session can read itself, and the same agent's sessions whose keys match `readable`.

    That setting is the user's: a token's sessions read no others by it than that token's.
    """
    owner = session_owner(context.session)
    if owner and session_owner(key) != owner:
        return False
    return key == context.session or any(fnmatchcase(key, one) for one in readable)


def session_tools(store: SessionStore, readable: Sequence[str] = ()) -> list[FunctionTool]:
    async def list_(arguments: Arguments, context: CallContext) -> ToolResult:
        limit = arguments.whole("limit", 20, least=1, most=MAX_SESSIONS)
        search = arguments.text("search", "") or None
        shown: list[str] = []
        cursor: str | None = None
        while len(shown) <= limit:
            page = await store.list_sessions(
                context.agent, limit=MAX_SESSIONS, cursor=cursor, search=search
            )
            shown += [
                _session_line(one) for one in page.sessions if _may_read(one.key, context, readable)
            ]
            if (cursor := page.cursor) is None:
                break
        more = ["[there are more; use `search` or a greater `limit`]"] if shown[limit:] else []
        return said("\n".join([*shown[:limit], *more]) or "(no session)")

    async def history(arguments: Arguments, context: CallContext) -> ToolResult:
        key = arguments.text("key")
        found = await store.find_sessions(key, context.agent)
        found = [info for info in found if _may_read(info.key, context, readable)]
        if not found:
            raise ToolFailure("There is no session with that key that you may read.")
        wanted = MESSAGE_KINDS | _TOOLS if arguments.flag("tools") else MESSAGE_KINDS
        limit = arguments.whole("limit", 40, least=1, most=MAX_ENTRIES)
        # A message may have several entries: look back far enough, but never through all of them.
        after = max(0, found[0].entries - 20 * limit)
        entries = await store.entries(found[0].ref, after=after, limit=20 * limit)
        chosen = [entry for entry in entries if entry.kind in wanted][-limit:]
        left_out = "[earlier entries left out; they did not fit]"
        shown = _last_within([_entry(one, key) for one in chosen], MAX_CHARS, left_out)
        return said("\n\n".join(shown) or "(no message)")

    return [FunctionTool(_SESSIONS, list_), FunctionTool(_HISTORY, history)]


def _session_line(info: SessionInfo) -> str:
    title = f" “{sanitise_label(info.title, 100)}”" if info.title else ""
    return f"{_when(info.updated_ms)}  {info.key!r}{title}  {info.messages} messages"


def _entry(entry: Entry, key: str) -> str:
    text = entry.text
    if len(text) > MAX_ENTRY_CHARS:
        text = f"{text[:MAX_ENTRY_CHARS]}[… {len(entry.text) - MAX_ENTRY_CHARS} more characters]"
    when = _when(entry.at_ms)
    if entry.kind in _SPEAKERS:
        return f"[{when}] {_SPEAKERS[entry.kind]}: {text}"
    # What a tool once said is as untrusted now as it was then.
    what = "Tool call" if entry.kind is EntryKind.TOOL_CALL else "Tool result"
    return f"[{when}] {what}:\n{frame(text, source='Session History', sender=key)}"


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
