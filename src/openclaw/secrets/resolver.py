"""Resolves references when their values are needed."""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import anyio

from openclaw.core.errors import MissingExtra, OpenClawError, SecretUnavailable, describe
from openclaw.secrets.credentials import plaintext_credentials
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import SCHEMES, BackendFailure, Secret, SecretRef, find, replaced

DEFAULT_TIMEOUT: Final = 10.0


class SecretsUnavailable(SecretUnavailable):
    """Raised when several references cannot be resolved; `failures` has each with its reason."""

    def __init__(self, failures: Iterable[SecretUnavailable]) -> None:
        self.failures = tuple(failures)
        self.reference = ", ".join(failure.reference for failure in self.failures)
        self.reason = "; ".join(describe(failure) for failure in self.failures)
        OpenClawError.__init__(self, f"{len(self.failures)} secrets are unavailable: {self.reason}")


class Backend(Protocol):
    async def read(self, ref: SecretRef) -> str:
        """The value; raises `BackendFailure` or `MissingExtra` if there is none."""
        ...


class SecretResolver:
    """Resolves references in parallel. The redactor knows a value before anyone else gets it.

    A failure names its reference and a reason, never a value, and doesn't stop the others.
    """

    def __init__(
        self, backends: Mapping[str, Backend], redactor: Redactor, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self._backends = backends
        self._redactor = redactor
        self._timeout = timeout

    async def resolve_text(self, text: str) -> Secret:
        return (await self.resolve_map({"": text}))[""]

    async def resolve_map(self, values: Mapping[str, str]) -> dict[str, Secret]:
        """Every value with its references replaced; plain-text credentials are registered too.

        Raises `SecretUnavailable` for one failure and `SecretsUnavailable` for several.
        """
        refs = [ref for text in values.values() for ref in find(text)]
        for value in plaintext_credentials(values):
            self._redactor.register(value)
            _, space, token = value.strip().partition(" ")
            if space and " " not in token:  # also without `Bearer`
                self._redactor.register(token)
        outcomes = await self.try_all(refs)
        failures = [out for out in outcomes.values() if isinstance(out, SecretUnavailable)]
        if failures:
            raise failures[0] if len(failures) == 1 else SecretsUnavailable(failures)
        known = {ref: out.reveal() for ref, out in outcomes.items() if isinstance(out, Secret)}
        return {key: Secret(replaced(text, known)) for key, text in values.items()}

    async def try_all(
        self, refs: Iterable[SecretRef]
    ) -> dict[SecretRef, Secret | SecretUnavailable]:
        outcomes: dict[SecretRef, Secret | SecretUnavailable] = {}

        async def one(ref: SecretRef) -> None:
            outcomes[ref] = await self._try(ref)

        async with anyio.create_task_group() as group:
            for ref in dict.fromkeys(refs):
                group.start_soon(one, ref, name=f"resolve {ref.text}")
        return outcomes

    async def _try(self, ref: SecretRef) -> Secret | SecretUnavailable:
        backend = self._backends.get(ref.scheme)
        if backend is None:
            return SecretUnavailable(ref.text, f"no backend for {SCHEMES[ref.scheme]} is open")
        try:
            with anyio.fail_after(self._timeout):
                value = await backend.read(ref)
        except TimeoutError:
            return SecretUnavailable(ref.text, f"no answer within {self._timeout:g} s")
        except BackendFailure as failure:
            return SecretUnavailable(ref.text, failure.reason, hint=failure.hint)
        except (MissingExtra, SecretUnavailable) as error:
            return SecretUnavailable(ref.text, error.message, hint=error.hint)
        except Exception as error:  # noqa: BLE001 - a library's message may carry the value
            return SecretUnavailable(ref.text, f"the backend failed with {type(error).__name__}")
        self._redactor.register(value)
        return Secret(value)
