"""`secret://op/VAULT/ITEM/FIELD`: 1Password, through its `op` command."""

from collections.abc import Mapping
from typing import Any, Final

from openclaw.secrets.backends.exec import find_program, run_program
from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure

# What the program says, and what we say of it; its own words might carry more than the reason.
_REASONS: Final = (
    ("isn't a vault", "there is no such vault"),
    ("isn't an item", "there is no such item"),
    ("isn't a field", "the item has no such field"),
    ("does not have a field", "the item has no such field"),
    ("signed in", "nobody is signed in to 1Password"),
    ("session expired", "the 1Password session has expired"),
    ("authorization", "1Password refused"),
)


class OpBackend:
    """Asks `op read`."""

    def __init__(self, options: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._account = options.get("account")
        self._vault = options.get("vault")
        self._environ = environ

    async def read(self, ref: SecretRef) -> str:
        """The field's value."""
        program = find_program("op", self._environ)
        if program is None:
            raise BackendFailure(
                "the 1Password command 'op' is not installed",
                hint="see https://developer.1password.com/docs/cli",
            )
        account = ["--account", str(self._account)] if self._account else []
        argv = [program, "read", "--no-newline", *account, f"op://{self._path(ref.name)}"]
        finished = await run_program(argv, self._environ)
        if finished.code != 0:
            said = finished.errors.lower()
            known = next((reason for words, reason in _REASONS if words in said), None)
            raise BackendFailure(known or f"op failed with exit code {finished.code}")
        if not finished.output:
            raise BackendFailure("the field is empty")
        return finished.output

    def _path(self, name: str) -> str:
        parts = name.strip("/").split("/")
        if len(parts) == 2 and self._vault:
            parts.insert(0, str(self._vault))
        if len(parts) not in (3, 4) or not all(parts):
            raise BackendFailure("write secret://op/VAULT/ITEM/FIELD")
        return "/".join(parts)
