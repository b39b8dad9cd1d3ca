import threading
from collections.abc import Mapping

import anyio
import pytest

from openclaw.core.errors import MissingExtra, SecretUnavailable
from openclaw.secrets.backends.local import BlockingCalls
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import InvalidReference, SecretRef
from openclaw.secrets.resolver import Backend, BackendFailure, SecretResolver, SecretsUnavailable


class Table:
    """A backend with fixed values that counts its reads."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        self.reads: list[str] = []

    async def read(self, ref: SecretRef) -> str:
        self.reads.append(ref.name)
        if ref.name not in self.values:
            raise BackendFailure("not there", hint="put it there")
        return self.values[ref.name]


class Rendezvous:
    """A backend whose reads finish only when so many run at once."""

    def __init__(self, parties: int) -> None:
        self._missing = parties
        self._met = anyio.Event()

    async def read(self, ref: SecretRef) -> str:
        self._missing -= 1
        if not self._missing:
            self._met.set()
        await self._met.wait()
        return f"value-of-{ref.name}"


class Raising:
    def __init__(self, error: Exception) -> None:
        self.error = error

    async def read(self, ref: SecretRef) -> str:
        raise self.error


class Hanging:
    """A backend whose library blocks its thread."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.calls = BlockingCalls("the library")

    async def read(self, ref: SecretRef) -> str:
        return await self.calls.run(lambda: str(self.release.wait()))


def resolver(timeout: float = 5, **backends: Backend) -> tuple[SecretResolver, Redactor]:
    redactor = Redactor()
    return SecretResolver(backends, redactor, timeout=timeout), redactor


@pytest.mark.requirement("US-5.3")
async def test_references_are_replaced_where_they_stand() -> None:
    resolve, _ = resolver(env=Table({"A": "alpha-value", "B": "beta-value"}))
    secrets = await resolve.resolve_map(
        {
            "whole": "secret://env/A",
            "header": "Bearer secret://env/A",
            "two": "<secret://env/A>:<secret://env/B>@x",
            "url": "pg://u:<secret://env/B>@h/<secret://env/A>",
            "plain": "no reference",
        }
    )
    assert {key: secret.reveal() for key, secret in secrets.items()} == {
        "whole": "alpha-value",
        "header": "Bearer alpha-value",
        "two": "alpha-value:beta-value@x",
        "url": "pg://u:beta-value@h/alpha-value",
        "plain": "no reference",
    }


async def test_a_value_that_looks_like_a_reference_is_not_resolved_again() -> None:
    table = Table({"A": "secret://env/B", "B": "beta-value"})
    resolve, _ = resolver(env=table)
    assert (await resolve.resolve_text("secret://env/A")).reveal() == "secret://env/B"
    assert table.reads == ["A"]


async def test_the_same_reference_is_read_once() -> None:
    table = Table({"A": "alpha-value"})
    resolve, _ = resolver(env=table)
    await resolve.resolve_map({"x": "secret://env/A", "y": "secret://env/A <secret://env/A>"})
    assert table.reads == ["A"]


async def test_every_value_is_known_to_the_redactor_before_it_is_returned() -> None:
    resolve, redactor = resolver(env=Table({"A": "alpha-value"}))
    await resolve.resolve_text("secret://env/A")
    assert redactor.redact("it is alpha-value") == "it is [REDACTED]"


async def test_credentials_that_were_written_out_are_known_to_the_redactor_too() -> None:
    resolve, redactor = resolver()
    await resolve.resolve_map(
        {
            "API_KEY": "written-out-key",
            "Authorization": "Custom written-out-token",
            "MODE": "not-a-credential",
            "PASSPHRASE": "several words of it",
        }
    )
    assert redactor.redact("a written-out-key b") == "a [REDACTED] b"
    assert redactor.redact("a written-out-token b") == "a [REDACTED] b"
    assert redactor.redact("several words of it") == "[REDACTED]"
    assert redactor.redact("not-a-credential words of it") == "not-a-credential words of it"


