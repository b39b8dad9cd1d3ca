"""`secret://keyring/SERVICE/USER`: the desktop's keyring."""

from collections.abc import Mapping
from typing import Any

from openclaw.core.errors import MissingExtra
from openclaw.secrets.backends.support import BlockingCalls
from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure


class KeyringBackend:
    """Asks whichever keyring the `keyring` library finds."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._service = str(options.get("service") or "openclaw")
        self._calls = BlockingCalls("the keyring")

    async def read(self, ref: SecretRef) -> str:
        """The password of that user at that service; a name alone is a user at ours."""
        service, slash, user = ref.name.rpartition("/")
        value = await self._calls.run(lambda: _read(service if slash else self._service, user))
        if not value:
            raise BackendFailure("the keyring has no such entry")
        return value


def _read(service: str, user: str) -> str | None:
    try:
        import keyring
        from keyring.errors import KeyringError, KeyringLocked, NoKeyringError
    except ImportError:
        raise MissingExtra("secret://keyring/…", "keyring") from None
    try:
        return keyring.get_password(service, user)
    except NoKeyringError:
        raise BackendFailure("this machine has no keyring") from None
    except KeyringLocked:
        raise BackendFailure("the keyring is locked") from None
    except KeyringError as error:
        raise BackendFailure(f"the keyring failed with {type(error).__name__}") from None
