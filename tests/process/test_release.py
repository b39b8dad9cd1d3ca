"""What is released: built, installed where nothing else is, and run."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw.cli.build_version import version_text
from openclaw.version import __version__

ROOT = Path(__file__).parents[2]
UV = ROOT / "scripts" / "uv"

pytestmark = pytest.mark.subprocess


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel that is built from it."""
    place = tmp_path_factory.mktemp("dist")
    command = [UV, "build", "--quiet", "--out-dir", place, ROOT]
    subprocess.run(command, check=True, capture_output=True, env=_environ(Path.home()))
    return place


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it. Its dependencies are those that are installed here."""
    venv = tmp_path_factory.mktemp("clean") / "venv"
    environ = _environ(Path.home())
    subprocess.run(
        [UV, "venv", "--quiet", "--python", sys.executable, venv], check=True, env=environ
    )
    (wheel,) = built.glob("*.whl")
    install = [UV, "pip", "install", "--quiet", "--no-deps", "--offline", "--python", venv, wheel]
    subprocess.run(install, check=True, env=environ)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return venv


def _environ(home: Path) -> dict[str, str]:
    kept = {
        name: os.environ[name] for name in os.environ if name.startswith(("UV_", "PIP_", "SSL_"))
    }
    return {**kept, "PATH": os.environ["PATH"], "HOME": str(home)}


def run(
    installed: Path, home: Path, *words: str, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [installed / "bin" / "openclaw", *words],
        input=stdin,
        capture_output=True,
        text=True,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        cwd=home,
        check=False,
    )


def members(archive: Path) -> Iterator[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            yield from wheel.namelist()
        return
    with tarfile.open(archive) as sdist:
        for name in sdist.getnames():
            yield name.partition("/")[2]


def test_the_wheel_has_the_program_and_what_it_needs_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"openclaw_runtime-{__version__}-py3-none-any.whl"
    names = set(members(wheel))
    tops = {name.partition("/")[0] for name in names}
    stem = f"openclaw_runtime-{__version__}"
    assert tops == {"openclaw", f"{stem}.dist-info", f"{stem}.data"}
    sources = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "openclaw").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sources <= names
    assert f"{stem}.data/data/share/man/man1/openclaw.1" in names
    assert f"{stem}.dist-info/licenses/LICENSE" in names


def test_the_sdist_can_be_worked_on(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    names = set(members(sdist))
    wanted = {"pyproject.toml", "requirements.lock", "scripts/test", "README.md", "man/openclaw.1"}
    assert wanted <= names
    assert "tests/process/test_release.py" in names
    assert not [name for name in names if name.startswith((".venv", ".demo", ".tools", ".cache"))]


def test_the_version_is_named_in_one_place() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert f'"{__version__}"' not in project


def test_the_installed_program_is_the_wheels(installed: Path, home: Path) -> None:
    done = run(installed, home, "--version")
    assert (done.returncode, done.stdout) == (0, f"openclaw {version_text()}\n")
    python = installed / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import openclaw; print(openclaw.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=home,
    )
    assert found.stdout.startswith(str(installed))


def test_the_installed_program_sets_itself_up_and_finds_nothing_wrong(
    installed: Path, home: Path
) -> None:
    assert run(installed, home, "init", "--yes").returncode == 0
    done = run(installed, home, "doctor", "--json")
    found = json.loads(done.stdout)["findings"]
    assert [one for one in found if one["level"] == "error" and one["check"] != "model"] == []
    assert (installed / "share" / "man" / "man1" / "openclaw.1").is_file()


def test_the_installed_program_answers_a_clients_handshake(installed: Path, home: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    tools = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    lines = "".join(f"{json.dumps(message)}\n" for message in (hello, ready, tools))
    done = run(installed, home, "mcp-server", stdin=lines)
    answers = {one["id"]: one["result"] for one in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["serverInfo"]["version"] == __version__
    assert [tool["name"] for tool in answers[2]["tools"]] == ["order_openclaw"]
