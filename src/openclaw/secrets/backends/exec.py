"""`secret://exec/NAME`: what a configured command prints, without the last newline."""

from collections.abc import Mapping
from typing import Any, Final

import anyio

from openclaw.secrets.backends.command import find_program, run_program
from openclaw.secrets.backends.lookup import Lookup
from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure

# What a program needs to run at all; anything else has to be given to it in the configuration.
_INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ",
                     "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
                     "SSH_AUTH_SOCK", "GNUPGHOME", "GPG_TTY", "DISPLAY", "WAYLAND_DISPLAY")  # fmt: skip


class ExecBackend:
    """Runs the commands of `secrets.exec`; a reference only ever names one, it cannot add to it."""

    def __init__(
        self, commands: Mapping[str, Any], environ: Mapping[str, str], lookup: Lookup
    ) -> None:
        self._commands = commands
        self._environ = environ
        self._lookup = lookup

    async def read(self, ref: SecretRef) -> str:
        """The command's output."""
        command = self._commands.get(ref.name)
        if command is None:
            known = ", ".join(sorted(self._commands)) or "none"
            raise BackendFailure(
                f"no command '{ref.name}' is configured", hint=f"secrets.exec has: {known}"
            )
        program = find_program(command["command"], self._environ)
        if program is None:
            raise BackendFailure(f"the program {command['command']} was not found")
        environ = {key: self._environ[key] for key in _INHERITED if key in self._environ}
        given: Mapping[str, Any] = command.get("env") or {}
        for key, value in given.items():
            environ[key] = await self._lookup(str(value))
        limit = command.get("timeout_ms")
        with anyio.move_on_after(limit / 1000 if limit else None):
            finished = await run_program([program, *command.get("args", ())], environ)
            return _value(ref.name, finished.code, finished.output)
        raise BackendFailure(f"the command took longer than {limit} ms")


def _value(name: str, code: int, output: str) -> str:
    if code != 0:
        raise BackendFailure(f"the command '{name}' failed with exit code {code}")
    value = output.removesuffix("\n").removesuffix("\r")
    if not value:
        raise BackendFailure(f"the command '{name}' printed nothing")
    return value
