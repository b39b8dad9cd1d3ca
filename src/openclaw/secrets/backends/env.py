"""`secret://env/VAR`: a variable of the environment this program was started in."""

import re
from collections.abc import Mapping

from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class EnvBackend:
    """Reads the environment it was given; an empty variable counts as a missing one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    async def read(self, ref: SecretRef) -> str:
        """The variable's value."""
        value = self._environ.get(ref.name)
        if value:
            return value
        if value is None and not _NAME.fullmatch(ref.name):
            raise BackendFailure(
                "this is not the name of an environment variable",
                hint="where more text follows a reference, write <secret://env/VAR>",
            )
        state = "empty" if value == "" else "not set"
        raise BackendFailure(f"the environment variable {ref.name} is {state}")
