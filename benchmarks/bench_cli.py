"""Everyday commands from nothing, beside a Python that does nothing, `llm` and nanobot.

Each is measured twice: until it has ended, and by the processor time that it took, which other work
on the machine changes least. The model is instant and on this machine. fast-agent is not among them:
its last version for Python 3.11 does not start with the libraries of today, and later ones need 3.13.5.
"""

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness import Comparison, Contender, Row, compare, report
from peers.contenders import PEERS, environment

from openclaw.config.paths import StatePaths
from openclaw.gateway.lock import running_gateway, wait_for

OPENCLAW = str(Path(sys.executable).with_name("openclaw"))
LLM = "llm==0.36"
NANOBOT = next(one.requirement for one in PEERS if one.name == "nanobot")
ROUNDS = 5
NOTHING = ("python -c pass", [sys.executable, "-c", "pass"])

PROMPT, CURSOR_WHERE = (
    b"\x1b[?2004h",
    b"\x1b[6n",
)  # from now on it reads; where does the line begin?

Environ = dict[str, str]
Command = tuple[str, list[str]]


def spawned(command: Command, environ: Environ, used: dict[str, list[float]]) -> Contender:
    """Runs it to its end; the processor time that it took goes to `used`."""
    name, words = command
    used[name] = []

    def run() -> None:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            words,
            check=False,  # `doctor` may well find something
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    return Contender(name, run)


def measured(title: str, commands: Sequence[tuple[Command, Environ]]) -> list[Comparison]:
    used: dict[str, list[float]] = {}
    contenders = [spawned(command, environ, used) for command, environ in commands]
    found = compare(f"{title}, until the program has ended", contenders, rounds=ROUNDS, warmup=1)
    rows = [Row(name, seconds[1:]) for name, seconds in used.items()]
    return [found, Comparison(f"{title}, processor time", rows)]


def until_prompt(environ: Environ, used: list[float]) -> Contender:
    """Runs `chat` at a terminal until a message can be typed."""

    def run() -> None:
        pid, terminal = pty.fork()
        if not pid:
            os.execve(OPENCLAW, [OPENCLAW, "chat"], environ)
        seen = b""
        while PROMPT not in seen:
            seen += (more := os.read(terminal, 65_536))
            if CURSOR_WHERE in more:
                os.write(terminal, b"\x1b[1;1R")
        os.kill(pid, signal.SIGKILL)
        spent = os.wait4(pid, 0)[2]
        os.close(terminal)
        used.append(spent.ru_utime + spent.ru_stime)

    return Contender("openclaw chat", run)


@contextmanager
def model(directory: Path, *rules: Mapping[str, object]) -> Generator[str]:
    """An instant model; yields its address."""
    script = directory / "script.json"
    script.write_text(json.dumps({"rules": rules, "default": {"text": "Done."}}))
    command = [sys.executable, "-m", "openclaw.testing.scripted_model", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.kill()


def state(directory: Path, url: str, *, port: int = 18789) -> Environ:
    """A state directory with this model; what is compiled once stays compiled, as when installed."""
    directory.mkdir()
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "models": [{"id": "m"}]}
    config = {
        "models": {"providers": {"acme": provider}},
        "agents": {"defaults": {"model": "acme/m", "workspace": str(directory)}},
        "gateway": {"port": port},
    }
    (directory / "openclaw.json").write_text(json.dumps(config))
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "OPENCLAW_STATE_DIR": str(directory)}


@contextmanager
def gateway(environ: Environ) -> Generator[None]:
    lock = StatePaths(Path(environ["OPENCLAW_STATE_DIR"])).gateway_lock
    with subprocess.Popen(
        [OPENCLAW, "gateway", "run", "--port", "0"], env=environ, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert wait_for(lambda: bool((found := running_gateway(lock)) and found.url), 120)
            yield
        finally:
            process.terminate()


def llm(directory: Path, url: str) -> tuple[list[str], Environ]:
    """The same message by `llm`, to the same model."""
    home = directory / "llm"
    home.mkdir()
    known = {"model_id": "m", "model_name": "m", "api_base": f"{url}/v1"}
    (home / "extra-openai-models.yaml").write_text(json.dumps([known]))
    program = Path(environment(LLM)).with_name("llm")
    keys = {"LLM_USER_PATH": str(home), "OPENAI_API_KEY": "none"}
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return [str(program), "-m", "m", "hi"], {**kept, **keys}


def nanobot(directory: Path, url: str) -> tuple[list[str], Environ]:
    home = directory / "nanobot"
    home.mkdir()
    config = {
        "providers": {"custom": {"apiKey": "none", "apiBase": f"{url}/v1"}},
        "agents": {"defaults": {"model": "m", "provider": "custom", "workspace": f"{home}/files"}},
    }
    (home / "config.json").write_text(json.dumps(config))
    program = Path(environment(NANOBOT)).with_name("nanobot")
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    words = [str(program), "agent", "-c", str(home / "config.json"), "--no-markdown", "-m", "hi"]
    return words, {**kept, "HOME": str(home)}


def main() -> None:
    with tempfile.TemporaryDirectory() as name, model(Path(name)) as url:
        directory = Path(name)
        alone, served = state(directory / "alone", url), state(directory / "served", url)
        theirs, their_environ = llm(directory, url)
        bot, bot_environ = nanobot(directory, url)
        everyday = ("--version", "mcp list", "sessions", "status", "doctor")
        with gateway(served):
            messages = [
                (("llm", theirs), their_environ),
                (("nanobot", bot), bot_environ),
                (("openclaw agent", [OPENCLAW, "agent", "hi"]), alone),
                (("openclaw agent, through a gateway", [OPENCLAW, "agent", "hi"]), served),
            ]
            for (_, words), environ in messages:
                said = subprocess.run(words, env=environ, capture_output=True, check=True)
                assert b"Done." in said.stdout, said.stderr
            found = measured("one message from nothing", [*messages, (NOTHING, alone)])
            commands = [(f"openclaw {one}", [OPENCLAW, *one.split()]) for one in everyday]
            found += measured(
                "a command from nothing", [(one, alone) for one in (NOTHING, *commands)]
            )
            title, spent = "until a message can be typed", list[float]()
            chat = until_prompt({**alone, "TERM": "xterm-256color"}, spent)
            found.append(compare(title, [chat], rounds=ROUNDS, warmup=1))
            found.append(Comparison(f"{title}, processor time", [Row(chat.name, spent[1:])]))
    report(found, notes=[f"load of the machine at the end: {os.getloadavg()[0]:.1f}"])


if __name__ == "__main__":
    main()
