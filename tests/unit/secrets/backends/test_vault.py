import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from tests.support.fake_vault import FakeVault

from openclaw.core.errors import SecretUnavailable
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver

Opener = Callable[..., SecretResolver]


@pytest.fixture
def vault() -> Iterator[FakeVault]:
    with FakeVault() as server:
        server.mount("secret", 2)
        server.mount("old", 1)
        server.mount("team/kv", 2)
        server.put("secret", "app", {"token": "first-token"})
        server.put("secret", "app", {"token": "second-token"})
        server.put("secret", "many", {"user": "me", "password": "pw-of-many", "port": 5432})
        server.put("old", "app", {"token": "old-token"})
        server.put("team/kv", "deep/app", {"token": "team-token"})
        yield server


@pytest.fixture
def resolver(vault: FakeVault, open_resolver: Opener) -> SecretResolver:
    return open_resolver({}, {"VAULT_ADDR": vault.url, "VAULT_TOKEN": "root-token"})


async def value_of(resolver: SecretResolver, text: str) -> str:
    return (await resolver.resolve_text(text)).reveal()


async def reason_of(resolver: SecretResolver, text: str) -> str:
    with pytest.raises(SecretUnavailable) as caught:
        await resolver.resolve_text(text)
    return caught.value.reason


@pytest.mark.requirement("FR-5.4")
@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("secret://vault/secret/app#token", "second-token"),
        ("secret://vault/app#token", "second-token"),
        ("secret://vault/app", "second-token"),
        ("secret://vault/app#token?version=1", "first-token"),
        ("secret://vault/old/app", "old-token"),
        ("secret://vault/team/kv/deep/app#token", "team-token"),
        ("secret://vault/many#password", "pw-of-many"),
        ("secret://vault/many#port", "5432"),
    ],
)
async def test_both_versions_and_any_mount_are_found(
    resolver: SecretResolver, reference: str, value: str
) -> None:
    assert await value_of(resolver, reference) == value


async def test_without_a_field_the_secret_must_have_exactly_one(resolver: SecretResolver) -> None:
    with pytest.raises(SecretUnavailable) as caught:
        await resolver.resolve_text("secret://vault/many")
    assert caught.value.reason == "the secret has 3 fields"
    assert caught.value.hint == "name one: secret://vault/many#FIELD"


async def test_what_is_not_there_is_said(resolver: SecretResolver, vault: FakeVault) -> None:
    assert "there is no such secret (HTTP 404" in await reason_of(resolver, "secret://vault/nope")
    assert "there is no such secret" in await reason_of(resolver, "secret://vault/old/nope")
    assert await reason_of(resolver, "secret://vault/app#nope") == "the secret has no field 'nope'"
    vault.put("secret", "blank", {"x": ""})
    assert await reason_of(resolver, "secret://vault/blank") == "the field is empty"
    vault.delete_latest("secret", "app")
    assert await reason_of(resolver, "secret://vault/app") == (
        "this version of the secret was deleted"
    )
    assert await value_of(resolver, "secret://vault/app?version=1") == "first-token"


async def test_a_server_that_does_not_tell_about_mounts(
    vault: FakeVault, open_resolver: Opener
) -> None:
    vault.preflight = False
    environ = {"VAULT_ADDR": vault.url, "VAULT_TOKEN": "root-token"}
    resolver = open_resolver({}, environ)
    assert await value_of(resolver, "secret://vault/app") == "second-token"
    older = open_resolver({"vault": {"mount": "old"}}, environ)
    assert await value_of(older, "secret://vault/app") == "old-token"
    told = open_resolver({"vault": {"mount": "old", "kvVersion": 1}}, environ)
    vault.seen.clear()
    assert await value_of(told, "secret://vault/old/app") == "old-token"
    assert [request.path for request in vault.seen] == ["/v1/old/app"]
    wrong = open_resolver({"vault": {"mount": "old", "kvVersion": 2}}, environ)
    assert "no such secret" in await reason_of(wrong, "secret://vault/app")


async def test_an_answer_that_is_not_that_of_version_2_is_refused(
    vault: FakeVault, open_resolver: Opener
) -> None:
    vault.put("old", "data/app", {"token": "value"})
    resolver = open_resolver(
        {"vault": {"mount": "old", "kvVersion": 2, "address": vault.url, "token": "root-token"}}
    )
    assert "not that of KV version 2" in await reason_of(resolver, "secret://vault/app")


async def test_the_namespace_is_sent(open_resolver: Opener) -> None:
    with FakeVault(namespace="team-a") as vault:
        vault.mount("secret", 2)
        vault.put("secret", "app", {"token": "team-token"})
        environ = {"VAULT_ADDR": vault.url, "VAULT_TOKEN": "root-token"}
        assert "permission denied" in await reason_of(
            open_resolver({}, environ), "secret://vault/app"
        )
        inside = open_resolver({}, environ | {"VAULT_NAMESPACE": "team-a"})
        assert await value_of(inside, "secret://vault/app") == "team-token"
        configured = open_resolver({"vault": {"namespace": "team-a"}}, environ)
        assert await value_of(configured, "secret://vault/app") == "team-token"


