"""All commands with all their parsers, for what describes them: completion, the manual, tests."""

import argparse
import importlib
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, cast

from openclaw.cli.commands import COMMANDS, Command
from openclaw.cli.parser import CommandParser, subcommands

_WIDTH = 78


def command_parser(program: str, command: Command) -> CommandParser:
    """The parser of one command, with its subcommands; imports the command's module."""
    module: Any = importlib.import_module(command.module)
    parser = CommandParser(prog=f"{program} {command.name}", description=_wrapped(module.__doc__))
    module.register(parser)
    return parser


def all_parsers(program: str) -> Iterator[tuple[str, CommandParser]]:
    """Every command and subcommand by its words, such as `mcp add`."""
    for command in COMMANDS:
        yield from _walk(command.name, command_parser(program, command))


def _walk(words: str, parser: CommandParser) -> Iterator[tuple[str, CommandParser]]:
    yield words, parser
    for name, inner in subparsers(parser).items():
        yield from _walk(f"{words} {name}", inner)


def subparsers(parser: argparse.ArgumentParser) -> Mapping[str, CommandParser]:
    """The parser's own subcommands."""
    action = subcommands(parser)
    return {} if action is None else cast("Mapping[str, CommandParser]", action.choices)


def _wrapped(text: str | None) -> str:
    """The paragraphs of a docstring, filled for a terminal of 80 columns."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(textwrap.fill(paragraph, _WIDTH) for paragraph in paragraphs)
