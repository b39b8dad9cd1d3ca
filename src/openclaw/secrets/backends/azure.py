"""`secret://azure/VAULT/NAME[#VERSION]`: Azure Key Vault."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from openclaw.core.errors import MissingExtra
from openclaw.secrets.backends.support import BlockingCalls, ask, failure
from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure

_API_VERSION: Final = "7.4"
_SCOPE: Final = "https://vault.azure.net/.default"
_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,127}")
_REASONS: Final = {
    401: "the Azure credentials are not valid",
    403: "these Azure credentials may not read it, or it is disabled",
    404: "there is no such secret or version",
    429: "too many requests",
}


class AzureBackend:
    """Asks the Key Vault REST API with the default Azure credential."""

    def __init__(self, options: Mapping[str, Any], token: Callable[[], str] | None = None) -> None:
        self._vault = options.get("vault")
        self._endpoint = options.get("endpoint")
        self._token = token or _default_token
        self._calls = BlockingCalls("Azure's login")

    async def read(self, ref: SecretRef) -> str:
        """The secret's value."""
        vault, slash, name = ref.name.strip("/").rpartition("/")
        vault = vault if slash else str(self._vault or "")
        version = ref.fragment or ""
        if not _NAME.fullmatch(name) or not _NAME.fullmatch(vault) or "/" in version:
            raise BackendFailure("write secret://azure/VAULT/NAME[#VERSION]")
        token = await self._calls.run(self._token)
        base = str(self._endpoint or f"https://{vault}.vault.azure.net").rstrip("/")
        answer = await ask(
            "GET",
            f"{base}/secrets/{name}/{version}".rstrip("/"),
            headers={"Authorization": f"Bearer {token}"},
            params={"api-version": _API_VERSION},
        )
        value = answer.body.get("value")
        if answer.status != 200:
            raise failure(answer, base, _REASONS)
        if not isinstance(value, str) or not value:
            raise BackendFailure("the secret is empty")
        return value


def _default_token() -> str:
    try:
        from azure.core.exceptions import AzureError
        from azure.identity import DefaultAzureCredential
    except ImportError:
        raise MissingExtra("secret://azure/…", "azure") from None
    try:
        return DefaultAzureCredential().get_token(_SCOPE).token
    except AzureError as error:
        raise BackendFailure(
            f"no Azure credentials: {type(error).__name__}", hint="run az login"
        ) from None
