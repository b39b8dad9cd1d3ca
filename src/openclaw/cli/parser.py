"""The argument parser that every command and subcommand shares."""

import argparse
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from openclaw.config.merge import default_agent_id, effective_agents
from openclaw.core.errors import EXIT_USAGE, NotFound, sentence
from openclaw.mcp_client.bounds import printable

if TYPE_CHECKING:
    from openclaw.config.merge import EffectiveAgent
    from openclaw.config.schema import Config


@cache
def examples() -> dict[str, list[str]]:
    """The examples that each command's help shows."""
    text = Path(__file__).with_name("examples.txt").read_text("utf-8")
    blocks = [block.splitlines() for block in text.split("\n\n")]
    return {command: [line.strip() for line in lines] for command, *lines in blocks}


def nearest(word: str, known: Iterable[str], least: float = 0.7) -> str | None:
    """The word that was probably meant; with this `least`, /foo doesn't match /file."""
    return next(iter(get_close_matches(word, list(known), 1, least)), None)


_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


class TakesArguments(Protocol):
    """A parser, or a group of its arguments."""

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action: ...


class WrongUsage(SystemExit):
    """Raised when the arguments are wrong, after saying so on stderr."""

    def __init__(self, message: str) -> None:
        super().__init__(EXIT_USAGE)
        self.message = message


class CommandParser(argparse.ArgumentParser):
    """A parser with the options that every command has, before or after the subcommand."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.subparsers: Any = None  # what `add_subparsers` returned
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)
        # SUPPRESS keeps a subcommand's default from overwriting an option given before it.
        common = self.add_argument_group("common options")
        hidden: Any = argparse.SUPPRESS
        file = "the configuration file (default: ~/.openclaw/openclaw.json)"
        option(common, "--config PATH", file, type=Path, default=hidden)
        option(common, "-v --verbose", "log in detail, on stderr", default=hidden)
        option(common, "--log-json", "log as JSON lines", default=hidden)

    def format_help(self) -> str:
        self.epilog = self._examples()
        return super().format_help()

    def _examples(self) -> str:
        program, _, command = self.prog.partition(" ")
        lines = [f"  {program} {line}" for line in examples().get(command, ())]
        return "\n".join(["examples:", *lines]) if lines else ""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - argparse has overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse; the error for an unknown option shows the usage of the action it was passed to."""
        found, rest = super().parse_known_args(args, namespace)
        if rest and self.subparsers is None:
            word = rest[0]
            if not word.startswith("-"):
                self.error(f"unexpected argument '{word}'")
            options = [flag for action in actions(self) for flag in action.option_strings]
            near = nearest(word.partition("=")[0], options)
            self.error(f"unknown option {word!r}" + (f"; did you mean {near}?" if near else ""))
        return found, rest

    def add_subparsers(self, **kwargs: Any) -> Any:
        self.subparsers = super().add_subparsers(**kwargs)
        return self.subparsers

    def print_help(self, file: Any = None) -> None:
        (file or sys.stdout).write(self.format_help())  # argparse would hide a write error

    def error(self, message: str) -> NoReturn:
        choice = _CHOICE.search(message)
        if "ACTION" not in message:
            if choice:
                known = choice[2].replace("'", "")
                near = nearest(choice[1], known.split(", "))
                advice = f"did you mean {near}?" if near else f"choose from {known}"
                message = f"invalid choice {choice[1]!r}; {advice}"
            self.print_usage(sys.stderr)
            sys.stderr.write(f"{self.prog}: {sentence(message)}\n")
            if "are required" in message and (shown := self._examples()):
                sys.stderr.write(f"{shown}\n")
            raise WrongUsage(message)
        listed = summaries(self)
        wrong = f"unknown action {choice[1]!r}" if choice else "an action is missing"
        near = nearest(choice[1], listed) if choice else None
        guess = f" Did you mean '{near}'?" if near else ""
        lines = [f"{self.prog}: {sentence(wrong)}.{guess} Actions:"]
        width = max(map(len, listed), default=0)
        lines += [f"  {name:<{width}}  {summary}" for name, summary in listed.items()]
        sys.stderr.write("\n".join(lines) + "\n")
        raise WrongUsage(wrong)


def subparsers(parser: CommandParser) -> Mapping[str, CommandParser]:
    """The parsers of a command's actions, by name."""
    return {} if parser.subparsers is None else parser.subparsers.choices


def summaries(parser: CommandParser) -> dict[str, str]:
    return {name: inner.description or "" for name, inner in subparsers(parser).items()}


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # noqa: SLF001 - argparse tells nobody else


def parse(parser: CommandParser, arguments: list[str]) -> argparse.Namespace:
    defaults = argparse.Namespace(config=None, verbose=False, log_json=False)
    return parser.parse_args(arguments, defaults)


