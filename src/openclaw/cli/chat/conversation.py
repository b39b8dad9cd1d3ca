"""A conversation: one message after the other, each a turn that can be stopped."""

import logging
import shutil
import signal
import sys
import textwrap
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from openclaw.agent.port import MessageContext, TurnListener
from openclaw.cli.chat.commands import (
    Typed,
    help_text,
    mentions,
    mistyped,
    named_path,
    parse_command,
    tool_text,
)
from openclaw.cli.chat.input import Interrupts, read_attachments
from openclaw.cli.commands.agent import EFFORTS, new_conversation, place_of
from openclaw.cli.logs import visible
from openclaw.cli.render.terminal import counted
from openclaw.core.content import InboundMedia
from openclaw.core.errors import EXIT_FAILED, EXIT_OK, OpenClawError, cause_of, describe, sentence
from openclaw.sessions.model import MESSAGE_KINDS, EntryKind

if TYPE_CHECKING:
    from openclaw.agent.port import Agent, AgentSettings, Reply
    from openclaw.cli.chat.input import Input
    from openclaw.cli.chat.questions import Consent
    from openclaw.cli.chat.view import View
    from openclaw.core.tools import Elicit

logger = logging.getLogger(__name__)

_RECALLED = 50  # entries that a recap looks through


class Talk:
    """What a person says to the agent, and what comes back. `session` is the conversation's key.

    `consent` says which calls may be made, and `elicit` puts servers' questions to the person.
    """

    def __init__(
        self,
        agent: "Agent",
        settings: "AgentSettings",
        view: "View",
        session: str,
        environ: Mapping[str, str],
        interrupts: Interrupts,
        consent: "Consent",
        elicit: "Elicit | None" = None,
        *,
        workspace: Path | None = None,
        model: str | None = None,
        thinking: str | None = None,
    ) -> None:
        self.session = session
        self.exit_code = EXIT_OK
        self._agent, self._id, self._transcriber = agent, settings.id, settings.transcriber
        self._view, self._interrupts = view, interrupts
        self._listener = TurnListener(on_event=view.show, ask=consent.permit, elicit=elicit)
        self._home = Path(environ["HOME"]) if environ.get("HOME") else None
        self._workspace = workspace
        self._asked, self._thinking = model, thinking
        self._timezone = settings.timezone
        self._choices = settings.model_choices
        self._pending: list[InboundMedia] = []
        self._over = False

    async def recap(self) -> None:
        store = await self._agent.store()
        found = await store.find_sessions(self.session, self._id)
        if not found or not found[0].messages:
            self._view.say("This is a new conversation.")
            return
        info = found[0]
        entries = await store.entries(info.ref, after=max(0, info.entries - _RECALLED))
        said = [e for e in entries if e.kind in MESSAGE_KINDS and e.text.strip()]
        self._view.say(
            f"Continuing “{visible(info.title or info.key)}” ({counted(info.messages, 'message')}); "
            "/new starts a new conversation."
        )
        for entry in said[-2:]:
            who = "you" if entry.kind is EntryKind.USER_MESSAGE else "agent"
            self._view.say(
                f"  {who}: {visible(textwrap.shorten(entry.text, 160, placeholder='…'))}"
            )

    async def run(self, typed: "Input") -> None:
        while not self._over:
            await self._agent.refresh(self._id, self.session)
            text = await typed.read()
            if text is None:
                return
            try:
                await self._take(text)
            except Exception as error:
                # Whatever one message leads to, the next may be typed.
                cause = cause_of(error)
                if not isinstance(cause, OpenClawError):
                    logger.exception("a turn failed")
                self.exit_code = EXIT_FAILED
                self._view.say(f"Error: {sentence(describe(cause))}")

    async def _take(self, text: str) -> None:
        command = parse_command(text)
        if command is not None:
            await self._obey(command)
        elif (wrong := mistyped(text)) is not None:
            self._view.say(wrong)
        elif text.strip():
            await self._turn(text)

    # Commands

    async def _obey(self, command: Typed) -> None:
        does = {
            "/help": self._help,
            "/new": self._new,
            "/session": self._session,
            "/compact": self._compact,
            "/undo": self._undo,
            "/model": self._model,
            "/think": self._think,
            "/usage": self._usage,
            "/tools": self._tools,
            "/image": self._image,
            "/file": self._file,
            "/quit": self._quit,
        }
        await does[command.name](command.rest)

    async def _help(self, _: str) -> None:
        self._view.say(help_text(shutil.get_terminal_size().columns))
        prompts = self._agent.prompts(self._id, self.session)
        if prompts:
            self._view.say("\nPrompts:")
        for prompt in prompts:
            needs = " ".join(f"{argument.name}=…" for argument in prompt.arguments)
            self._view.say(visible(f"  {prompt.command} {needs}".rstrip()))

    async def _new(self, _: str) -> None:
        self.session = new_conversation()
        self._view.say("This is a new conversation.")

    async def _session(self, key: str) -> None:
        if key:
            self.session = key
            await self.recap()
        else:
            self._view.say(f"This is conversation '{visible(self.session)}'.")

    async def _compact(self, rest: str) -> None:
        await self._turn(f"/compact {rest}".strip())

    async def _undo(self, _: str) -> None:
        await self._turn("/undo")

    async def _model(self, name: str) -> None:
        if name == "default":
            self._asked = None
        elif name:
            if (problem := await self._agent.model_problem(name)) is not None:
                self._view.say(visible(sentence(problem)))
                return
            self._asked = name
        models = [self._asked] if self._asked else await self._agent.models(self._id)
        self._view.say(
            visible(", then ".join(models))
            if models
            else "No model is set: the first available one is used."
        )
        if not name and self._choices:
            self._view.say(visible(f"Also configured: {', '.join(self._choices)}"))

    async def _think(self, level: str) -> None:
        if level and level not in (*EFFORTS, "default"):
            self._view.say(f"Unknown level. Choose one of: {', '.join(EFFORTS)}, default.")
            return
        if level:
            self._thinking = None if level == "default" else level
        self._view.say(f"Thinking: {self._thinking or 'default'}.")

    async def _usage(self, _: str) -> None:
        from openclaw.core.clock import SystemClock
        from openclaw.sessions.usage import KEPT_DAYS, UsageLedger, money, total

        ledger = UsageLedger(await self._agent.store(), SystemClock(), self._timezone)
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

    async def _image(self, rest: str) -> None:
        if self._names_a_file("/image", rest):
            await self._attach(images=[named_path(rest, self._home)])

    async def _file(self, rest: str) -> None:
        if self._names_a_file("/file", rest):
            await self._attach(files=[named_path(rest, self._home)])

    def _names_a_file(self, command: str, rest: str) -> bool:
        if not rest:
            self._view.say(f"Say which file: {command} PATH")
        return bool(rest)

    async def _attach(
        self, images: list[Path] | None = None, files: list[Path] | None = None
    ) -> None:
        for one in await read_attachments(images or [], files or [], self._transcriber):
            self._pending.append(one)
            name = visible(one.media.name or "")
            self._view.say(f"{name} ({one.media.mime_type}) will be sent with the next message.")

    async def _quit(self, _: str) -> None:
        self._over = True

    # Turns

    async def _turn(self, text: str) -> None:
        files, missing = mentions(text, self._home)
        for name in missing:
            self._view.say(f"There is no file {visible(name)}, so it is sent as text.")
        mentioned = await read_attachments([], files, self._transcriber)
        context = MessageContext(
            text=text,
            session_key=self.session,
            agent_id=self._id,
            media=(*self._pending, *mentioned),
            origin="cli",
            prompt_calls=True,
            workspace=self._workspace,
            model=self._asked,
            thinking=self._thinking,
        )
        reply: Reply | None = None
        self._interrupts.forget()
        async with _stopped_by_interrupt(self._interrupts) as scope, self._view.turn():
            with scope:
                reply = await self._agent.reply(context, self._listener)
                self._view.finish(reply.text)
        self._pending.clear()  # where the message was refused, they go with the next one
        if reply is None:
            self._view.say("(stopped)")
            return
        if reply.usage.cost:
            self._view.say(f"(${reply.usage.cost:.2g})")
        for media in reply.media:
            self._view.say(visible(f"[{media.mime_type}] {place_of(media)}"))


@asynccontextmanager
async def _stopped_by_interrupt(interrupts: Interrupts) -> AsyncGenerator[anyio.CancelScope]:
    """A scope that Ctrl-C cancels, instead of the program; a second one does not wait for it."""
    scope = anyio.CancelScope()
    if sys.platform == "win32":  # its event loop has no signal handlers; Ctrl-C ends the program
        yield scope
        return
    async with anyio.create_task_group() as tasks:
        with anyio.open_signal_receiver(signal.SIGINT) as signals:

            async def watch() -> None:
                async for _ in signals:
                    if scope.cancel_called:
                        interrupts.leave()
                    interrupts.again()
                    scope.cancel()

            tasks.start_soon(watch, name="interrupts")
            try:
                yield scope
            finally:
                tasks.cancel_scope.cancel()
