"""The commands that engineers run most, through `exec`, in every sandbox."""

import base64
import os
import re
import shutil
import socketserver
import subprocess
import threading
import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.hostile.test_confinement import HERE, LANDLOCK, needs_bubblewrap, needs_landlock

from openclaw.agent.tools.exec import Shells
from openclaw.agent.tools.native_tools import native_tools
from openclaw.config.agent_schema import ExecToolConfig
from openclaw.core.content import text_of
from openclaw.core.tools import CallContext, ToolResult
from openclaw.mcp_client.sandbox.confinement import Sandbox
from openclaw.mcp_client.sandbox.support import SandboxSupport

pytestmark = pytest.mark.subprocess

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "shell.md"
NONE = SandboxSupport(None, "left out", 0)

COMMANDS = {
    "git status": "git status --short",
    "git commit": "echo x > new && git add -A && git commit -qm 'Add a file' && git log --oneline -1",
    "git log": "git log -3 --stat",
    "git diff": "git diff HEAD~1 --stat",
    "git fetch": "git fetch origin && git branch -r",
    "git clone": "git clone -q remote.git cloned && ls cloned",
    "git stash": "echo y >> a.txt && git stash && git stash pop",
    "python3": "python3 -c 'import ssl, sqlite3, json; print(1)'",
    "python3 -m venv": "python3 -m venv made && made/bin/python -c 'print(1)'",
    "pip download": "made/bin/python -m pip download -q --no-index --find-links wheels -d got tiny",
    "pip install": "made/bin/python -m pip install -q --no-index --find-links wheels --target lib tiny",
    "uv": "uv venv -q uvmade && uv --version",
    "pytest": "python3 -m pytest -q test_it.py",
    "ruff": "ruff check it.py && ruff format --check it.py",
    "node": "node -e 'console.log(require(\"os\").hostname().length > 0)'",
    "npm ci": "npm ci --offline --no-audit --no-fund",
    "npm test": "npm test --silent",
    "npx": "npx --version",
    "cargo build": "cargo build -q --offline --manifest-path crate/Cargo.toml",
    "cargo test": "cargo test -q --offline --manifest-path crate/Cargo.toml",
    "go build": "go build -o program main.go && ./program",
    "make": "make -s",
    "gcc": "gcc -o hello hello.c && ./hello",
    "curl": "curl -sf $SERVED/a.txt",
    "rg": "rg -n hello",
    "grep": "grep -rn hello it.py",
    "sed": "sed -i s/hello/bye/ a.txt && cat a.txt",
    "find": "find . -name '*.py' -type f",
    "tar": "tar czf all.tgz it.py hello.c && tar tzf all.tgz",
    "diff": "diff it.py test_it.py; [ $? = 1 ]",
    "jq": "echo '{\"a\": 1}' | jq .a",
    "sqlite3": "sqlite3 a.db 'create table t (x); insert into t values (1); select * from t'",
    "psql": "psql --version",
    "docker": "docker --version",
    "gh": "gh --version",
    "ssh": "ssh -V",
    "openssl": "openssl rand -hex 4",
    "mktemp": "f=$(mktemp) && echo x > $f && cat $f",
}
HOME_DIRECTORY = Path("~").expanduser()  # before a test replaces it


@contextmanager
def served(directory: Path) -> Generator[str]:
    """What an allowed host would serve."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(directory))

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def fill(work: Path) -> None:
    texts = {
        "a.txt": "hello\n",
        "it.py": 'def hello() -> str:\n    return "hello"\n',
        "test_it.py": "from it import hello\n\n\ndef test_it():\n    assert hello()\n",
        "hello.c": '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n',
        "main.go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }\n',
        "Makefile": "all:\n\t@echo hello\n",
        "package.json": '{"name": "x", "version": "1.0.0", "scripts": {"test": "echo hello"}}',
        "package-lock.json": '{"name": "x", "version": "1.0.0", "lockfileVersion": 3, '
        '"packages": {"": {"name": "x", "version": "1.0.0"}}}',
        "crate/Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n',
        "crate/src/main.rs": 'fn main() { println!("hello"); }\n',
    }
    for name, text in texts.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    (work / "wheels").mkdir()
    with zipfile.ZipFile(work / "wheels" / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        info = "tiny-1.0.dist-info"
        wheel.writestr("tiny.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


class Engineer:
    def __init__(
        self, home: Path, means: SandboxSupport, *, read: Sequence[str] = (), **environ: str
    ) -> None:
        self.work = home / "work"
        self.work.mkdir()
        state = home / ".openclaw"
        state.mkdir()
        (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.com\n")
        rustup = os.environ.get("RUSTUP_HOME", str(HOME_DIRECTORY / ".rustup"))
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "RUSTUP_HOME": rustup,
            **environ,
        }
        # The programs of this machine's user, whose home the test does not have.
        tools = (".cargo/bin", ".rustup", ".pyenv", ".nvm", ".local/bin", ".local/share/uv")
        own = [str(HOME_DIRECTORY / one) for one in tools if (HOME_DIRECTORY / one).exists()]
        settings = ExecToolConfig.model_validate(
            {"inheritEnv": ["RUSTUP_HOME", *environ], "sandbox": {"read": [*own, *VENV, *read]}}
        )
        confine = Sandbox(variables, state, means=means).confine
        self._tools = native_tools(
            "main", self.work, shells=Shells(variables, confine), shell=settings, plugins=False
        )

    async def run(self, command: str) -> ToolResult:
        with anyio.fail_after(180):
            return await self._tools.call(
                "exec", {"command": command}, CallContext("main", "s", "c")
            )


# Where the tests' own programs are.
VENV = [
    str(Path(found).parent.parent)
    for name in ("python3", "go", "uv", "rg", "gh")
    if (found := shutil.which(name)) is not None and not found.startswith("/usr/")
]
sandboxes = pytest.mark.parametrize(
    "means",
    [
        pytest.param(HERE, marks=needs_bubblewrap, id="bubblewrap"),
        pytest.param(LANDLOCK, marks=needs_landlock, id="landlock"),
        pytest.param(NONE, id="none"),
    ],
)


def is_here(program: str) -> bool:
    """Whether the machine has it; rustup's cargo is only a door to a toolchain that may be missing."""
    if shutil.which(program) is None:
        return False
    return program != "cargo" or subprocess.run([program, "--version"]).returncode == 0


