import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import boto3  # pyright: ignore[reportMissingTypeStubs] - untyped
import pytest

from openclaw.core.errors import SecretUnavailable
from openclaw.secrets.resolver import SecretResolver

Opener = Callable[..., SecretResolver]

_START_SECONDS = 60
_SERVE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """Secrets Manager as moto serves it, in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{url}/moto-api/data.json", timeout=5).close()
                break
            except OSError:
                time.sleep(0.05)
        _fill(url)
        yield url
        server.stdin.close()


def _fill(url: str) -> None:
    library: Any = boto3
    client = library.client(
        "secretsmanager",
        endpoint_url=url,
        region_name="eu-west-1",
        aws_access_key_id="k",
        aws_secret_access_key="s",
    )
    client.create_secret(Name="prod/token", SecretString="first-token")
    client.put_secret_value(SecretId="prod/token", SecretString="second-token")
    table = {"db": {"password": "pw-of-db", "ports": [1, 5432]}, "a.b": "dotted"}
    client.create_secret(Name="prod/table", SecretString=json.dumps(table))
    client.create_secret(Name="prod/text-bytes", SecretBinary=b"text as bytes")
    client.create_secret(Name="prod/bytes", SecretBinary=b"\xff\xfe\x00")
    client.create_secret(Name="prod/deleted", SecretString="gone-value")
    client.delete_secret(SecretId="prod/deleted")


ENVIRON = {
    "AWS_ACCESS_KEY_ID": "k",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_REGION": "eu-west-1",
}


@pytest.fixture
def resolver(aws: str, open_resolver: Opener) -> SecretResolver:
    return open_resolver({}, ENVIRON | {"AWS_ENDPOINT_URL": aws})


async def reason_of(resolver: SecretResolver, text: str) -> str:
    with pytest.raises(SecretUnavailable) as caught:
        await resolver.resolve_text(text)
    return caught.value.reason


@pytest.mark.requirement("FR-5.3")
@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("secret://aws/prod/token", "second-token"),
        ("secret://aws/prod/token#AWSCURRENT", "second-token"),
        ("secret://aws/prod/token#AWSPREVIOUS", "first-token"),
        ("secret://aws/prod/table?key=db.password", "pw-of-db"),
        ("secret://aws/prod/table#AWSCURRENT?key=db.ports.1", "5432"),
        ("secret://aws/prod/table?key=a.b", "dotted"),
        ("secret://aws/prod/text-bytes", "text as bytes"),
        ("secret://aws/prod/bytes", "//4A"),
    ],
)
async def test_secrets_versions_and_fields(
    resolver: SecretResolver, reference: str, value: str
) -> None:
    assert (await resolver.resolve_text(reference)).reveal() == value


async def test_what_aws_refuses_is_said(resolver: SecretResolver) -> None:
    nothing = "there is no such secret or version"
    assert await reason_of(resolver, "secret://aws/nope") == nothing
    version = "0123abcd-0123-4123-8123-0123456789ab"
    assert await reason_of(resolver, f"secret://aws/prod/token#{version}") == nothing
    assert "being deleted" in await reason_of(resolver, "secret://aws/prod/deleted")
    assert "is not JSON" in await reason_of(resolver, "secret://aws/prod/token?key=a")
    assert "has no field 'db.x'" in await reason_of(resolver, "secret://aws/prod/table?key=db.x")


async def test_trouble_before_anything_was_asked(
    aws: str, open_resolver: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    nowhere = {key: value for key, value in ENVIRON.items() if key != "AWS_REGION"}
    resolver = open_resolver({"aws": {"endpointUrl": aws}}, nowhere)
    assert await reason_of(resolver, "secret://aws/prod/token") == "no AWS region"
    nobody = open_resolver({"aws": {"endpointUrl": aws, "region": "eu-west-1"}}, {})
    assert await reason_of(nobody, "secret://aws/prod/token") == "no AWS credentials"
    stranger = open_resolver({"aws": {"profile": "nope"}}, ENVIRON)
    assert "profile does not exist" in await reason_of(stranger, "secret://aws/prod/token")
    unreachable = open_resolver({"aws": {"endpointUrl": "http://127.0.0.1:1"}}, ENVIRON)
    assert "EndpointConnectionError" in await reason_of(unreachable, "secret://aws/prod/token")


async def test_without_the_library_the_extra_is_named(
    open_resolver: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    with pytest.raises(SecretUnavailable) as caught:
        await open_resolver({}, ENVIRON).resolve_text("secret://aws/prod/token")
    assert "[aws]" in str(caught.value.hint)
