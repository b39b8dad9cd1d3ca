"""Chat with the agent in the terminal.

The last conversation continues; /new starts another. Type a message and press Enter; /help lists
the commands. Ctrl-C stops an answer; Ctrl-D, or Ctrl-C twice, quits. If the input is not a
terminal, each line is a message.
"""

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, cast

import anyio

from openclaw.cli.commands.agent import (
    add_model,
    add_session,
    add_workspace,
    last_conversation,
    new_conversation,
    register_consent,
    workspace_of,
)
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_local
from openclaw.core.errors import EXIT_OK

if TYPE_CHECKING:
    from openclaw.cli.chat.input import Interrupts
    from openclaw.cli.chat.view import TerminalView


def register(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(goes_on=True)
    add_session(parser, "the conversation to use (default: the last one)")
    parser.add_argument("--agent", metavar="ID", help="the agent to chat with")
    add_workspace(parser)
    add_model(parser)
    add_local(parser)
    register_consent(parser)


def run(args: argparse.Namespace, env: Environment) -> int:
    interactive = env.stdin.isatty() and env.stdout.isatty()
    return anyio.run(_at_terminal if interactive else _by_lines, args, env)


async def _by_lines(args: argparse.Namespace, env: Environment) -> int:
    from openclaw.cli.chat.conversation import Talk
    from openclaw.cli.chat.input import LineInput
    from openclaw.cli.chat.questions import Consent
    from openclaw.cli.chat.view import PlainView
    from openclaw.cli.logs import servers_logged
    from openclaw.runtime.access import open_agent

    workspace = workspace_of(args, env)
    view = PlainView(env.stdout, env.stderr, env.redactor.redact)
    with servers_logged(env):
        async with open_agent(env, local=args.local) as agent:
            settings = await agent.settings(args.agent)
            last = None if args.session_key else await last_conversation(agent, settings.id)
            talk = Talk(
                agent,
                settings,
                view,
                args.session_key or (last.key if last else new_conversation()),
                env.environ,
                _interrupts(env),
                consent := Consent(args.yes_to, None),
                workspace=workspace,
                model=args.model,
                thinking=args.think,
            )
            await talk.run(LineInput(env.stdin))
    if (lacking := consent.lacking()) is not None:
        env.warn(lacking)
    # For a script that feeds us, an answer that failed is a failure.
    return talk.exit_code


async def _at_terminal(args: argparse.Namespace, env: Environment) -> int:
    from openclaw.cli.chat.conversation import ChatCompleter, Talk
    from openclaw.cli.chat.input import open_terminal_input
    from openclaw.cli.chat.questions import Consent, Questions
    from openclaw.cli.chat.view import TerminalView
    from openclaw.cli.logs import servers_logged
    from openclaw.cli.render.terminal import console
    from openclaw.runtime.access import open_agent

    workspace = workspace_of(args, env)
    view = TerminalView(console(env.stdout, env.environ), env.redactor.redact)
    questions = Questions.at_terminal(env.stdin, env.stdout, view.say, view.paused)
    with _logs_above(args, env, view), servers_logged(env):
        async with open_agent(env, local=args.local, emit=view.doing.note) as agent:
            settings = await agent.settings(args.agent)
            last = None if args.session_key else await last_conversation(agent, settings.id)
            interrupts = _interrupts(env)
            person = None if args.no_questions else questions
            talk = Talk(
                agent,
                settings,
                view,
                args.session_key or (last.key if last else new_conversation()),
                env.environ,
                interrupts,
                Consent(args.yes_to, person.permit if person is not None else None),
                person.elicit if person is not None else None,
                workspace=workspace,
                model=args.model,
                thinking=args.think,
            )
            completer = ChatCompleter(
                lambda: agent.prompts(settings.id, talk.session),
                complete=lambda begun: agent.complete(settings.id, begun, talk.session),
            )
            typed = open_terminal_input(
                env.stdin,
                env.stdout,
                completer=completer,
                history=env.paths.chat_history,
                redact=env.redactor.redact,
                environ=env.environ,
                interrupts=interrupts,
                say=view.say,
            )
            place = workspace or settings.directories[0]
            view.say(f"Agent {settings.id} in {place}. /help lists the commands.")
            await talk.recap()
            await talk.run(typed)
    return EXIT_OK


def _interrupts(env: Environment) -> "Interrupts":
    from openclaw.cli.chat.input import Interrupts
    from openclaw.cli.dispatch import leave
    from openclaw.core.clock import SystemClock

    return Interrupts(SystemClock(), lambda: leave(env))


@contextmanager
def _logs_above(
    args: argparse.Namespace, env: Environment, view: "TerminalView"
) -> Generator[None]:
    """Log lines go above what moves on the screen, not through it."""
    from openclaw.cli.chat.view import LinesAbove
    from openclaw.cli.logs import configure

    def set_up(stream: TextIO) -> None:
        configure(
            level="debug" if args.verbose else "warning",
            json=args.log_json,
            redactor=env.redactor,
            stream=stream,
            environ=env.environ,
            plain=not args.verbose,
        )

    set_up(cast("TextIO", LinesAbove(view.say, env.stderr)))  # as much of one as a log needs
    try:
        yield
    finally:
        set_up(env.stderr)
