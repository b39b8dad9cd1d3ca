"""What a person may type in a chat besides messages. Pure, except for looking whether a file is there."""

import re
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from openclaw.cli.logs import visible
from openclaw.cli.render.terminal import folded
from openclaw.core.errors import OpenClawError

if TYPE_CHECKING:
    from openclaw.mcp_client.bridge.prompts import BegunArgument, PromptInfo

HELP = {
    "/help": "show this list",
    "/new": "start a new conversation",
    "/session [KEY]": "switch to that conversation, or show which one this is",
    "/compact [WHAT TO KEEP]": "summarise the conversation so far to free up context",
    "/undo": "restore the files that the last turn changed",
    "/model [NAME]": "show the model, or switch to another; default is the agent's",
    "/think [LEVEL]": "set how long the model thinks: off, minimal, low, medium, high, "
    "xhigh, max; default is the agent's",
    "/usage": "show the cost of this conversation and of today",
    "/tools": "list the agent's tools",
    "/image PATH": "send an image with the next message",
    "/file PATH": "send a file with the next message",
    "/SERVER:PROMPT KEY=VALUE …": "use an MCP server's prompt",
    "/quit": "quit (also Ctrl-D, or Ctrl-C twice)",
}
COMMANDS = tuple(name.split()[0] for name in HELP if ":" not in name)
TAKES_PATH = ("/image", "/file")
KEYS = (
    "Alt-Enter or a backslash before Enter starts a new line; Tab completes; @PATH in a message "
    "sends that file with it; Ctrl-C stops the answer."
)

_TOOL_CHARS = 90
_NEAR = 0.7  # so that /foo is not taken for /file
_LIKE_A_COMMAND = re.compile(r"/[A-Za-z-]+")
# At the beginning of a word, so that an address such as me@example.com is none.
_MENTION = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>\S+))')


@dataclass(frozen=True, slots=True)
class Typed:
    name: str
    rest: str


def parse_command(text: str) -> Typed | None:
    """The command that this is; None where it is a message.

    Only words that are ours are commands: a message may begin with any other path.
    """
    name, _, rest = text.strip().partition(" ")
    return Typed(name, rest.strip()) if name in COMMANDS else None


def mistyped(text: str) -> str | None:
    """What to say where this was meant as a command and is none; None where it is a message.

    A path such as /etc/hosts is none, and with a blank before it nothing is.
    """
    name, _, rest = text.rstrip().partition(" ")
    if not _LIKE_A_COMMAND.fullmatch(name):
        return None
    begun = [one for one in COMMANDS if len(name) > 2 and one.startswith(name)]
    near = begun[:1] or get_close_matches(name, COMMANDS, 1, _NEAR)
    if not near and (rest or Path(name).exists()):
        return None
    meant = f" Did you mean {near[0]}?" if near else " /help lists the commands."
    return f"Unknown command {name}.{meant} To send it as text, start with a space."


def help_text(columns: int = 80) -> str:
    width = max(map(len, HELP))
    lines = [
        folded(f"  {name:<{width}}  {what}", columns, width + 4) for name, what in HELP.items()
    ]
    return "\n".join([*lines, "", folded(KEYS, columns, 0)])


def tool_text(name: str, description: str, columns: int) -> str:
    first = visible(description.strip().partition("\n")[0])
    if len(first) > _TOOL_CHARS:
        whole, _, _ = first[: _TOOL_CHARS + 1].rpartition(" ")
        first = f"{whole.rstrip() or first[:_TOOL_CHARS]}…"
    return folded(f"  {name}: {first}".rstrip(), columns, 4)


def named_path(text: str, home: Path | None = None) -> Path:
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'":
        bare = bare[1:-1]
    else:
        bare = bare.replace("\\ ", " ")
    if home is not None and (bare == "~" or bare.startswith("~/")):
        return home / bare[2:]
    return Path(bare)


