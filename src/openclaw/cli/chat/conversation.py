"""A conversation: one message after the other, each a turn that can be stopped."""

import logging
import re
import shlex
import shutil
import textwrap
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from openclaw.cli.chat.input import Interrupts, read_attachments
from openclaw.cli.chat.turn_view import DiffText
from openclaw.cli.commands.agent import CHAT, EFFORTS, new_conversation
from openclaw.cli.parser import nearest
from openclaw.cli.run_command import stopped_by_interrupt
from openclaw.cli.terminal import counted, folded, place_of, shortened, visible
from openclaw.core.clock import SystemClock
from openclaw.core.errors import EXIT_FAILED, EXIT_OK, OpenClawError, cause_of, describe, sentence
from openclaw.core.prompts import PartialArgument, PromptInfo
from openclaw.policy.approval_text import diff_lines
from openclaw.sessions.records import MESSAGE_KINDS, EntryKind
from openclaw.sessions.usage import KEPT_DAYS, UsageLedger, money, total

if TYPE_CHECKING:
    from openclaw.agent.port import Agent, AgentSettings, MessageContext, Reply, TurnListener
    from openclaw.agent.tools.checkpoints import FileChange
    from openclaw.cli.chat.input import LineInput
    from openclaw.cli.chat.terminal_input import EscapeKey, TerminalInput
    from openclaw.cli.chat.turn_view import AnswerView

logger = logging.getLogger(__name__)

_RECALLED = 50  # entries that a recap reads

# ---- commands

HELP = {
    "/help": "show this list",
    "/new": "start a new conversation",
    "/session [KEY]": "switch to that conversation, or show which one this is",
    "/compact [WHAT TO KEEP]": "summarise the conversation so far to free up context",
    "/diff": "show what this conversation changed in files",
    "/undo": "restore the files that the last turn changed; again: those of the turn before it; "
    "show: list them; anyway: also those that changed since",
    "/redo": "take back the last undo",
    "/model [NAME]": "show the model, or switch to another; default is the agent's",
    "/think [LEVEL]": "set how long the model thinks: off, minimal, low, medium, high, "
    "xhigh, max; default is the agent's",
    "/usage": "show the cost of this conversation and of today",
    "/tools": "list the agent's tools",
    "/SERVER:PROMPT KEY=VALUE …": "use an MCP server's prompt",
    "/quit": "quit (also Ctrl-D, or Ctrl-C twice)",
}
COMMANDS = tuple(name.split()[0] for name in HELP if ":" not in name)
KEYS = (
    "Alt-Enter or a backslash before Enter starts a new line; Tab completes; @PATH in a message "
    "sends that file with it; Esc or Ctrl-C stops the answer."
)

_TOOL_CHARS = 90
_LIKE_A_COMMAND = re.compile(r"/[A-Za-z-]+")
_FILE_ENDING = re.compile(r"\w\.[A-Za-z][A-Za-z0-9]{0,7}\Z")
# At the beginning of a word, unlike in an address such as me@example.com.
_MENTION = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>\S+))')


def parse_command(text: str) -> tuple[str, str] | None:
    """The command and its argument; None for a message, which may begin with any other path."""
    name, _, rest = text.strip().partition(" ")
    return (name, rest.strip()) if name in COMMANDS else None


def mistyped(text: str) -> str | None:
    """What to say if this looks like a command but is not one; None for a message, such as a path."""
    name, _, rest = text.rstrip().partition(" ")
    if not _LIKE_A_COMMAND.fullmatch(name):
        return None
    begun = (one for one in COMMANDS if len(name) > 2 and one.startswith(name))
    near = next(begun, None) or nearest(name, COMMANDS)
    if not near and (rest or Path(name).exists()):
        return None
    meant = f" Did you mean {near}?" if near else " /help lists the commands."
    return f"Unknown command {name}.{meant} To send it as text, start with a space."


def help_text(columns: int = 80) -> str:
    width = max(map(len, HELP))
    lines = [
        folded(f"  {name:<{width}}  {what}", columns, width + 4) for name, what in HELP.items()
    ]
    return "\n".join([*lines, "", folded(KEYS, columns, 0)])


def tool_text(name: str, description: str, columns: int) -> str:
    first = visible(description.strip().partition("\n")[0])
    return folded(f"  {name}: {shortened(first, _TOOL_CHARS)}".rstrip(), columns, 4)


def mentions(text: str, home: Path | None = None) -> tuple[list[Path], list[str]]:
    """The files that a message names with @, and those that are missing.

    A name that isn't a file is just a word, unless it has a slash or ends like a file's (`.txt`).
    """
    found: list[Path] = []
    missing: list[str] = []
    for match in _MENTION.finditer(text):
        named = match["quoted"] or match["plain"]
        candidates = [named] if match["quoted"] else [named, named.rstrip(".,;:!?)")]
        paths = [home / c[2:] if home and c.startswith("~/") else Path(c) for c in candidates]
        path = next(filter(Path.is_file, paths), None)
        if path is None:
            meant = match["quoted"] or "/" in named or _FILE_ENDING.search(candidates[-1])
            missing += [candidates[-1]] if meant else []
        elif path not in found:
            found.append(path)
    return found, missing


