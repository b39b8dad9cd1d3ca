import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.support.fake_gcp import FakeGcp

from openclaw.core.errors import SecretUnavailable
from openclaw.secrets.backends.remote import _crc32c
from openclaw.secrets.resolver import SecretResolver

Opener = Callable[..., SecretResolver]
Maker = Callable[[str, str], Path]


@pytest.fixture
def gcp() -> Iterator[FakeGcp]:
    with FakeGcp() as server:
        server.put("proj", "db", b"first-value")
        server.put("proj", "db", b"second-value", _crc32c(b"second-value"))
        yield server


@pytest.fixture
def resolver(gcp: FakeGcp, open_resolver: Opener, home: Path) -> SecretResolver:
    folder = home / ".config" / "gcloud"
    folder.mkdir(parents=True)
    (folder / "application_default_credentials.json").write_text(json.dumps(gcp.user_credentials()))
    return open_resolver({"gcp": {"endpoint": gcp.url, "project": "proj"}})


async def value_of(resolver: SecretResolver, text: str) -> str:
    return (await resolver.resolve_text(text)).reveal()


async def reason_of(resolver: SecretResolver, text: str) -> str:
    with pytest.raises(SecretUnavailable) as caught:
        await resolver.resolve_text(text)
    return caught.value.reason


def test_the_checksum_is_that_of_the_standard() -> None:
    assert _crc32c(b"123456789") == 0xE3069283
    assert _crc32c(b"") == 0


@pytest.mark.requirement("FR-5.2")
@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("secret://gcp/db", "second-value"),
        ("secret://gcp/db#latest", "second-value"),
        ("secret://gcp/db#1", "first-value"),
        ("secret://gcp/projects/proj/secrets/db#1", "first-value"),
    ],
)
async def test_a_version_is_read_with_the_users_credentials(
    resolver: SecretResolver, reference: str, value: str
) -> None:
    assert await value_of(resolver, reference) == value


@pytest.mark.requirement("FR-5.1")
async def test_a_service_account_and_its_project(
    gcp: FakeGcp, open_resolver: Opener, tmp_path: Path
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    file = tmp_path / "robot.json"
    file.write_text(json.dumps(gcp.service_account(pem)))
    gcp.put("key-project", "db", b"robot-value")
    gcp.put("env-project", "db", b"env-value")
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}
    options = {"gcp": {"endpoint": gcp.url}}
    assert await value_of(open_resolver(options, environ), "secret://gcp/db") == "robot-value"
    named = open_resolver(options, environ | {"GOOGLE_CLOUD_PROJECT": "env-project"})
    assert await value_of(named, "secret://gcp/db") == "env-value"


async def test_one_login_serves_all_references(resolver: SecretResolver, gcp: FakeGcp) -> None:
    await resolver.resolve_map({n: f"secret://gcp/db#{n}" for n in ("1", "2", "latest")})
    assert [request.path for request in gcp.seen].count("/token") == 1


async def test_a_file_without_credentials_is_named(open_resolver: Opener, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    for content in ("not json", "[]", "{}"):
        file.write_text(content)
        environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}
        reason = await reason_of(open_resolver({}, environ), "secret://gcp/db")
        assert reason == f"{file} has no Google credentials"


async def test_without_any_project_it_is_asked_for(
    gcp: FakeGcp, open_resolver: Opener, tmp_path: Path
) -> None:
    file = tmp_path / "user.json"
    file.write_text(json.dumps(gcp.user_credentials()))
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}
    resolver = open_resolver({"gcp": {"endpoint": gcp.url}}, environ)
    assert await reason_of(resolver, "secret://gcp/db") == "no Google project"


async def test_what_google_refuses_is_said(resolver: SecretResolver, gcp: FakeGcp) -> None:
    assert "there is no such secret" in await reason_of(resolver, "secret://gcp/nope")
    assert "there is no such secret" in await reason_of(resolver, "secret://gcp/db#9")
    gcp.denied.add("db")
    assert "may not read it (HTTP 403" in await reason_of(resolver, "secret://gcp/db")
    gcp.denied.clear()
    gcp.disable_latest("proj", "db")
    assert "disabled" in await reason_of(resolver, "secret://gcp/db")
    gcp.failing = 503
    assert "the server has a problem (HTTP 503" in await reason_of(resolver, "secret://gcp/db")


async def test_what_cannot_be_a_value_is_refused(resolver: SecretResolver, gcp: FakeGcp) -> None:
    gcp.put("proj", "damaged", b"value", checksum=1)
    gcp.put("proj", "binary", b"\xff\xfe")
    gcp.put("proj", "empty", b"")
    assert "checksum differs" in await reason_of(resolver, "secret://gcp/damaged")
    assert "not UTF-8" in await reason_of(resolver, "secret://gcp/binary")
    assert "is empty" in await reason_of(resolver, "secret://gcp/empty")
    for odd in ("--help", "a%2Fb", "db#--x", "projects/UP/secrets/x"):
        assert "this is not the name" in await reason_of(resolver, f"secret://gcp/{odd}")


async def test_credentials_that_google_does_not_take(
    gcp: FakeGcp, open_resolver: Opener, tmp_path: Path
) -> None:
    file = tmp_path / "user.json"
    file.write_text(json.dumps(gcp.user_credentials() | {"refresh_token": "stolen-token"}))
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}
    resolver = open_resolver({"gcp": {"endpoint": gcp.url, "project": "proj"}}, environ)
    assert await reason_of(resolver, "secret://gcp/db") == "no Google credentials: RefreshError"


@pytest.mark.requirement("FR-5.1")
async def test_without_the_library_the_gcloud_command_is_asked(
    open_resolver: Opener, make_program: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    directory = make_program("gcloud", 'printf %s "$*"')
    environ = {"PATH": f"{directory}:/bin"}
    resolver = open_resolver({"gcp": {"project": "proj"}}, environ)
    assert await value_of(resolver, "secret://gcp/db#3") == (
        "secrets versions access 3 --secret=db --quiet --project=proj"
    )
    make_program("gcloud", "echo 'ERROR: NOT_FOUND: my-secret-value' >&2; exit 1")
    assert await reason_of(resolver, "secret://gcp/db") == "there is no such secret or version"
    make_program("gcloud", "echo my-secret-value >&2; exit 2")
    assert await reason_of(resolver, "secret://gcp/db") == "gcloud failed with exit code 2"


async def test_without_library_and_command_the_extra_is_named(
    open_resolver: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    resolver = open_resolver({}, {"PATH": str(tmp_path)})
    with pytest.raises(SecretUnavailable) as caught:
        await resolver.resolve_text("secret://gcp/db")
    assert "[gcp]" in str(caught.value.hint)
