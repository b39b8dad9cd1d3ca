"""Pages over real HTTP, through the guarded client."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.fake_http import QuietHandler, serving
from tests.unit.agent.tools.conftest import CONTEXT
from tests.unit.media.test_documents import make_pdf

from openclaw.agent.tools.base import NativeTools
from openclaw.agent.tools.web import Page, decoded, fetch_page, web_tool
from openclaw.content.frame import frame_result
from openclaw.core.content import text_of
from openclaw.net.guarded_client import Exemptions, GuardedClient


class Handler(QuietHandler):
    """Pages that a test asks for by path."""

    pdf = b""

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/page")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = "<h1>Grüße</h1>".encode("latin-1") if self.path == "/page" else b"x" * 5000
        kind = "text/html; charset=iso-8859-1" if self.path == "/page" else "text/plain"
        if self.path.startswith("/pdf"):
            body = b"%PDF-broken" if self.path == "/pdf-broken" else self.pdf
            untold = self.path == "/pdf-untold"
            kind = "application/octet-stream" if untold else "application/pdf"
        self.reply(body, kind=kind)


@pytest.fixture
def address() -> Generator[str]:
    with serving(Handler) as url:
        yield url


def open_loopback() -> GuardedClient:
    return GuardedClient(exemptions=Exemptions(loopback=True))


async def fetch_loopback(url: str) -> Page:
    return await fetch_page(url, open_loopback)


async def test_a_page_is_fetched_decoded_and_framed(address: str) -> None:
    tools = NativeTools([web_tool(fetch_loopback)])
    result = await tools.call("web_fetch", {"url": f"{address}/moved"}, CONTEXT)
    assert not result.is_error
    assert "From: 127.0.0.1\n---\n# Grüße\n" in text_of(frame_result(result).blocks)


async def test_a_page_that_is_too_long_is_cut(address: str) -> None:
    page = await fetch_page(f"{address}/long", open_loopback, max_bytes=1000)
    assert (page.text, page.truncated) == ("x" * 1000, True)


async def test_an_address_of_this_machine_is_refused(address: str) -> None:
    tools = NativeTools([web_tool(fetch_page)])
    result = await tools.call("web_fetch", {"url": address}, CONTEXT)
    assert result.is_error
    assert "refused to fetch" in text_of(result.blocks)


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("é".encode(), "text/html", "é"),
        ("é".encode("latin-1"), "text/html; charset=ISO-8859-1", "é"),
        (b'<meta charset="latin-1">' + b"\xe9", "text/html", '<meta charset="latin-1">é'),
        ("é".encode("utf-16"), "text/plain; charset=latin-1", "é"),
        ("\ufeffé".encode(), "", "é"),
        ("é".encode(), "text/html; charset=nonsense", "é"),
        ("é".encode(), "text/html; charset=hex", "é"),
        ("é".encode("latin-1"), "text/plain", "é"),
        (b"\x93caf\xe9\x94", "text/html", "\u201ccafé\u201d"),
        ("é".encode() * 2000 + b"\xc3", "text/plain", "é" * 2000 + "\ufffd"),
        (
            b'<?xml version="1.0" encoding="iso-8859-15"?><a>\xa4</a>',
            "application/xml",
            '<?xml version="1.0" encoding="iso-8859-15"?><a>\u20ac</a>',
        ),
    ],
)
def test_text_is_decoded_by_what_is_known_of_it(body: bytes, content_type: str, text: str) -> None:
    assert decoded(body, content_type) == text


async def test_the_text_of_a_pdf_is_read_and_one_without_any_says_so(
    address: str, tmp_path: Path
) -> None:
    Handler.pdf = make_pdf(tmp_path / "a.pdf", ["Tide tables for Emden."]).read_bytes()
    tools = NativeTools([web_tool(fetch_loopback)])
    result = await tools.call("web_fetch", {"url": f"{address}/pdf"}, CONTEXT)
    assert "Tide tables for Emden." in text_of(result.blocks)
    untold = await tools.call("web_fetch", {"url": f"{address}/pdf-untold"}, CONTEXT)
    assert "Tide tables for Emden." in text_of(untold.blocks)
    broken = await tools.call("web_fetch", {"url": f"{address}/pdf-broken"}, CONTEXT)
    assert broken.is_error
    assert "It is a PDF, and its text could not be extracted" in text_of(broken.blocks)
