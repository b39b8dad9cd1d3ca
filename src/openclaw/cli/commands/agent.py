"""Send the agent one message and print its answer.

Each message starts a new conversation unless you pass --continue or --session-key. Piped input is
sent with the message, like an attached file. The answer goes to stdout, as rendered Markdown on a
terminal and as plain text otherwise; tool calls are shown on stderr as they run.
"""

import argparse
import os
import select
import stat
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from openclaw.agent.port import MessageContext
from openclaw.cli.chat.input import read_attachments
from openclaw.cli.chat.terminal_questions import CommandLineApprover, TerminalQuestions
from openclaw.cli.chat.turn_view import TurnView
from openclaw.cli.environment import Environment, text_of
from openclaw.cli.logging_setup import servers_logged
from openclaw.cli.parser import TakesArguments, add_json, add_local, option
from openclaw.cli.run_command import run_interruptible
from openclaw.cli.terminal import report
from openclaw.config.paths import workspace_here
from openclaw.core.clock import random_id
from openclaw.core.content import InboundMedia, Media
from openclaw.core.errors import InvalidRequest
from openclaw.media.intake import TEXT_BUDGET
from openclaw.policy.decide import problem_of_rule
from openclaw.runtime.access import open_agent
from openclaw.sessions.records import directory_prefix

if TYPE_CHECKING:
    from openclaw.agent.port import Agent, AgentSettings, Reply
    from openclaw.sessions.store import SessionStore

EFFORTS = ("off", "minimal", "low", "medium", "high", "xhigh", "max", "adaptive")
CHAT, AGENT = "chat", "agent"  # kinds of conversations, with which their keys begin
_KEY_LENGTH = 512  # the same limit as in stores and in orders over MCP


def register(parser: argparse.ArgumentParser) -> None:
    option(parser, "[TEXT…]", "the message; '-' reads it from stdin", dest="words")
    option(parser, "-m --message TEXT", "the same, as an option")
    where = parser.add_mutually_exclusive_group()
    last = "continue the last conversation of this directory"
    option(where, "-c --continue", last, dest="resume")
    add_session(where, "the conversation to use (default: a new one)")
    option(parser, "--agent ID", "the agent that answers")
    add_turn_options(parser)
    option(parser, "--image FILE…", "attach an image", type=Path)
    option(parser, "--file FILE…", "attach a file", type=Path)
    add_json(parser)


def add_session(parser: TakesArguments, what: str) -> None:
    option(parser, "--session-key KEY", what, type=session_key)


def _rule(text: str) -> str:
    if problem := problem_of_rule(text):
        kinds = "a tool, a glob, or a command such as 'exec(make test)'"
        raise argparse.ArgumentTypeError(f"must be {kinds}; {text!r} {problem}")
    return text


def add_turn_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a turn's directory, model and approvals."""
    place = "the directory to work in (default: the current one)"
    option(parser, "-C --workspace DIR", place, type=Path)
    option(parser, "--model MODEL", "the model to use, as PROVIDER/NAME (default: the agent's)")
    levels = f"how long the model thinks, if it lets you choose: {', '.join(EFFORTS)}"
    option(parser, "--think LEVEL", levels, choices=EFFORTS)
    add_local(parser)
    rule = "allow these calls without asking: a tool, a glob, or 'exec(make test)'"
    option(parser, "--yes-to RULE…", rule, type=_rule)
    option(parser, "--no-questions", "never ask; refuse calls that need approval")


def workspace_of(args: argparse.Namespace, env: Environment) -> Path | None:
    """The directory to work in; None means the configured one."""
    if args.workspace is not None:
        if not args.workspace.is_dir():
            raise InvalidRequest(f"{args.workspace} is not a directory", field="-C")
        return args.workspace.resolve()
    return workspace_here(env.environ)


def session_key(text: str) -> str:
    if not 0 < len(text) <= _KEY_LENGTH:
        wrong = f"must be 1 to {_KEY_LENGTH} characters long, not {len(text)}"
        raise argparse.ArgumentTypeError(wrong)
    return text


def run(args: argparse.Namespace, env: Environment) -> int:
    message, piped = _message(args, env)
    if not message.strip() and piped is None and not args.image and not args.file:
        raise InvalidRequest("the message is empty")
    reply, consent, session = run_interruptible(env, _turn, args, env, message, piped)
    return report(env, reply, session, consent.refused, consent.lacking(), args.json)


_SILENT_SECONDS = 3.0


def _message(args: argparse.Namespace, env: Environment) -> "tuple[str, str | None]":
    """The message, and what was piped in."""
    if args.words and args.message is not None:
        raise InvalidRequest("give the message only once: as arguments or with -m")
    said = " ".join(args.words) if args.words else args.message
    if said == "-":
        return text_of(env.stdin.read), None
    sends = _is_piped(env.stdin) and (said is None or _comes(env))
    piped = text_of(env.stdin.read) if sends else ""
    if said is None and not piped and not args.image and not args.file:
        hint = f'try: {env.program} agent "What can you do?"'
        raise InvalidRequest("no message given", hint=hint)
    return (said, piped or None) if said is not None else (piped, None)


