"""A client of the official SDK, our server as a real process, and a scripted model behind it."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Setup:
    """A state directory with a configuration, and how to start programs on it."""

    state: Path

    @property
    def workspace(self) -> Path:
        return self.state / "workspace"

    def configure(self, model_url: str, servers: dict[str, Any], **more: Any) -> None:
        self.workspace.mkdir(exist_ok=True)
        config: dict[str, Any] = {
            "dataflow": {"mode": "off"},
            "models": {
                "providers": {
                    "acme": {
                        "baseUrl": f"{model_url}/v1",
                        "apiKey": "secret://env/ACME_KEY",
                        "api": "openai-completions",
                        "models": [{"id": "scripted", "input": ["text", "image"]}],
                    }
                }
            },
            "agents": {
                "defaults": {
                    "model": "acme/scripted",
                    "workspace": str(self.workspace),
                    "mcp": {"servers": servers},
                }
            },
            **more,
        }
        (self.state / "openclaw.json").write_text(json.dumps(config))

    @property
    def environ(self) -> dict[str, str]:
        # Coverage's own variables go along, so that what runs in the child counts.
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME") or k[:3] == "COV"}
        state = {"OPENCLAW_STATE_DIR": str(self.state), "ACME_KEY": "acme-key-0123456789"}
        return {**kept, **state}

    def parameters(self, *arguments: str, program: str = "openclaw") -> StdioServerParameters:
        return StdioServerParameters(
            command=str(BIN / program), args=["mcp-server", *arguments], env=self.environ
        )


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return Setup(state)


Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def connect(setup: Setup) -> Connect:
    @asynccontextmanager
    async def connected(
        *arguments: str, program: str = "openclaw", **options: Any
    ) -> AsyncGenerator[Client]:
        transport = stdio_client(setup.parameters(*arguments, program=program))
        async with Client(transport, **options) as client:
            yield client

    return connected
