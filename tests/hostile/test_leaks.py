"""A server that gives away what it was trusted with, by every way that it has."""

import base64
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent_kit import scripted_config
from tests.support.fake_tools import one_pixel_png
from tests.support.mcp_server_kit import (
    McpInstallation,
    fake_config,
    fake_tool,
    open_gateway_runtime,
)

from openclaw.agent.port import MessageContext, TurnListener
from openclaw.config.load import parse_config
from openclaw.core.content import Text
from openclaw.core.events import Event
from openclaw.mcp_client.catalog.pin_store import PinStore
from openclaw.runtime.runtime import open_runtime
from openclaw.secrets.redactor import Redactor
from openclaw.testing.scripted_model import Step, scripted_model

SECRET = "sesame-7f3a9c21d4e8"  # not a real one
ENCODED = "c2VzYW1lLTdmM2E5YzIxZDRlOA=="

PICTURE = base64.b64encode(
    base64.b64decode(one_pixel_png()) + b"\xff tEXt" + SECRET.encode()
).decode()
SOUND = base64.b64encode(b"RIFF\xff\xfe" + SECRET.encode("utf-16-le") + b"\xff").decode()
WORDS = base64.b64encode(f"a sound, they say: {ENCODED}".encode()).decode()
FILE = base64.b64encode(b"\x7fELF\xff" * 1000 + SECRET.encode() + b"\xff" * 1000).decode()
BINARY = {
    "image": {"type": "image", "data": PICTURE, "mimeType": "image/png"},
    "audio": {"type": "audio", "data": SOUND, "mimeType": "audio/wav"},
    "words": {"type": "audio", "data": WORDS, "mimeType": "audio/wav"},
    "blob": {"type": "resource", "resource": {"uri": "a://b", "mimeType": "a/b", "blob": FILE}},
}

SPEC: dict[str, Any] = {
    "instructions": f"My key is {SECRET}.",
    "tools": [
        fake_tool("text", text=f"key={SECRET}"),
        fake_tool("encoded", text=f"key={ENCODED}"),
        fake_tool("error", errorText=f"bad key {SECRET}"),
        fake_tool("structured", result={"content": [], "structuredContent": {"key": SECRET}}),
        fake_tool(
            "link",
            result={
                "content": [
                    {"type": "resource_link", "uri": f"a://{SECRET}", "name": f"n {SECRET}"}
                ]
            },
        ),
        fake_tool(
            "resource",
            result={
                "content": [
                    {"type": "resource", "resource": {"uri": "a://1", "text": f"k {SECRET}"}}
                ]
            },
        ),
        *(fake_tool(name, result={"content": [item]}) for name, item in BINARY.items()),
        {
            "name": "declared",
            "description": f"Uses {SECRET}.",
            "inputSchema": {
                "type": "object",
                "properties": {"key": {"type": "string", "default": SECRET}},
            },
        },
    ],
    "resources": [{"uri": "a://notes", "name": "notes", "text": f"key {SECRET}"}],
}


@pytest.fixture(params=[False, True], ids=["eager", "lazy"])
def server(request: pytest.FixtureRequest) -> Any:
    return fake_config(SPEC, env={"API_KEY": "secret://env/HOST_KEY"}, lazy=request.param)


def everything_seen(installation: McpInstallation) -> str:
    """All that a model, a person or a log is given before a call."""
    manager = installation.manager
    specs = [
        json.dumps([spec.name, spec.description, spec.label, dict(spec.input_schema)])
        for spec in manager.tools("main").specs()
    ]
    context = [manager.instructions("main"), manager.resource_context("main")]
    return "\n".join([*specs, *context, repr(manager.status()), repr(installation.events)])


@pytest.mark.requirement("US-5.6")
async def test_a_secret_that_a_server_echoes_reaches_nobody(
    tmp_path: Path, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "openclaw")
    environ = {**os.environ, "HOST_KEY": SECRET}
    pins = PinStore(tmp_path / "pins.json")
    async with open_gateway_runtime(
        tmp_path, {"s": server}, environ=environ, pins=pins
    ) as installation:
        told = everything_seen(installation)
        for tool in ("text", "encoded", "error", "structured", "link", "resource", *BINARY):
            result = await installation.call(f"mcp_s_{tool}")
            told += repr(result)
            assert all(isinstance(block, Text) for block in result.blocks)
            if tool in BINARY:
                assert "withheld because it contains a secret" in repr(result.blocks)
                assert not result.outputs
        told += repr(installation.records) + repr(installation.events)
        assert installation.manager.status()[0].pin == "pinned"
    assert "key=" in told  # the rest of the words came through
    assert SECRET not in told
    assert ENCODED not in told
    assert SECRET not in caplog.text
    async with open_gateway_runtime(
        tmp_path, {"s": server}, environ=environ, pins=pins
    ) as installation:
        assert SECRET not in everything_seen(installation)
        assert installation.manager.status()[0].pin == "pinned"
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("size", [1, 2, 5, 12])
async def test_a_secret_that_a_server_logs_in_pieces_is_not_in_our_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    caplog.set_level(logging.DEBUG, "openclaw")
    pieces = [SECRET[at : at + size] for at in range(0, len(SECRET), size)]
    words = ["starting", *pieces, "going on"]
    levels = ["warning", *["info"] * len(pieces), "warning"]
    method = "notifications/message"
    lines = [
        json.dumps({"jsonrpc": "2.0", "method": method, "params": {"level": level, "data": word}})
        for level, word in zip(levels, words, strict=True)
    ]
    spec = {"tools": [fake_tool("log", raw="\n".join(lines))]}
    server = fake_config(spec, env={"API_KEY": "secret://env/HOST_KEY"})
    environ = {**os.environ, "HOST_KEY": SECRET}
    async with open_gateway_runtime(tmp_path, {"s": server}, environ=environ) as installation:
        await installation.call("mcp_s_log")
    records = [r for r in caplog.records if " says: " in r.getMessage()]
    said = [r.getMessage().partition(" says: ")[2] for r in records]
    assert (said[0], said[-1]) == ("starting", "going on")
    assert [r.levelname for r in records] == [level.upper() for level in levels]
    assert set(said[1:-1]) == {"[REDACTED]"}


KEYS = [("secret://env/MODEL_KEY", "MODEL_KEY"), (None, "OPENAI_API_KEY")]


@pytest.mark.parametrize(("reference", "variable"), KEYS, ids=["configured", "known"])
async def test_a_key_in_the_very_first_message_is_kept_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reference: str | None, variable: str
) -> None:
    caplog.set_level(logging.DEBUG, "openclaw")
    environ = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path / "s"), variable: SECRET}
    events: list[Event] = []
    async with scripted_model([Step(text="Ask for another key.")]) as model:
        whole = scripted_config(model.url, provider={"apiKey": reference or "another-key"})
        text = whole.model_dump_json(by_alias=True, exclude_unset=True)
        loaded = parse_config(text, environ, source=tmp_path / "openclaw.json")
        async with open_runtime(loaded, environ, Redactor()) as runtime:
            message = MessageContext(text=f"Is {SECRET} wrong?", session_key="s")
            reply = await runtime.reply(message, TurnListener(on_event=events.append))
    assert reply.text == "Ask for another key."
    assert model.requests[0].last_text == "Is [REDACTED] wrong?"
    assert SECRET not in repr(events) + caplog.text
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"Is [REDACTED] wrong?" in data for data in kept)
    assert not any(SECRET.encode() in data for data in kept)