Prompts = Callable[[], Sequence[PromptInfo]]
Complete = Callable[[PartialArgument], Awaitable[Sequence[str]]]

_MENTION_AT_CURSOR = re.compile(r"(?<!\S)@(\S*)\Z")
_GIVEN = re.compile(r"(?<!\S)([^\s=]+)=")


class ChatCompleter(Completer):
    """Completes commands, paths and prompts; prompts are fetched each time, since servers change."""

    def __init__(self, prompts: Prompts, complete: Complete) -> None:
        self._prompts, self._complete = prompts, complete
        self._paths = PathCompleter()

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        text = document.text_before_cursor
        mention = _MENTION_AT_CURSOR.search(text)
        if mention is not None:
            begun = mention[1]
            yield from self._paths.get_completions(Document(begun, len(begun)), complete_event)
        elif text.startswith("/") and "\n" not in text:
            head, space, rest = text.partition(" ")
            yield from self._arguments(head, rest) if space else self._names(head)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion]:
        """The same, plus what servers suggest for a prompt's argument."""
        for one in self.get_completions(document, complete_event):
            yield one
        head, _, rest = document.text_before_cursor.partition(" ")
        *before, last = rest.split(" ")
        name, equals, value = last.partition("=")
        prompt = self._prompt(head)
        known = {one.name for one in prompt.arguments} if prompt is not None else set[str]()
        if prompt is None or not equals or name not in known:
            return
        given = dict(word.split("=", 1) for word in before if "=" in word)
        begun = PartialArgument(prompt.server, name, value, prompt.name, given=given)
        with suppress(OpenClawError):
            for suggested in await self._complete(begun):
                yield Completion(shlex.quote(suggested), -len(value))

    def _prompt(self, command: str) -> "PromptInfo | None":
        return next((one for one in self._prompts() if one.command == command), None)

    def _names(self, head: str) -> Iterable[Completion]:
        descriptions = {name.split()[0]: what for name, what in HELP.items() if ":" not in name}
        descriptions |= {prompt.command: prompt.description for prompt in self._prompts()}
        for name, what in descriptions.items():
            if name.startswith(head):
                yield Completion(name, -len(head), display_meta=what)

    def _arguments(self, head: str, rest: str) -> Iterable[Completion]:
        prompt = self._prompt(head)
        if prompt is None:
            return
        given = set(_GIVEN.findall(rest))
        word = "" if rest[-1:].isspace() else rest.split(" ")[-1]
        for argument in prompt.arguments:
            if argument.name not in given and argument.name.startswith(word):
                note = f"{argument.description} (needed)" if argument.required else ""
                meta = note.strip() or argument.description
                yield Completion(f"{argument.name}=", -len(word), display_meta=meta)


# ---- the conversation


