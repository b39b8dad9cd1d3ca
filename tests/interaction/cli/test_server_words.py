"""A server's ordinary words on stderr go to the log; a person sees them when it fails, or asks for them."""

import json
import os
import sys
from pathlib import Path

import anyio
import pytest
from tests.support.fake_server import server_entry
from tests.support.mcp_server_kit import fake_tool

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

CHATTER = "stderr line 1"
COMMANDS = {
    "agent": ["agent", "--local", "hello"],
    "chat": ["chat", "--local"],
    "status": ["status", "--probe"],
}


async def stderr_of(home: Path, *arguments: str) -> str:
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "openclaw", *arguments]
    done = await anyio.run_process(command, input=b"hello\n", check=False, env=environ)
    return done.stderr.decode()


@pytest.mark.parametrize("name", COMMANDS)
async def test_chatter_is_kept_and_shown_where_it_is_asked_for(home: Path, name: str) -> None:
    noisy = server_entry({"tools": [fake_tool("echo")], "faults": {"stderrFlood": 3}})
    failing = {
        "command": sys.executable,
        "args": ["-c", "import sys; sys.exit('no such thing')"],
        "maxRestarts": 0,
    }
    async with scripted_model(default=Step(text="Here.")) as model:
        config = home / ".openclaw" / "openclaw.json"
        config.parent.mkdir(mode=0o700)
        provider = {"baseUrl": f"{model.url}/v1", "apiKey": "k-0123456789", "models": [{"id": "m"}]}
        servers = {"noisy": noisy, "failing": failing}
        config.write_text(
            json.dumps(
                {
                    "dataflow": {"mode": "off"},
                    "models": {"providers": {"acme": provider}},
                    "mcp": {"servers": servers},
                }
            )
        )
        config.chmod(0o600)
        quiet = await stderr_of(home, *COMMANDS[name])
        kept = (home / ".openclaw" / "logs" / "servers.log").read_text()
        verbose = await stderr_of(home, *COMMANDS[name], "--verbose")
    assert CHATTER not in quiet
    assert "stderr: no such thing" not in quiet
    assert "(its last output: no such thing)" in quiet
    assert CHATTER in kept
    assert '"level":"warning"' in kept
    assert CHATTER in verbose
