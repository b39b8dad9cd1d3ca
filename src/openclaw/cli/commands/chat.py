"""Chat with the agent in the terminal.

The last chat in this directory continues; /new starts another. Type a message and press Enter;
/help lists the commands. Esc or Ctrl-C stops an answer; Ctrl-D, or Ctrl-C twice, quits. If the input is
not a terminal, each line is a message.
"""

import argparse
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TextIO, cast

import anyio

from openclaw.agent.tools.checkpoints import Checkpoints
from openclaw.cli.chat.conversation import ChatCompleter, ChatSession
from openclaw.cli.chat.input import Interrupts, LineInput
from openclaw.cli.chat.terminal_input import EscapeKey, LinesAbove, TerminalInput
from openclaw.cli.chat.terminal_questions import CommandLineApprover, TerminalQuestions
from openclaw.cli.chat.turn_view import AnswerView, TerminalView
from openclaw.cli.commands.agent import (
    CHAT,
    add_session,
    add_turn_options,
    conversation,
    workspace_of,
)
from openclaw.cli.environment import Environment
from openclaw.cli.logging_setup import configure_for, servers_logged
from openclaw.cli.parser import option
from openclaw.cli.run_command import exit_interrupted
from openclaw.core.clock import SystemClock
from openclaw.core.errors import EXIT_OK
from openclaw.core.events import discard
from openclaw.runtime.access import open_agent


def register(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(runs_until_stopped=True)
    add_session(parser, "the conversation to use (default: the last chat in this directory)")
    option(parser, "--agent ID", "the agent to chat with")
    add_turn_options(parser)


def run(args: argparse.Namespace, env: Environment) -> int:
    return anyio.run(_chat, args, env)


async def _chat(args: argparse.Namespace, env: Environment) -> int:
    workspace, redact = workspace_of(args, env), env.redactor.redact
    person: TerminalQuestions | None = None
    if env.stdin.isatty() and env.stdout.isatty():
        terminal = TerminalView(env.stdout, env.stdout, redact, env.environ)
        escape = EscapeKey(env.stdin)
        view, emit, logs = terminal, terminal.note, _logs_above(args, env, terminal)
        if not args.no_questions:
            person = TerminalQuestions.at_terminal(
                env.stdin, env.stdout, view.say, partial(_asking, terminal, escape), env.environ
            )
    else:
        terminal = escape = None
        view, emit, logs = AnswerView(env.stdout, env.stderr, redact), discard, nullcontext()
    consent = CommandLineApprover(args.yes_to, person)
    interrupts = Interrupts(SystemClock(), lambda: exit_interrupted(env))
    with logs, servers_logged(env):
        here = open_agent(env, local=args.local, person=terminal is not None, emit=emit)
        async with here as agent:
            settings = await agent.settings(args.agent)
            context = await conversation(args, agent, settings, workspace, CHAT, resume=[CHAT])
            listener = consent.listener(view.show)
            changes = Checkpoints(env.paths.undo).diff
            chat = ChatSession(
                agent, settings, view, context, listener, interrupts, env.environ, changes, escape
            )
            if terminal is None:
                await chat.run(LineInput(env.stdin))
                if (lacking := consent.lacking()) is not None:
                    env.warn(lacking)
                return chat.exit_code  # for a script, an answer that failed is a failure
            completer = ChatCompleter(
                lambda: agent.prompts(settings.id, chat.session),
                lambda begun: agent.complete(settings.id, begun, chat.session),
            )
            typed = TerminalInput(env, completer, interrupts, view.say)
            place = workspace or settings.directories[0]
            view.say(f"Agent {settings.id} in {place}. /help lists the commands.")
            await chat.recap()
            await chat.run(typed)
    return EXIT_OK


@contextmanager
def _asking(view: "TerminalView", escape: EscapeKey) -> Generator[None]:
    with escape.paused(), view.paused():
        yield


@contextmanager
def _logs_above(
    args: argparse.Namespace, env: Environment, view: "TerminalView"
) -> Generator[None]:
    stream = LinesAbove(view.say, env.stderr)
    configure_for(env, args, cast("TextIO", stream))  # as much of one as a log needs
    try:
        yield
    finally:
        configure_for(env, args)
