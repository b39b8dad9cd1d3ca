"""Which proxy a provider is reached through, and with which certificates."""

import ssl
from pathlib import Path

import pytest
import trustme

from openclaw.net.http_request import open_client, proxy_for

PROXY = "http://proxy:3128"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "http://localhost/v1", "http://[::1]/"])
def test_this_machine_is_never_reached_through_a_proxy(url: str) -> None:
    assert proxy_for(url, {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}) is None


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"HTTPS_PROXY": PROXY}, PROXY),
        ({"https_proxy": PROXY}, PROXY),
        ({"HTTP_PROXY": PROXY}, None),
        ({"ALL_PROXY": PROXY}, PROXY),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "other.example, api.example"}, None),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": ".example"}, None),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, None),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "pi.example"}, PROXY),
    ],
)
def test_the_environment_names_the_proxy(environ: dict[str, str], expected: str | None) -> None:
    assert proxy_for("https://api.example/v1", environ) == expected


async def test_a_client_has_every_timeout_and_ignores_the_process_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    async with open_client("https://api.example", {}, silence=7) as client:
        assert client.timeout.read == 7
        assert None not in (client.timeout.connect, client.timeout.write, client.timeout.pool)
        assert not client.trust_env


async def test_certificates_of_ones_own_are_used(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(bundle))
    async with open_client("https://x", {"SSL_CERT_FILE": str(bundle)}, silence=1):
        pass
    with pytest.raises((ssl.SSLError, OSError)):
        open_client("https://x", {"SSL_CERT_FILE": str(tmp_path / "none")}, silence=1)


async def test_without_encryption_no_authority_is_read(tmp_path: Path) -> None:
    environ = {"SSL_CERT_FILE": str(tmp_path / "none")}
    async with open_client("http://192.0.2.1", environ, silence=1):
        pass
    with pytest.raises((ssl.SSLError, OSError)):
        open_client("http://192.0.2.1", {**environ, "HTTP_PROXY": "https://proxy"}, silence=1)