class ChatSession:
    """A conversation at the terminal; every message is sent with `context`.

    `changes` finds what an agent changed in a session.
    """

    def __init__(
        self,
        agent: "Agent",
        settings: "AgentSettings",
        view: "AnswerView",
        context: "MessageContext",
        listener: "TurnListener",
        interrupts: Interrupts,
        environ: Mapping[str, str],
        changes: Callable[[str, str], "Sequence[FileChange]"],
        escape: "EscapeKey | None" = None,
    ) -> None:
        self.exit_code = EXIT_OK
        self._agent, self._settings, self._id = agent, settings, settings.id
        self._context, self._listener = context, listener
        self._view, self._interrupts, self._changes = view, interrupts, changes
        self._escape = escape
        self._home = Path(environ["HOME"]) if environ.get("HOME") else None
        self._over = False

    @property
    def session(self) -> str:
        return self._context.session_key

    async def recap(self) -> None:
        store = await self._agent.store()
        found = await store.find_sessions(self.session, self._id)
        if not found or not found[0].messages:
            self._view.say("This is a new conversation.")
            return
        info = found[0]
        entries = await store.entries(info.ref, after=max(0, info.entries - _RECALLED))
        said = [e for e in entries if e.kind in MESSAGE_KINDS and e.text.strip()]
        title, messages = visible(info.title or info.key), counted(info.messages, "message")
        self._view.say(f"Continuing “{title}” ({messages}); /new starts a new conversation.")
        for entry in said[-2:]:
            who = "you" if entry.kind is EntryKind.USER_MESSAGE else "agent"
            text = visible(textwrap.shorten(entry.text, 160, placeholder="…"))
            self._view.say(f"  {who}: {text}")

    async def run(self, typed: "LineInput | TerminalInput") -> None:
        while not self._over:
            await self._agent.refresh(self._id, self.session)
            text = await typed.read()
            if text is None:
                return
            try:
                await self._take(text)
            except Exception as error:
                # Whatever happens, the person can type the next message.
                cause = cause_of(error)
                if not isinstance(cause, OpenClawError):
                    logger.exception("a turn of session %s failed", self.session)
                self.exit_code = EXIT_FAILED
                self._view.say(f"Error: {sentence(describe(cause))}")

    async def _take(self, text: str) -> None:
        command = parse_command(text)
        if command is not None:
            await self._obey(*command)
        elif (wrong := mistyped(text)) is not None:
            self._view.say(wrong)
        elif text.strip():
            await self._turn(text)

    # Commands

    async def _obey(self, name: str, rest: str) -> None:
        does: dict[str, Callable[[str], Awaitable[None]]] = {
            "/help": self._help,
            "/new": self._new,
            "/session": self._session,
            "/compact": lambda rest: self._turn(f"/compact {rest}".strip()),
            "/diff": self._diff,
            "/undo": lambda rest: self._turn(f"/undo {rest}".strip()),
            "/redo": lambda rest: self._turn("/redo"),
            "/model": self._model,
            "/think": self._think,
            "/usage": self._usage,
            "/tools": self._tools,
            "/quit": self._quit,
        }
        await does[name](rest)

    async def _help(self, _: str) -> None:
        self._view.say(help_text(shutil.get_terminal_size().columns))
        prompts = self._agent.prompts(self._id, self.session)
        if prompts:
            self._view.say("\nPrompts:")
        for prompt in prompts:
            needs = " ".join(f"{argument.name}=…" for argument in prompt.arguments)
            self._view.say(visible(f"  {prompt.command} {needs}".rstrip()))

    async def _new(self, _: str) -> None:
        place = self._context.workspace or self._settings.directories[0]
        self._context = replace(self._context, session_key=new_conversation(CHAT, place))
        self._view.say("This is a new conversation.")

    async def _session(self, key: str) -> None:
        if key:
            self._context = replace(self._context, session_key=key)
            await self.recap()
        else:
            self._view.say(f"This is conversation '{visible(self.session)}'.")

    async def _diff(self, _: str) -> None:
        changes = await anyio.to_thread.run_sync(self._changes, self._id, self.session)
        if not changes:
            self._view.say("This conversation changed no files, apart from what commands did.")
        for change in changes:
            self._view.say(visible(f"{change.what} {change.path}"))
            if change.before is None or change.after is None:
                self._view.say("  (not text, or too long to be shown)")
                continue
            if lines := list(diff_lines(change.before, change.after)):
                self._view.say_diff(DiffText("\n".join(lines)))

    async def _model(self, name: str) -> None:
        chosen = None if name == "default" else name or self._context.model
        if name and chosen and (problem := await self._agent.model_problem(name)) is not None:
            self._view.say(visible(sentence(problem)))
            return
        self._context = replace(self._context, model=chosen)
        models = [chosen] if chosen else await self._agent.models(self._id)
        none = "No model is set: the first available one is used."
        self._view.say(visible(", then ".join(models)) or none)
        if not name and (choices := self._settings.model_choices):
            self._view.say(visible(f"Also configured: {', '.join(choices)}"))

    async def _think(self, level: str) -> None:
        if level and level not in (*EFFORTS, "default"):
            self._view.say(f"Unknown level. Choose one of: {', '.join(EFFORTS)}, default.")
            return
        if level:
            thinking = None if level == "default" else level
            self._context = replace(self._context, thinking=thinking)
        self._view.say(f"Thinking: {self._context.thinking or 'default'}.")

    async def _usage(self, _: str) -> None:
        ledger = UsageLedger(await self._agent.store(), SystemClock(), self._settings.timezone)
        rows = [row for row in await ledger.rows(ledger.days(KEPT_DAYS)) if row.agent == self._id]
        here = total(row for row in rows if row.session == self.session)
        today = total(row for row in rows if row.day == ledger.today())
        for name, spent in (("This conversation", here), ("Today", today)):
            tokens = spent.input_tokens + spent.output_tokens
            requests = counted(spent.requests, "request")
            self._view.say(f"{name}: {money(spent)}, {tokens:,} tokens, {requests}.")

    async def _tools(self, _: str) -> None:
        tools = await self._agent.tools(self._id, self.session)
        columns = shutil.get_terminal_size().columns
        for tool in tools:
            self._view.say(tool_text(tool.name, tool.description, columns))
        self._view.say(f"{counted(len(tools), 'tool')}.")

    async def _quit(self, _: str) -> None:
        self._over = True

    # Turns

    async def _turn(self, text: str) -> None:
        files, missing = mentions(text, self._home)
        for name in missing:
            self._view.say(f"There is no file {visible(name)}, so it is sent as text.")
        media = await read_attachments([], files, self._settings.transcriber)
        context = replace(self._context, text=text, media=media)
        reply: Reply | None = None
        self._interrupts.forget()
        presses = self._interrupts
        with stopped_by_interrupt(presses.again, presses.leave) as scope, ExitStack() as keys:
            if self._escape is not None:
                keys.enter_context(self._escape.stops(scope.cancel))
            async with self._view.turn():
                with scope:
                    reply = await self._agent.reply(context, self._listener)
                    self._view.finish(reply.text)
        if reply is None:
            self._view.say("(stopped)")
            return
        if reply.usage.cost:
            self._view.say(f"(${reply.usage.cost:.2g})")
        for media in reply.media:
            self._view.say(visible(f"[{media.mime_type}] {place_of(media)}"))