async def test_references_are_read_in_parallel() -> None:
    resolve, _ = resolver(env=Rendezvous(5))
    secrets = await resolve.resolve_map({name: f"secret://env/{name}" for name in "abcde"})
    assert len(secrets) == 5


@pytest.mark.requirement("US-6.3")
async def test_one_failure_names_its_reference_and_the_reason() -> None:
    resolve, _ = resolver(env=Table({}))
    with pytest.raises(SecretUnavailable) as caught:
        await resolve.resolve_text("Bearer secret://env/A")
    assert caught.value.message == "secret://env/A: not there"
    assert caught.value.hint == "put it there"


@pytest.mark.requirement("FR-5.7")
async def test_all_failures_are_reported_and_the_others_are_tried() -> None:
    table = Table({"B": "beta-value"})
    resolve, _ = resolver(env=table)
    with pytest.raises(SecretsUnavailable) as caught:
        await resolve.resolve_map({name: f"secret://env/{name}" for name in "ABC"})
    assert [failure.reference for failure in caught.value.failures] == [
        "secret://env/A",
        "secret://env/C",
    ]
    assert caught.value.message == (
        "2 secrets are unavailable: secret://env/A: not there (put it there); "
        "secret://env/C: not there (put it there)"
    )
    assert sorted(table.reads) == ["A", "B", "C"]


async def test_a_backend_that_hangs_is_cut_off_and_the_others_go_on() -> None:
    hanging = Hanging()
    resolve, _ = resolver(timeout=1, vault=hanging, env=Table({"A": "alpha-value"}))
    with anyio.fail_after(60):
        outcomes = await resolve.try_all(
            [SecretRef("vault", "x", text="secret://vault/x"), SecretRef("env", "A")]
        )
    hanging.release.set()
    by_scheme = {ref.scheme: outcome for ref, outcome in outcomes.items()}
    assert isinstance(by_scheme["vault"], SecretUnavailable)
    assert by_scheme["vault"].message == "secret://vault/x: no answer within 1 s"
    assert not isinstance(by_scheme["env"], SecretUnavailable)


async def test_calls_that_hang_do_not_pile_up_without_end() -> None:
    hanging = Hanging()
    resolve, _ = resolver(timeout=0.05, vault=hanging)
    for _ in range(16):
        with pytest.raises(SecretUnavailable, match="no answer"):
            await resolve.resolve_text("secret://vault/x")
    with pytest.raises(SecretUnavailable, match="16 earlier calls to the library still hang"):
        await resolve.resolve_text("secret://vault/x")
    hanging.release.set()


@pytest.mark.requirement("FR-5.7")
async def test_what_a_library_says_is_not_repeated() -> None:
    resolve, _ = resolver(env=Raising(ValueError("cannot parse hunter2-the-value")))
    with pytest.raises(SecretUnavailable) as caught:
        await resolve.resolve_text("secret://env/A")
    assert caught.value.reason == "the backend failed with ValueError"
    assert caught.value.__cause__ is None


async def test_a_missing_library_says_which_extra_to_install() -> None:
    resolve, _ = resolver(aws=Raising(MissingExtra("secret://aws/…", "aws")))
    with pytest.raises(SecretUnavailable) as caught:
        await resolve.resolve_text("secret://aws/A")
    assert '[aws]"' in str(caught.value.hint)


async def test_a_scheme_without_a_backend_is_said() -> None:
    resolve, _ = resolver()
    with pytest.raises(SecretUnavailable, match="no backend for secret://env/VAR is open"):
        await resolve.resolve_text("secret://env/A")


async def test_a_malformed_reference_is_refused_before_anything_is_read() -> None:
    table = Table({"A": "alpha-value"})
    resolve, _ = resolver(env=table)
    with pytest.raises(InvalidReference):
        await resolve.resolve_map({"a": "secret://env/A", "b": "secret://nope/B"})
    assert table.reads == []
