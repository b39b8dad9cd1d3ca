"""Addresses in an answer: fetched through the guard, or left out in words."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.fake_http import QuietHandler, serving

from openclaw.core.content import Media
from openclaw.mcp.revisions import LATEST
from openclaw.mcp_server.aggregation import OutboundRules, fetch_guarded, render
from openclaw.net.guarded_client import Exemptions, GuardedClient

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100


class Site(QuietHandler):
    def do_GET(self) -> None:
        status, kind, body = {
            "/dot": (200, "image/png", PNG),
            "/untyped": (200, "", PNG),
            "/large": (200, "text/plain", b"x" * 2_000),
        }.get(self.path, (404, "text/plain", b"no"))
        self.reply(body, status, kind or None)


@pytest.fixture
def site() -> Generator[str]:
    with serving(Site) as url:
        yield url


def exempting() -> GuardedClient:
    """A client that may reach this machine, as no test reaches beyond it."""
    return GuardedClient(exemptions=Exemptions(loopback=True))


async def test_what_the_address_gives_becomes_a_block(site: str) -> None:
    async def fetch(url: str, limit: int) -> tuple[bytes, str | None]:
        return await fetch_guarded(url, limit, exempting())

    rules = OutboundRules(directories=(), fetch=fetch, audio="auto")
    items = [Media("", url=f"{site}/dot"), Media("image/gif", url=f"{site}/untyped")]
    blocks, left_out = await render(items, rules, LATEST)
    assert left_out == []
    assert [(block["type"], block["mimeType"]) for block in blocks] == [("image", "image/png")] * 2


@pytest.mark.parametrize(
    ("path", "limit", "reason"), [("/gone", 1_000, "HTTP 404"), ("/large", 1_000, "larger than")]
)
async def test_what_cannot_be_had_is_said(site: str, path: str, limit: int, reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        await fetch_guarded(f"{site}{path}", limit, exempting())


@pytest.mark.requirement("M-15")
@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/", "http://169.254.169.254/", "file:///etc/passwd"]
)
async def test_an_address_of_this_machine_is_left_out_in_words(
    address: str, tmp_path: Path
) -> None:
    rules = OutboundRules(directories=(tmp_path,), audio="auto")
    blocks, [line] = await render([Media("image/png", url=address)], rules, LATEST)
    assert blocks == []
    assert "was left out: refused to fetch" in line
