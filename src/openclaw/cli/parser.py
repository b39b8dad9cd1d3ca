"""The argument parser that every command and subcommand shares."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from openclaw.cli.examples import epilog
from openclaw.core.wire import EXIT_USAGE

_GIVEN = re.compile(r"invalid choice: '([^']*)'")


class WrongUsage(SystemExit):
    """Raised when the arguments are wrong, which a person has been told on stderr by then."""

    def __init__(self, message: str) -> None:
        super().__init__(EXIT_USAGE)
        self.message = message


class CommandParser(argparse.ArgumentParser):
    """A parser with the options that stand on every command, before or after the subcommand."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)
        self.epilog = self.epilog or epilog(self.prog)
        # SUPPRESS keeps a subcommand's default from overwriting what stood before the subcommand.
        common = self.add_argument_group("common options")
        common.add_argument(
            "--config",
            type=Path,
            metavar="PATH",
            default=argparse.SUPPRESS,
            help="the configuration file (default: ~/.openclaw/openclaw.json)",
        )
        common.add_argument(
            "-v",
            "--verbose",
            action="store_true",
            default=argparse.SUPPRESS,
            help="log what happens in detail, on stderr",
        )
        common.add_argument(
            "--log-json",
            action="store_true",
            default=argparse.SUPPRESS,
            help="log as JSON lines",
        )

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - argparse has overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse; a wrong option is told with the usage of the action that it was given to."""
        found, rest = super().parse_known_args(args, namespace)
        if rest and subcommands(self) is None:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Say what is wrong; where an action is, which ones there are."""
        if "ACTION" not in message:
            self.print_usage(sys.stderr)
            self._print_message(f"{self.prog}: error: {message}\n", sys.stderr)
            raise WrongUsage(message)
        given = _GIVEN.search(message)
        wrong = f"there is no action {given[1]!r}" if given else "say what to do"
        lines = [f"{self.prog}: {wrong}; there are:"]
        listed = summaries(self)
        width = max(map(len, listed), default=0)
        lines += [f"  {name:<{width}}  {summary}" for name, summary in listed.items()]
        self._print_message("\n".join(lines) + "\n", sys.stderr)
        raise WrongUsage(wrong)


def summaries(parser: argparse.ArgumentParser) -> dict[str, str]:
    """What each of the parser's subcommands does, in a line."""
    action = subcommands(parser)
    if action is None:
        return {}
    return {str(one.dest): one.help or "" for one in action._choices_actions}  # noqa: SLF001 - argparse tells nobody else


def subcommands(parser: argparse.ArgumentParser) -> Any:
    """The action of argparse's that has them, or None."""
    kind: Any = argparse._SubParsersAction  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - it has no other name
    return next((one for one in actions(parser) if isinstance(one, kind)), None)


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The parser's options and arguments."""
    return parser._actions  # noqa: SLF001 - argparse tells nobody else


COMMON_DEFAULTS: dict[str, Any] = {"config": None, "verbose": False, "log_json": False}


def parse(parser: CommandParser, arguments: list[str]) -> argparse.Namespace:
    """Parse, with the common options at their defaults where they were not given."""
    return parser.parse_args(arguments, argparse.Namespace(**COMMON_DEFAULTS))
