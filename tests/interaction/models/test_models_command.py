"""`openclaw models` as a person or a script runs it, in processes of its own."""

import hashlib
import http.server
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_http import serving

GGUF = b"GGUF" + bytes(range(256)) * 20_000


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of a GGUF on loopback."""
    root = tmp_path / "served"
    root.mkdir()
    (root / "mine.gguf").write_bytes(GGUF)
    handler = partial(_Quiet, directory=str(root))
    with serving(handler) as url:
        yield f"{url}/mine.gguf"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "OPENCLAW_STATE_DIR": str(tmp_path / "state"),
        "OLLAMA_HOST": "127.0.0.1:1",
        "PATH": "",
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "openclaw", "models", *arguments]


def run(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), env=environ, capture_output=True, text=True, timeout=120, check=False
    )


def pull(served: str) -> list[str]:
    return ["pull", served, "--sha256", hashlib.sha256(GGUF).hexdigest(), "--json"]


def test_the_list_says_honestly_what_each_is_good_for(environ: dict[str, str]) -> None:
    said = run(environ, "list")
    assert said.returncode == 0
    assert "local/smollm2-135m-instruct" in said.stdout
    assert "often wrong" in said.stdout
    assert "not measured by us" in said.stdout


def test_the_list_as_json_is_nothing_but_json(environ: dict[str, str]) -> None:
    environ["ANTHROPIC_API_KEY"] = "x"
    facts = json.loads(run(environ, "list", "--json").stdout)
    assert [model["from"] for model in facts["providers"]] == ["ANTHROPIC_API_KEY is set"]
    first = facts["local"][0]
    assert (first["installed"], first["tools"]) == (False, "router")


def test_a_provider_without_a_list_of_models_is_listed(
    environ: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "c.json"
    acme = {"baseUrl": "http://127.0.0.1:1/v1"}
    config.write_text(json.dumps({"models": {"providers": {"acme": acme}}}))
    said = run(environ, "list", "--config", str(config)).stdout
    assert "acme/*  (models.providers.acme)" in said
    assert "--model acme/NAME" in said
    assert "nothing under" not in said


def test_the_status_says_which_model_is_used_and_why_it_cannot_be(environ: dict[str, str]) -> None:
    said = run(environ, "status", "--json")
    facts = json.loads(said.stdout)
    assert facts["agents"][0]["reason"].endswith("the embedded model")
    model = facts["agents"][0]["models"][0]
    assert model["ready"] is False
    assert "openclaw models pull" in model["problem"]
    assert said.returncode == 1
    assert "small talk" in run(environ, "status").stdout


def test_a_provider_without_its_key_is_said_to_lack_it(
    environ: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "c.json"
    config.write_text('{"agents": {"defaults": {"model": "anthropic/some-model"}}}')
    said = run(environ, "status", "--config", str(config))
    assert "set ANTHROPIC_API_KEY" in said.stdout
    assert said.returncode == 1
    environ["ANTHROPIC_API_KEY"] = "x"
    assert run(environ, "status", "--config", str(config)).returncode == 0


@pytest.mark.parametrize("present", [True, False])
def test_a_file_of_the_users_own_is_looked_for(
    environ: dict[str, str], tmp_path: Path, present: bool
) -> None:
    config, file = tmp_path / "c.json", tmp_path / "own.gguf"
    if present:
        file.write_bytes(GGUF)
    config.write_text(json.dumps({"agents": {"defaults": {"model": f"local/{file}"}}}))
    said = run(environ, "status", "--config", str(config))
    assert ("ready" in said.stdout) is present
    assert (said.returncode == 0) is present


def test_weights_by_address_are_fetched_and_listed(environ: dict[str, str], served: str) -> None:
    said = run(environ, *pull(served))
    assert said.returncode == 0, said.stderr
    assert Path(json.loads(said.stdout)["path"]).read_bytes() == GGUF
    listed = json.loads(run(environ, "list", "--json").stdout)["local"]
    assert [one["id"] for one in listed if one["installed"]] == ["local/mine"]
    assert "local/mine is at" in run(environ, "pull", "mine").stdout


def test_two_processes_that_pull_at_once_do_not_disturb_each_other(
    environ: dict[str, str], served: str
) -> None:
    both = [
        subprocess.Popen(
            command(*pull(served)), env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    paths = {json.loads(process.communicate(timeout=120)[0])["path"] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert Path(paths.pop()).read_bytes() == GGUF
    assert not paths


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["pull", "no-such-weights"], "no weights called"),
        (["pull", "http://127.0.0.1:1/x.gguf"], "need the SHA-256"),
        (["pull", "http://127.0.0.1:1/x.gguf", "--sha256", "zz"], "need the SHA-256"),
        (["pull", "http://127.0.0.1:1/..", "--sha256", "0" * 64], "not a valid name for weights"),
        ([], "An action is missing"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_in_plain_words(
    environ: dict[str, str], arguments: list[str], complaint: str
) -> None:
    said = run(environ, *arguments)
    assert said.returncode == 2
    assert complaint in said.stderr


def test_an_address_that_does_not_answer_is_a_failure_with_words(environ: dict[str, str]) -> None:
    said = run(environ, "pull", "http://127.0.0.1:1/x.gguf", "--sha256", "0" * 64)
    assert said.returncode == 1
    assert "Could not download" in said.stderr
    assert "Traceback" not in said.stderr


def test_listing_models_loads_neither_the_model_library_nor_the_runner(
    environ: dict[str, str],
) -> None:
    code = (
        "import sys; from openclaw.cli.main import run; run('openclaw', ['models', 'list']); "
        "sys.exit(bool({'xllamacpp', 'pydantic_ai', 'mcp'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0
