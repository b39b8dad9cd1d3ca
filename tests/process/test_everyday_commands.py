"""The commands that engineers run most, through `exec`, in every sandbox."""

import os
import re
import shutil
import socketserver
import threading
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler
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
from openclaw.mcp_client.sandbox.confinement import Sandbox, SandboxSupport

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
    def __init__(self, home: Path, means: SandboxSupport, **environ: str) -> None:
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
            {"inheritEnv": ["RUSTUP_HOME", *environ], "sandbox": {"read": [*own, *VENV]}}
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
            if shutil.which(program) is None:
                continue
            result = await engineer.run(command)
            if result.is_error:
                failed[name] = text_of(result.blocks)
    assert failed == {}


def test_the_table_of_the_docs_has_these_commands() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert rows == list(COMMANDS)
