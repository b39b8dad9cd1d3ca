"""The entry points. Nothing heavy is imported before it is known what was asked."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> "NoReturn":
    """The command `openclaw`."""
    sys.exit(run("openclaw", sys.argv[1:]))


def clawdbot() -> "NoReturn":
    """The command `clawdbot`: the same program under its older name."""
    sys.exit(run("clawdbot", sys.argv[1:]))


def run(program: str, arguments: list[str]) -> int:
    """Do what the arguments ask and return the exit code."""
    if arguments in (["--version"], ["-V"]):
        from openclaw.version import __version__

        sys.stdout.write(f"{program} {__version__}\n")
        return 0
    from openclaw.cli.dispatch import dispatch

    return dispatch(program, arguments)
