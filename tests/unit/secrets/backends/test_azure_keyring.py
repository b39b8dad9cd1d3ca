import sys
from collections.abc import Callable, Iterator

import keyring
import pytest
from keyring.backend import KeyringBackend as Library
from keyring.errors import KeyringError, KeyringLocked, NoKeyringError
from tests.support.fake_http import FakeHttp, Reply, Request

from openclaw.core.errors import SecretUnavailable
from openclaw.secrets.backends.remote import AzureBackend
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver

Opener = Callable[..., SecretResolver]


async def reason_of(resolver: SecretResolver, text: str) -> str:
    with pytest.raises(SecretUnavailable) as caught:
        await resolver.resolve_text(text)
    return caught.value.reason


class MemoryKeyring(Library):
    """A keyring of the library's own kind, in memory."""

    priority = 1  # pyright: ignore[reportAssignmentType] - as its documentation says

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error

    def get_password(self, service: str, username: str) -> str | None:
        if self.error is not None:
            raise self.error
        return {("mail", "me@x.y"): "mail-value", ("openclaw", "bot"): "our-value"}.get(
            (service, username)
        )

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError


@pytest.fixture
def use_keyring() -> Iterator[Callable[[Library], None]]:
    before = keyring.get_keyring()
    yield keyring.set_keyring
    keyring.set_keyring(before)


async def test_an_entry_of_the_keyring(
    open_resolver: Opener, use_keyring: Callable[[Library], None]
) -> None:
    use_keyring(MemoryKeyring())
    resolver = open_resolver()
    assert (await resolver.resolve_text("secret://keyring/mail/me@x.y")).reveal() == "mail-value"
    assert (await resolver.resolve_text("secret://keyring/bot")).reveal() == "our-value"
    assert "no such entry" in await reason_of(resolver, "secret://keyring/mail/nobody")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NoKeyringError("x"), "this machine has no keyring"),
        (KeyringLocked("x"), "the keyring is locked"),
        (KeyringError("my-secret-value"), "the keyring failed with KeyringError"),
    ],
)
async def test_a_keyring_that_does_not_open(
    open_resolver: Opener,
    use_keyring: Callable[[Library], None],
    error: Exception,
    reason: str,
) -> None:
    use_keyring(MemoryKeyring(error))
    assert await reason_of(open_resolver(), "secret://keyring/mail/me") == reason


async def test_without_the_libraries_the_extras_are_named(
    open_resolver: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, reference, extra in (
        ("keyring", "secret://keyring/a/b", "keyring"),
        ("azure.identity", "secret://azure/vault/name", "azure"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(SecretUnavailable) as caught:
            await open_resolver().resolve_text(reference)
        assert f"[{extra}]" in str(caught.value.hint)


def _key_vault(request: Request) -> Reply:
    if request.headers.get("authorization") != "Bearer azure-token":
        return Reply(401, {"error": {"code": "Unauthorized"}})
    assert request.query["api-version"]
    values = {"/secrets/db": "latest-value", "/secrets/db/v1": "first-value", "/secrets/blank": ""}
    if request.path not in values:
        return Reply(404, {"error": {"code": "SecretNotFound"}})
    return Reply(200, {"value": values[request.path], "id": request.path})


async def test_azure_key_vault_over_its_http_api() -> None:
    with FakeHttp(_key_vault) as server:
        options = {"endpoint": server.url, "vault": "default-vault"}
        backend = AzureBackend(options, token=lambda: "azure-token")
        resolver = SecretResolver({"azure": backend}, Redactor())
        assert (await resolver.resolve_text("secret://azure/v/db")).reveal() == "latest-value"
        assert (await resolver.resolve_text("secret://azure/db#v1")).reveal() == "first-value"
        assert "no such secret" in await reason_of(resolver, "secret://azure/v/nope")
        assert "is empty" in await reason_of(resolver, "secret://azure/v/blank")
        assert "write secret://azure" in await reason_of(resolver, "secret://azure/v.evil/x/db")
        stranger = AzureBackend(options, token=lambda: "wrong")
        refused = SecretResolver({"azure": stranger}, Redactor())
        assert "credentials are not valid" in await reason_of(refused, "secret://azure/v/db")
