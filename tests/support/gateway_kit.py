"""Gateways for tests: in the test's own process, or as the process that a person starts."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.load import LoadedConfig, load_config
from openclaw.config.paths import StatePaths
from openclaw.core.clock import SystemClock
from openclaw.gateway.daemon import Daemon, serve
from openclaw.gateway.lock import GatewayInfo, gateway_lock, read_token, running_gateway
from openclaw.gateway.service_files import Notifier
from openclaw.mcp_client.session.era_memory import Era, EraMemory, identity
from openclaw.runtime.gateway_runtime import open_backend
from openclaw.runtime.open_secrets import open_secrets
from openclaw.secrets.redactor import Redactor

_BIN = Path(sys.executable).parent
_START_SECONDS = 60.0


def _any_port(loaded: LoadedConfig) -> LoadedConfig:
    gateway = loaded.config.gateway.model_copy(update={"port": 0})
    return replace(loaded, config=loaded.config.model_copy(update={"gateway": gateway}))


@dataclass(frozen=True, slots=True)
class Installation:
    """A state directory with a configuration."""

    state: Path

    @property
    def config_file(self) -> Path:
        """Where the configuration is."""
        return self.state / "openclaw.json"

    @property
    def paths(self) -> StatePaths:
        """What lies where."""
        return StatePaths(self.state)

    def environ(self, **more: str) -> dict[str, str]:
        """An environment in which programs use this installation."""
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME") or k[:3] == "COV"}
        own = {"OPENCLAW_STATE_DIR": str(self.state), "ACME_KEY": "acme-key-0123456789"}
        return {**kept, **own, **more}

    def configure(
        self, model_url: str, servers: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        """Write a configuration with a scripted model and these servers."""
        workspace = self.state / "workspace"
        workspace.mkdir(mode=0o700, exist_ok=True)
        provider = {
            "baseUrl": f"{model_url}/v1",
            "apiKey": "secret://env/ACME_KEY",
            "api": "openai-completions",
            "models": [{"id": "scripted", "input": ["text", "image"]}],
        }
        config = {
            "models": {"providers": {"acme": provider}},
            "dataflow": {"mode": "off"},
            "agents": {
                "defaults": {
                    "model": "acme/scripted",
                    "workspace": str(workspace),
                    "mcp": {"servers": dict(servers or {})},
                },
                **more.pop("agents", {}),
            },
            **more,
            # Nobody waits for a turn that a test has left behind.
            "gateway": {"shutdownGraceMs": 200, **more.get("gateway", {})},
        }
        unborn = self.config_file.with_suffix(".new")
        unborn.write_text(json.dumps(config))
        unborn.replace(self.config_file)

    @property
    def token(self) -> str:
        """The token of the gateway that runs."""
        found = read_token(self.state)
        assert found is not None
        return found

    @property
    def headers(self) -> dict[str, str]:
        """What a request of the gateway's owner carries."""
        return {"authorization": f"Bearer {self.token}"}

    def daemon(self, **environ: str) -> Daemon:
        """What a gateway in this process is started with."""
        env = self.environ(**environ)
        redactor = Redactor()
        loaded = _any_port(load_config(None, env))
        return Daemon(
            loaded=loaded,
            load=lambda: _any_port(load_config(None, env)),
            paths=self.paths,
            clock=SystemClock(),
            redact=redactor.redact,
            open_backend=lambda emit, url: open_backend(loaded, env, redactor, emit, url),
            resolve=open_secrets(loaded.config, env, redactor).resolve_text,
            notifier=Notifier(env),
            log_file=self.paths.gateway_log,
            variables=env,
        )

    @asynccontextmanager
    async def here(self, **environ: str) -> AsyncGenerator[GatewayInfo]:
        """A gateway in this process, which is stopped as a signal would stop it."""
        daemon, stop = self.daemon(**environ), anyio.Event()
        with gateway_lock(self.paths.gateway_lock) as publish:
            async with anyio.create_task_group() as group:
                group.start_soon(serve, daemon, publish, stop, name="gateway")
                try:
                    yield await self.running()
                finally:
                    stop.set()

    async def running(self) -> GatewayInfo:
        """The gateway, as soon as it says where it is."""
        with anyio.fail_after(_START_SECONDS):
            while True:
                info = running_gateway(self.paths.gateway_lock)
                if info is not None and info.url:
                    return info
                await anyio.sleep(0.01)

    @asynccontextmanager
    async def process(self, *arguments: str, **environ: str) -> AsyncGenerator[Process]:
        """A gateway as a process of its own; ended at the end, if it has not ended before."""
        command = [str(_BIN / "openclaw"), "gateway", "run", "--port", "0", *arguments]
        async with await anyio.open_process(
            command, env=self.environ(**environ), stdout=None, stderr=None
        ) as process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    process.terminate()
                with anyio.CancelScope(shield=True):
                    with anyio.move_on_after(90) as patience:
                        await process.wait()
                    if patience.cancelled_caught:
                        process.kill()


def knows(state: Path, command: Path | str, *arguments: str, cwd: Path | None = None) -> None:
    """Have this server have answered before: a turn waits for it, however slow the machine is."""
    place = None if cwd is None else str(cwd)
    config = McpServerConfig(command=str(command), args=arguments, cwd=place)
    EraMemory(StatePaths(state).cache, identity(config)).remember(Era.LEGACY)


def documented(row: str) -> set[str]:
    """The fields of a row in answers of the HTTP API, as its reference page names them."""
    page = (Path(__file__).parents[2] / "docs/reference/http-answers.md").read_text(
        encoding="utf-8"
    )
    section = page.partition(f"\n## {row}\n")[2].partition("\n## ")[0]
    return {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")}