def _is_piped(stdin: TextIO) -> bool:
    """Whether there may be input: a service's stdin may be open without ever sending anything."""
    try:
        mode = os.fstat(stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _comes(env: Environment) -> bool:
    """Whether to wait for a pipe's end: our parent may leave one open and send nothing."""
    if sys.platform == "win32" or select.select([env.stdin], [], [], _SILENT_SECONDS)[0]:
        return True
    if _parent_writes(env.stdin.fileno()):
        return False
    env.stderr.write("Waiting for piped input. If there is none, add: < /dev/null\n")
    env.stderr.flush()
    return True


def _parent_writes(descriptor: int) -> bool:
    """Whether the parent itself holds the other end, not another command of a pipeline."""
    parent = Path(f"/proc/{os.getppid()}")
    try:
        pipe = Path(f"/proc/self/fd/{descriptor}").readlink()
        ends = [one.name for one in (parent / "fd").iterdir() if one.readlink() == pipe]
        flags = [(parent / "fdinfo" / one).read_text().split()[3] for one in ends]
    except (OSError, IndexError):
        return False
    return any(int(one, 8) & (os.O_WRONLY | os.O_RDWR) for one in flags)


async def conversation(
    args: argparse.Namespace,
    agent: "Agent",
    settings: "AgentSettings",
    workspace: Path | None,
    kind: str,
    *,
    resume: Sequence[str],
) -> "MessageContext":
    """The conversation that the options select, or the last one of these kinds in this directory.

    A `kind` is how the keys of a command's conversations begin.
    """
    key, place = args.session_key, workspace or settings.directories[0]
    if key is None and resume:
        key = await _last(await agent.store(), settings.id, place, resume)
    return MessageContext(
        text="",
        session_key=key or new_conversation(kind, place),
        agent_id=settings.id,
        prompt_calls=True,
        workspace=workspace,
        model=args.model,
        thinking=args.think,
    )


async def _last(store: "SessionStore", agent: str, place: Path, kinds: Sequence[str]) -> str | None:
    prefixes = tuple(directory_prefix(kind, place) for kind in kinds)
    page = await store.list_sessions(agent, search=directory_prefix("", place))
    return next((one.key for one in page.sessions if one.key.startswith(prefixes)), None)


def new_conversation(kind: str, place: Path) -> str:
    return f"{directory_prefix(kind, place)}{random_id()[:12]}"


async def _turn(
    args: argparse.Namespace, env: Environment, message: str, piped: str | None
) -> "tuple[Reply, CommandLineApprover, str]":
    workspace = workspace_of(args, env)
    view = TurnView(env.stderr, env.redactor.redact, env.environ)
    consent = CommandLineApprover(args.yes_to, _questions(args, env, view))
    with servers_logged(env):
        async with (
            open_agent(env, local=args.local, emit=view.note) as agent,
            view.working(quiet=args.json),
        ):
            settings = await agent.settings(args.agent)
            resume = (CHAT, AGENT) if args.resume else ()
            context = await conversation(args, agent, settings, workspace, AGENT, resume=resume)
            media = await _attachments(args, env, settings, piped)
            listener = consent.listener(None if args.json else view.show)
            reply = await agent.reply(replace(context, text=message, media=media), listener)
            return reply, consent, context.session_key


async def _attachments(
    args: argparse.Namespace, env: Environment, settings: "AgentSettings", piped: str | None
) -> "tuple[InboundMedia, ...]":
    if not args.image and not args.file and piped is None:
        return ()
    text = (piped or "")[:TEXT_BUDGET]
    found = await read_attachments(
        args.image, args.file, settings.transcriber, budget=TEXT_BUDGET - len(text)
    )
    if piped is not None:
        note = f"cut to {TEXT_BUDGET} characters" if len(piped) > TEXT_BUDGET else None
        media = Media("text/plain", data=text.encode(), name="stdin")
        found = (*found, InboundMedia(media, text, note))
    for one in found:
        if one.note:
            env.warn(f"{env.program}: Warning: {one.media.name or 'an attachment'}: {one.note}")
    return found


def _questions(
    args: argparse.Namespace, env: Environment, view: "TurnView"
) -> "TerminalQuestions | None":
    quiet = args.json or args.no_questions or "-" in (args.message, *args.words)
    if quiet or not (env.stdin.isatty() and env.stderr.isatty()):
        return None
    return TerminalQuestions.at_terminal(env.stdin, env.stderr, view.say, view.paused, env.environ)
