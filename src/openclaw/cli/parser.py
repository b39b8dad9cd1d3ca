"""The argument parser that every command and subcommand shares."""

import argparse
from pathlib import Path
from typing import Any

from openclaw.cli.examples import epilog


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


COMMON_DEFAULTS: dict[str, Any] = {"config": None, "verbose": False, "log_json": False}


def parse(parser: CommandParser, arguments: list[str]) -> argparse.Namespace:
    """Parse, with the common options at their defaults where they were not given."""
    return parser.parse_args(arguments, argparse.Namespace(**COMMON_DEFAULTS))