@sandboxes
async def test_what_engineers_run_every_day_runs(home: Path, means: SandboxSupport) -> None:
    with served(home / "work") as address:
        engineer = Engineer(home, means, SERVED=address)
        fill(engineer.work)
        begun = await engineer.run(
            "git init -q -b main && printf 'remote.git/\\n' > .gitignore && git add -A && "
            "git commit -qm First && echo z > z && git add z && git commit -qm Second && "
            "git init -q --bare -b main remote.git && git remote add origin ./remote.git && "
            "git push -q origin main"
        )
        assert not begun.is_error, text_of(begun.blocks)
        failed: dict[str, str] = {}
        for name, command in COMMANDS.items():
            program = name.split()[0].replace("pip", "python3")
            if not is_here(program):
                continue
            result = await engineer.run(command)
            if result.is_error:
                failed[name] = text_of(result.blocks)
    assert failed == {}


def test_the_table_of_the_docs_has_these_commands() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| works", PAGE.read_text(), re.MULTILINE)
    assert rows == list(COMMANDS)


TOKEN = "a-fine-grained-token-0123456789"


@contextmanager
def git_server(root: Path) -> Generator[str]:
    """A host for repositories that takes pushes from whoever has the token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = "Basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
            if self.headers["authorization"] != wanted:
                self.send_response(401)
                self.send_header("www-authenticate", "Basic realm=git")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            environ = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "REMOTE_USER": "ann",
                "CONTENT_TYPE": self.headers.get("content-type", ""),
            }
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            done = subprocess.run(
                ["git", "http-backend"], input=body, env=environ, capture_output=True, check=True
            )
            head, _, answer = done.stdout.partition(b"\r\n\r\n")
            self.send_response(200)
            for line in head.decode().splitlines():
                name, _, value = line.partition(": ")
                if name != "Status":
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@sandboxes
async def test_git_pushes_with_a_token_of_its_own(
    home: Path, tmp_path: Path, means: SandboxSupport
) -> None:
    repository = tmp_path / "host" / "x.git"
    subprocess.run(["git", "init", "-q", "--bare", repository], check=True)
    helper = '"!f() { echo username=x-access-token; echo password=$GH_TOKEN; }; f"'
    push = "git init -q && echo x > x && git add x && git commit -qm x && git push -q {}/x.git HEAD"
    with git_server(tmp_path / "host") as address:
        engineer = Engineer(home, means, GH_TOKEN=TOKEN)
        with (home / ".gitconfig").open("a") as file:
            file.write(f'[credential "{address}"]\n\thelper = {helper}\n')
        result = await engineer.run(push.format(address))
    assert not result.is_error, text_of(result.blocks)
    log = ["git", "-C", repository, "log", "--all", "--format=%an %s"]
    done = subprocess.run(log, capture_output=True, text=True, check=True)
    assert done.stdout == "Ann x\n"


@needs_bubblewrap
@pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="there is no ssh-agent")
@pytest.mark.parametrize("allowed", [True, False])
async def test_a_command_uses_the_agents_key_but_cannot_read_it(
    home: Path, tmp_path: Path, allowed: bool
) -> None:
    keys, listening = home / ".ssh", tmp_path / "agent.sock"
    keys.mkdir(mode=0o700)
    key = keys / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    with subprocess.Popen(["ssh-agent", "-D", "-a", listening], stdout=subprocess.PIPE) as agent:
        try:
            assert agent.stdout is not None
            agent.stdout.readline()  # it listens now
            variable = {"SSH_AUTH_SOCK": str(listening)}
            subprocess.run(["ssh-add", "-q", key], env={**os.environ, **variable}, check=True)
            own = [str(listening), str(keys / "known_hosts")] if allowed else []
            (keys / "known_hosts").touch()
            engineer = Engineer(home, HERE, read=own, **variable)
            (engineer.work / "key.pub").write_text((keys / "id_ed25519.pub").read_text())
            signed = await engineer.run("echo x > x && ssh-keygen -Y sign -n git -f key.pub x")
            stolen = await engineer.run("cat ~/.ssh/id_ed25519")
        finally:
            agent.terminate()
    assert signed.is_error is not allowed, text_of(signed.blocks)
    assert stolen.is_error