COMMANDS: Final = {
    "acp": "serve the agent to an editor over ACP on stdio",
    "agent": "send the agent one message and print its answer",
    "chat": "chat with the agent in the terminal",
    "completion": "print a completion script for a shell",
    "config": "show, change, check and explain the configuration",
    "cron": "run the agent on a schedule",
    "doctor": "find problems and say how to fix them",
    "gateway": "keep the agent running in the background",
    "init": "set up: a model, MCP servers, other programs",
    "logs": "print the gateway's log",
    "mcp": "manage the MCP servers that the agent uses",
    "mcp-hub": "let an MCP client use your MCP servers through this one",
    "mcp-server": "serve the agent to an MCP client over stdio",
    "memory": "show, search and clear the agent's memory",
    "models": "list models, see which is used, download weights",
    "page": "open the gateway's page in a browser",
    "questions": "list and answer questions that wait for you",
    "secrets": "store secrets, and check that every reference resolves",
    "sessions": "list, read and delete stored conversations",
    "skills": "list, add and remove skills",
    "status": "show what is configured and running",
    "tasks": "list, show and cancel long orders",
    "uninstall": "undo what set-up did on this computer",
    "upgrade": "upgrade this installation, or go back",
    "usage": "show what you used and what it cost",
}


def command_module(name: str) -> Any:
    """The module that has the command's `register` and `run`."""
    return importlib.import_module(f"openclaw.cli.commands.{name.replace('-', '_')}")


def command_parser(program: str, name: str) -> CommandParser:
    module = command_module(name)
    paragraphs = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    about = "\n\n".join(textwrap.fill(paragraph, 78) for paragraph in paragraphs)
    parser = CommandParser(prog=f"{program} {name}", description=about)
    module.register(parser)
    return parser


def option(
    parser: TakesArguments,
    usage: str,
    what: str | None = None,
    **others: Any,
) -> None:
    """Declare an argument as its usage is written; `others` are argparse's own.

    `--lazy` is a flag, `-n --lines N` takes a value, `--env K=V…` can be repeated. Without an option,
    `NAME` is an argument, `[NAME]` an optional one, `NAME…` one or more, `[NAME…]` any number.
    """
    words = usage.split(" ")
    flags = [word for word in words if word.startswith("-")]
    shown = " ".join(words[len(flags) :])
    name = shown.strip("[]").removesuffix("…")
    settings: dict[str, Any] = {"help": what, "metavar": name or None}
    if not flags:
        flags = [others.pop("dest", name.lower())]
        several = {"[]": "*", "[": "?", "…": "+"}
        kind = "[]" if shown.endswith("…]") else "[" if shown[0] == "[" else shown[-1]
        settings["nargs"] = several.get(kind)
    elif shown.endswith("…"):
        settings |= {"action": "append", "default": []}
    elif not name and "choices" not in others:
        del settings["metavar"]
        settings["action"] = "store_true"
    parser.add_argument(*flags, **(settings | others))


def add_json(parser: TakesArguments) -> None:
    option(parser, "--json", "print JSON and nothing else")


def whole_number(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        # Length is checked first: Python refuses to parse a number of thousands of digits.
        few = text.isascii() and text.isdigit() and len(text) <= len(str(high))
        if not few or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {low} to {high}, not {text!r}"
            )
        return int(text)

    return read


def add_local(parser: argparse.ArgumentParser) -> None:
    option(parser, "--local", "don't use a running gateway")


def add_action(
    actions: Any, name: str, summary: str, run: object = None, *, json: bool = True
) -> argparse.ArgumentParser:
    """An action of a command; `run` is what the command finds as `args.action`."""
    parser: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary)
    if run is not None:
        parser.set_defaults(action=run)
    if json:
        add_json(parser)
    return parser


_MOST_NAMED = 20
_LONGEST = 200  # a server may call its tools anything
_NEAR = 0.8  # a letter or two; a server's tools often have similar names


def not_there(words: str, name: str, known: Iterable[str], least: float = _NEAR) -> NotFound:
    names = list(known)
    near = nearest(name, names, least)
    if near:
        return NotFound(words, hint=f"did you mean '{printable(near, _LONGEST)}'?")
    there = ", ".join(printable(one, _LONGEST) for one in names[:_MOST_NAMED])
    return NotFound(words, hint=f"available: {there}" if there else None)


def chosen_agent(config: "Config", wanted: str | None) -> "EffectiveAgent":
    agents = effective_agents(config)
    name = wanted or default_agent_id(config)
    if name not in agents:
        raise not_there(f"there is no agent '{name}'", name, agents)
    return agents[name]


def no_server(name: str, known: Iterable[str]) -> NotFound:
    return not_there(f"no MCP server '{name}' is configured", name, known)
