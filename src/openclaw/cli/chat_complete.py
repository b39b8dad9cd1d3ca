"""What Tab offers in a chat: commands, prompts of MCP servers, their arguments, and paths."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from openclaw.cli.chat_commands import COMMANDS, HELP, TAKES_PATH

if TYPE_CHECKING:
    from openclaw.mcp_client.prompts import PromptInfo

Prompts = Callable[[], "Sequence[PromptInfo]"]

_MENTION = re.compile(r"(?<!\S)@(\S*)\Z")
_GIVEN = re.compile(r"(?<!\S)([^\s=]+)=")


class ChatCompleter(Completer):
    """Completes what stands before the cursor. `prompts` are asked for each time: servers change."""

    def __init__(self, prompts: Prompts, home: Path | None = None) -> None:
        self._prompts = prompts
        self._paths = PathCompleter(expanduser=home is not None)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """What the text before the cursor may go on with."""
        text = document.text_before_cursor
        mention = _MENTION.search(text)
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
