"""A server that prints its own secret in pieces does not get it into our log or diagnostics."""

import json
import logging
import sys
from pathlib import Path

import anyio
import pytest

from openclaw.config.load import parse_config
from openclaw.config.merge import effective_agents
from openclaw.runtime.host import open_servers
from openclaw.secrets.redactor import Redactor

SECRET = "tangerine-7431-harbour-ZX"
LEAKY = """
import os, sys, time
secret, size = os.environ["TOKEN"], int(sys.argv[1])
print("starting", file=sys.stderr, flush=True)
for at in range(0, len(secret), size):
    print(secret[at:at + size], file=sys.stderr, flush=True)
print("going on", file=sys.stderr, flush=True)
sys.stdin.read()
"""


@pytest.mark.requirement("NFR-3.2")
@pytest.mark.parametrize("size", [1, 2, 3, 5, 11, 24])
async def test_pieces_of_a_secret_on_stderr_are_redacted(
    size: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = tmp_path / "leaky.py"
    script.write_text(LEAKY)
    config = {
        "command": sys.executable,
        "args": [str(script), str(size)],
        "env": {"TOKEN": "secret://env/LEAK_ME"},
        "timeout": 60_000,
        "maxRestarts": 0,
    }
    environ = {
        "HOME": str(tmp_path),
        "OPENCLAW_STATE_DIR": str(tmp_path / "state"),
        "LEAK_ME": SECRET,
    }
    text = json.dumps({"mcp": {"servers": {"leaky": config}}})
    loaded = parse_config(text, environ, source=tmp_path / "openclaw.json")
    agents = effective_agents(loaded.config)
    with caplog.at_level(logging.WARNING):
        async with open_servers(loaded, environ, Redactor(), agents) as opened:
            manager = opened.manager
            with anyio.fail_after(60):
                while "going on" not in caplog.text:  # noqa: ASYNC110 (the child's own pace)
                    await anyio.sleep(0.02)
            tail = "\n".join(manager.status()[0].snapshot.stderr)
    logged = [r.getMessage() for r in caplog.records if "stderr: " in r.getMessage()]
    said = "".join(line.rpartition("stderr: ")[2] for line in logged)
    for text in (said, tail.replace("\n", "")):
        assert "starting" in text
        assert "going on" in text
        assert SECRET not in text
        assert not any(SECRET[at : at + 6] in text for at in range(len(SECRET) - 6))