async def test_the_token_comes_from_the_configuration_or_the_login_file(
    vault: FakeVault, open_resolver: Opener, home: Path, redactor: Redactor
) -> None:
    environ = {"VAULT_ADDR": vault.url, "MY_TOKEN": "root-token"}
    assert await reason_of(open_resolver({}, environ), "secret://vault/app") == "no Vault token"
    by_reference = open_resolver({"vault": {"token": "secret://env/MY_TOKEN"}}, environ)
    assert await value_of(by_reference, "secret://vault/app") == "second-token"
    assert redactor.redact("x root-token") == "x [REDACTED]"
    (home / ".vault-token").write_text("root-token\n")
    assert await value_of(open_resolver({}, environ), "secret://vault/app") == "second-token"


async def test_a_login_by_role_happens_once_and_again_when_the_token_expires(
    vault: FakeVault, open_resolver: Opener, redactor: Redactor
) -> None:
    vault.roles["role-1", "sid-value"] = "role-token"
    role = {"roleId": "role-1", "secretId": "secret://env/SID"}
    resolver = open_resolver(
        {"vault": {"appRole": role}}, {"VAULT_ADDR": vault.url, "SID": "sid-value"}
    )
    both = {"a": "secret://vault/app", "b": "secret://vault/old/app"}
    await resolver.resolve_map(both)
    assert vault.logins == 1
    assert redactor.redact("got role-token-1") == "got [REDACTED]"
    vault.tokens.clear()
    assert await value_of(resolver, "secret://vault/app") == "second-token"
    assert vault.logins == 2


async def test_a_refused_login_is_said(vault: FakeVault, open_resolver: Opener) -> None:
    role = {"roleId": "role-1", "secretId": "wrong-secret-id"}
    resolver = open_resolver({"vault": {"appRole": role}}, {"VAULT_ADDR": vault.url})
    reason = await reason_of(resolver, "secret://vault/app")
    assert "the AppRole login was refused (HTTP 400" in reason
    assert "wrong-secret-id" not in reason


async def test_trouble_with_the_server_is_said(
    resolver: SecretResolver, vault: FakeVault, open_resolver: Opener
) -> None:
    vault.sealed = True
    assert "Vault is sealed (HTTP 503" in await reason_of(resolver, "secret://vault/app")
    vault.sealed = False
    vault.failing = 500
    assert "the server has a problem (HTTP 500" in await reason_of(resolver, "secret://vault/app")
    wrong = {"VAULT_TOKEN": "not-the-token", "VAULT_ADDR": vault.url}
    vault.failing = None
    reason = await reason_of(open_resolver({}, wrong), "secret://vault/app")
    assert "permission denied" in reason
    assert "not-the-token" not in reason
    nobody = {"VAULT_TOKEN": "x", "VAULT_ADDR": "http://127.0.0.1:1"}
    assert "http://127.0.0.1:1 cannot be reached" in await reason_of(
        open_resolver({}, nobody), "secret://vault/app"
    )
    garbled = {"VAULT_TOKEN": "x", "VAULT_ADDR": "http://[::1"}
    assert await reason_of(open_resolver({}, garbled), "secret://vault/app")


async def test_a_silent_server_is_cut_off(vault: FakeVault, open_resolver: Opener) -> None:
    vault.silent = True
    environ = {"VAULT_ADDR": vault.url, "VAULT_TOKEN": "root-token", "A": "alpha"}
    resolver = open_resolver({"timeoutMs": 200}, environ)
    with anyio.fail_after(60), pytest.raises(SecretUnavailable) as caught:
        await resolver.resolve_map({"a": "secret://vault/app", "b": "secret://env/A"})
    assert caught.value.message == "secret://vault/app: no answer within 0.2 s"


async def test_the_certificate_authority_is_the_configured_one(
    open_resolver: Opener, tmp_path: Path
) -> None:
    authority = trustme.CA()
    pem = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(pem))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate: Any = authority.issue_cert("127.0.0.1")
    certificate.configure_cert(context)
    with FakeVault() as vault:
        vault.secure(context)
        vault.mount("secret", 2)
        vault.put("secret", "app", {"token": "tls-token"})
        environ = {"VAULT_ADDR": vault.url, "VAULT_TOKEN": "root-token"}
        assert "cannot be reached" in await reason_of(
            open_resolver({}, environ), "secret://vault/app"
        )
        trusting = open_resolver({}, environ | {"VAULT_CACERT": str(pem)})
        assert await value_of(trusting, "secret://vault/app") == "tls-token"
        (tmp_path / "note").write_text("Für Prüfungen", encoding="utf-8")
        (tmp_path / "empty").mkdir()
        among = open_resolver({}, environ | {"VAULT_CAPATH": str(tmp_path)})
        assert await value_of(among, "secret://vault/app") == "tls-token"
        none = open_resolver({}, environ | {"VAULT_CAPATH": str(tmp_path / "empty")})
        assert "certificate authority" in await reason_of(none, "secret://vault/app")
        careless = open_resolver({}, environ | {"VAULT_SKIP_VERIFY": "true"})
        assert await value_of(careless, "secret://vault/app") == "tls-token"
        missing = open_resolver({"vault": {"caFile": "/nope.pem"}}, environ)
        assert "certificate authority /nope.pem" in await reason_of(missing, "secret://vault/app")
