"""Prints the manual page, for man(1), made from the commands' own help."""

import argparse
import re
from collections.abc import Iterator

from openclaw.cli.parser import (
    COMMANDS,
    CommandParser,
    actions,
    command_parser,
    examples,
    subparsers,
)
from openclaw.version import __version__

_COMMON = {"--config", "--verbose", "--log-json", "--help"}
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_INTRODUCTION = (
    "A personal agent that plugs into any MCP server and that any MCP client can delegate to."
)
_FILES = (
    ("~/.openclaw/openclaw.json", "The configuration: JSON5, with comments."),
    ("~/.openclaw", "State: conversations, the audit log, weights, pins; readable only by you."),
)
_VARIABLES = (
    ("OPENCLAW_CONFIG_PATH", "Another configuration file."),
    ("OPENCLAW_STATE_DIR", "Another state directory."),
    ("NO_COLOR, FORCE_COLOR, CLICOLOR", "Turn colours off or on."),
    (
        "ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY",
        "If no model is configured, the first of these that is set determines it.",
    ),
)
_EXIT = (
    ("0", "Fine."),
    ("1", "The operation failed."),
    ("2", "Wrong usage or configuration."),
    ("130", "Interrupted."),
)


def all_parsers(program: str) -> Iterator[tuple[str, CommandParser]]:
    def walk(words: str, parser: CommandParser) -> Iterator[tuple[str, CommandParser]]:
        yield words, parser
        for name, inner in subparsers(parser).items():
            yield from walk(f"{words} {name}", inner)

    for name in COMMANDS:
        yield from walk(name, command_parser(program, name))


def man_page(program: str = "openclaw") -> str:
    lines = [
        f'.TH "{program.upper()}" "1" "" "{program} {__version__}" "User Commands"',
        ".SH NAME",
        f"{program} \\- a personal agent with MCP in both directions",
        ".SH SYNOPSIS",
        f".B {program}",
        ".I COMMAND",
        "[options]",
        ".SH DESCRIPTION",
        _text(_INTRODUCTION),
        ".SH COMMANDS",
    ]
    for name, summary in COMMANDS.items():
        lines += [".TP", f".B {_text(name)}", _text(summary)]
    lines += _section("COMMON OPTIONS", _common(program))
    for words, parser in all_parsers(program):
        lines += _command(program, words, parser)
    lines += _section("FILES", _FILES)
    lines += _section("ENVIRONMENT", _VARIABLES)
    lines += _section("EXIT STATUS", _EXIT)
    return "\n".join(line for line in lines if line) + "\n"


def _section(title: str, entries: "tuple[tuple[str, str], ...]") -> list[str]:
    lines = [f".SH {title}"]
    for name, meaning in entries:
        lines += [".TP", f".B {_text(name)}", _text(meaning)]
    return lines


def _common(program: str) -> tuple[tuple[str, str], ...]:
    _, parser = next(iter(all_parsers(program)))
    return tuple(
        (_invocation(one), one.help or "")
        for one in actions(parser)
        if _COMMON & set(one.option_strings)
    )


def _command(program: str, words: str, parser: argparse.ArgumentParser) -> list[str]:
    usage = re.sub(r"\s+", " ", parser.format_usage().removeprefix("usage: "))
    lines = [f'.SH "{program.upper()} {words.upper()}"', f".B {_text(usage.strip())}", ".PP"]
    paragraphs = (parser.description or "").split("\n\n")
    lines += ["\n.PP\n".join(_text(" ".join(one.split())) for one in paragraphs)]
    for one in actions(parser):
        if one.help and one.help is not argparse.SUPPRESS and not _COMMON & set(one.option_strings):
            told = one.help % {**vars(one), "prog": parser.prog}
            lines += [".TP", f".B {_text(_invocation(one))}", _text(told)]
    shown = [f".RS 4\n{_text(f'{program} {line}')}\n.RE" for line in examples().get(words, ())]
    return [*lines, ".PP", "Examples:", ".nf", *shown, ".fi"] if shown else lines


def _invocation(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar or action.dest)
    value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
    return ", ".join(f"{flag}{value}" for flag in action.option_strings)


def _text(text: str) -> str:
    """Escaped: a backslash, a hyphen that is typed, what is not ASCII, a dot at a line's beginning."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = _NOT_ASCII.sub(lambda match: f"\\[u{ord(match[0]):04X}]", escaped)
    lines = [rf"\&{line}" if line[:1] in (".", "'") else line for line in escaped.split("\n")]
    return "\n".join(lines)


if __name__ == "__main__":
    print(man_page(), end="")
