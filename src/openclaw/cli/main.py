"""The entry points. Nothing heavy is imported before the command is known."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from openclaw.mcp_server.options import Options
    from openclaw.mcp_server.stdio import OpenService

_PR_SET_DUMPABLE = 4
_INTERRUPTED = 130  # as a shell reports SIGINT
_WORLD_WRITABLE = 0o002


def main() -> int:
    return _run_process("openclaw")


def clawdbot() -> int:
    """The command `clawdbot`: the same program under its older name."""
    return _run_process("clawdbot")


def _run_process(program: str) -> int:
    _open_closed_streams()
    # Regardless of the shell's umask, nothing that we or our children create is world-writable.
    os.umask(os.umask(_WORLD_WRITABLE) | _WORLD_WRITABLE)
    try:
        code = run(program, sys.argv[1:], own_process=True)
        if sys.stdout is not None:  # closed by whoever started us
            sys.stdout.flush()
    except KeyboardInterrupt:  # also while something is still being imported
        return _INTERRUPTED
    except OSError as error:
        from openclaw.cli.run_command import NO_ROOM, cannot_write, output_fails

        if error.errno not in NO_ROOM and not output_fails(error):  # commands report a full disk
            raise
        return cannot_write(program, error)
    return code


def _open_closed_streams() -> None:
    """Otherwise the first file we open gets the descriptor of a stream the shell closed (`<&-`)."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            os.dup2(opened, number)
            if opened == number:
                os.set_inheritable(number, True)
            else:
                os.close(opened)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def run(program: str, arguments: list[str], *, own_process: bool = False) -> int:
    """Returns the exit code; `own_process` if nothing else runs in this process."""
    if arguments in (["--version"], ["-V"]):
        from openclaw.cli.build_version import version_text

        sys.stdout.write(f"{program} {version_text()}\n")
        return 0
    if arguments[:1] in (["mcp-server"], ["mcp-hub"]):
        # A client waits for the handshake: nothing else is imported before it is answered.
        from openclaw.mcp_server.options import parse_options

        options = parse_options(arguments[1:])
        if options is not None and "".join(arguments).isprintable():  # else reported below
            _serve_mcp(program, arguments[0], options)
    if own_process:
        hide_environment()
    from openclaw.cli.run_command import dispatch

    return dispatch(program, arguments)


def _serve_mcp(program: str, command: str, options: "Options") -> "NoReturn":
    from openclaw.mcp_server import stdio

    def load() -> "OpenService":
        from openclaw.cli.commands import mcp_hub, mcp_server

        hide_environment()
        return (mcp_hub if command == "mcp-hub" else mcp_server).load_first(program, options)

    if command == "mcp-hub":
        from openclaw.mcp_hub.offer import OFFER

        stdio.serve(OFFER, {}, load)
    stdio.serve_orders(program, load)


def hide_environment() -> None:
    """Make our environment and memory unreadable to other processes of this user (Linux).

    Without it any MCP server reads the keys in our environment from /proc. No debugger can attach
    and no core is dumped; programs that we start are not affected.
    """
    if sys.platform != "linux":
        return
    import ctypes

    try:
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (OSError, AttributeError):  # a C library without it: carry on
        return