class Mentions(NamedTuple):
    files: Sequence[Path]
    missing: Sequence[str]


def mentions(text: str, home: Path | None = None) -> Mentions:
    """What a message names with @; a name without a slash that is no file is just a word."""
    found: list[Path] = []
    missing: list[str] = []
    for match in _MENTION.finditer(text):
        named = match["quoted"] or match["plain"]
        candidates = [named] if match["quoted"] else [named, named.rstrip(".,;:!?)")]
        path = next((p for p in (named_path(c, home) for c in candidates) if p.is_file()), None)
        if path is None:
            missing += [named] if match["quoted"] or "/" in named else []
        elif path not in found:
            found.append(path)
    return Mentions(found, missing)


Prompts = Callable[[], "Sequence[PromptInfo]"]
Complete = Callable[["BegunArgument"], Awaitable[Sequence[str]]]

_MENTION_AT_CURSOR = re.compile(r"(?<!\S)@(\S*)\Z")
_GIVEN = re.compile(r"(?<!\S)([^\s=]+)=")


class ChatCompleter(Completer):
    """Completes what stands before the cursor. `prompts` are asked for each time: servers change."""

    def __init__(
        self, prompts: Prompts, home: Path | None = None, complete: Complete | None = None
    ) -> None:
        self._prompts, self._complete = prompts, complete
        self._paths = PathCompleter(expanduser=home is not None)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        text = document.text_before_cursor
        mention = _MENTION_AT_CURSOR.search(text)
        if mention is not None:
            yield from self._path(mention[1], complete_event)
        elif text.startswith("/") and "\n" not in text:
            head, space, rest = text.partition(" ")
            if not space:
                yield from self._names(head)
            elif head in TAKES_PATH:
                yield from self._path(rest.lstrip(), complete_event)
            else:
                yield from self._arguments(head, rest)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion]:
        """The same, and what servers suggest for the argument of a prompt."""
        for one in self.get_completions(document, complete_event):
            yield one
        begun = self._begun(document.text_before_cursor)
        if begun is None or self._complete is None:
            return
        with suppress(OpenClawError):
            for value in await self._complete(begun):
                yield Completion(shlex.quote(value), -len(begun.value))

    def _begun(self, text: str) -> "BegunArgument | None":
        """The argument of a prompt whose value stands before the cursor."""
        head, _, rest = text.partition(" ")
        prompt = next((one for one in self._prompts() if one.command == head), None)
        *before, last = rest.split(" ")
        name, equals, value = last.partition("=")
        if prompt is None or not equals or name not in {one.name for one in prompt.arguments}:
            return None
        from openclaw.mcp_client.bridge.prompts import BegunArgument

        given = dict(word.split("=", 1) for word in before if "=" in word)
        return BegunArgument(prompt.server, name, value, prompt.name, given=given)

    def _names(self, head: str) -> Iterable[Completion]:
        told = {name.split()[0]: what for name, what in HELP.items()}
        for name in COMMANDS:
            if name.startswith(head):
                yield Completion(name, -len(head), display_meta=told[name])
        for prompt in self._prompts():
            if prompt.command.startswith(head):
                yield Completion(prompt.command, -len(head), display_meta=prompt.description)

    def _arguments(self, head: str, rest: str) -> Iterable[Completion]:
        prompt = next((one for one in self._prompts() if one.command == head), None)
        if prompt is None:
            return
        given = set(_GIVEN.findall(rest))
        word = "" if rest[-1:].isspace() else rest.split(" ")[-1]
        for argument in prompt.arguments:
            if argument.name not in given and argument.name.startswith(word):
                note = f"{argument.description} (needed)" if argument.required else ""
                meta = note.strip() or argument.description
                yield Completion(f"{argument.name}=", -len(word), display_meta=meta)

    def _path(self, begun: str, event: CompleteEvent) -> Iterable[Completion]:
        yield from self._paths.get_completions(Document(begun, len(begun)), event)
