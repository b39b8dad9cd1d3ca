"""Where values come from: one backend per scheme. Only the composition root opens them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openclaw.secrets.backends.local import (
    EnvBackend,
    ExecBackend,
    FileBackend,
    KeyringBackend,
    OpBackend,
    StoreBackend,
)
from openclaw.secrets.backends.remote import AwsBackend, AzureBackend, GcpBackend, VaultBackend
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import Backend, SecretResolver

Options = Mapping[str, Any]


def open_backends(
    options: Mapping[str, Any], environ: Mapping[str, str], redactor: Redactor, state: Path
) -> dict[str, Backend]:
    """A backend for each scheme. Opening one connects to nothing and imports no library."""

    def section(name: str) -> Options:
        return options.get(name) or {}

    # A store's own credential may itself be a reference, to a place that needs no credential.
    simple: dict[str, Backend] = {
        "env": EnvBackend(environ),
        "file": FileBackend(section("file"), environ),
        "keyring": KeyringBackend(section("keyring")),
        "store": StoreBackend(state),
    }
    first = SecretResolver(simple, redactor)

    async def lookup(text: str) -> str:
        return (await first.resolve_text(text)).reveal()

    async def credential(text: str) -> str:
        value = await lookup(text)
        redactor.register(value)
        return value

    return {
        **simple,
        "exec": ExecBackend(section("exec"), environ, lookup),
        "vault": VaultBackend(section("vault"), environ, credential),
        "aws": AwsBackend(section("aws"), environ),
        "gcp": GcpBackend(section("gcp"), environ),
        "azure": AzureBackend(section("azure")),
        "op": OpBackend(section("op"), environ),
    }
