"""Which packages of others each command may import: what keeps everyday commands quick."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.anyio

# Runs a command as the program does and says on the last line which packages it took.
COUNTED = """
import json, sys
from openclaw.cli.main import run
from openclaw.cli import startup

startup.prepare()
code = run("openclaw", sys.argv[1:])
large = {"argparse", "asyncio", "inspect", "logging", "ssl", "subprocess"}
measuring = {"coverage", "a1_coverage", "sitecustomize"}
known = set(sys.stdlib_module_names) | {"openclaw", *measuring}
if not measuring & set(sys.modules):  # which take them too
    known -= large
found = {name for name in sys.modules if "." not in name}
print(json.dumps([code, sorted(one for one in found - known if not one.startswith("_"))]))
"""

# What of the standard library takes long to import is counted as well.
LARGE = {"argparse", "inspect", "logging"}
LOOP = {"anyio", "asyncio", "idna", "sniffio", "ssl", "subprocess", "typing_extensions"}
BASE = {"ahocorasick_rs", *LARGE}
CONFIG = {
    *BASE,
    "annotated_types",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
    "typing_inspection",
}
GATEWAY = {*BASE, *LOOP, "orjson", "pybase64"}
NEVER = {"mcp", "mcp_types", "starlette", "uvicorn"}  # by a command without servers

WITHOUT_A_GATEWAY: Mapping[tuple[str, ...], set[str]] = {
    ("--version",): set(),
    ("config", "path"): BASE,
    ("sessions", "--help"): {*BASE, *LOOP, "orjson"},
    ("models", "--help"): {*BASE, *LOOP, "orjson"},
    ("status", "--help"): {*BASE, *LOOP, "orjson"},
    ("usage", "--help"): {*BASE, *LOOP, "orjson"},
    ("memory", "--help"): {*BASE, *LOOP, "orjson"},
    ("mcp", "list"): CONFIG,
    ("sessions",): {*CONFIG, *LOOP, "orjson", "rich"},
    ("sessions", "--json"): {*CONFIG, *LOOP, "orjson", "rich"},
    ("status",): {*CONFIG, *LOOP, "orjson", "rich"},
    ("status", "--json"): {*CONFIG, *LOOP, "orjson"},
    ("agent", "Hi"): {
        *CONFIG,
        *LOOP,
        "certifi",
        "backports",
        "jiter",
        "genai_prices",
        "h11",
        "httpcore2",
        "httpx",
        "httpx2",
        "logfire_api",
        "openai",
        "opentelemetry",
        "orjson",
        "pybase64",
        "pydantic_ai",
        "pydantic_graph",
        "socksio",
        "truststore",
    },
    # It asks the provider whether its key holds, and listens where a gateway would.
    ("doctor",): {*CONFIG, *LOOP, "orjson"},
}
THROUGH_A_GATEWAY: Mapping[tuple[str, ...], set[str]] = {
    ("agent", "Hi"): set(),
    ("agent", "Hi", "--json"): {"ahocorasick_rs", "pybase64"},
    ("status", "--json"): {*CONFIG, *GATEWAY},
}


def packages(state: Path, environ: Mapping[str, str], *words: str) -> tuple[int, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *words],
        env=dict(environ),
        cwd=state,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    code, found = json.loads(done.stdout.splitlines()[-1])
    return code, set(found)


@pytest.mark.parametrize("words", WITHOUT_A_GATEWAY)
async def test_a_command_imports_no_more_than_it_may(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    installation = Installation(tmp_path)
    installation.configure("http://127.0.0.1:9")
    _, found = packages(tmp_path, installation.environ(), *words)
    assert found - WITHOUT_A_GATEWAY[words] == set()
    assert not found & (NEVER - WITHOUT_A_GATEWAY[words])


async def test_looking_for_an_ollama_that_is_not_there_imports_no_http_library(
    tmp_path: Path,
) -> None:
    environ = Installation(tmp_path).environ(OLLAMA_HOST="127.0.0.1:9")
    _, found = packages(tmp_path, environ, "status", "--json")
    assert found - WITHOUT_A_GATEWAY["status", "--json"] == set()


async def test_through_a_gateway_a_command_imports_no_more_than_it_may(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    async with scripted_model(default=Step(text="Hello.")) as model:
        installation.configure(model.url)
        async with installation.here():
            for words, allowed in THROUGH_A_GATEWAY.items():
                code, found = await anyio.to_thread.run_sync(
                    packages, tmp_path, installation.environ(), *words
                )
                assert (words, code, found - allowed) == (words, 0, set())
                assert not found & NEVER


# What an order to `openclaw mcp-server` needs, if a gateway carries it out.
ORDER = {*GATEWAY} - {"argparse"}
LINES = b"""
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",\
"capabilities":{"roots":{},"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"order_openclaw",\
"arguments":{"message":"Hi"},"_meta":{"progressToken":1}}}
"""
ROOTS = b'{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}\n'


def ordered(environ: Mapping[str, str]) -> tuple[bytes, set[str]]:
    """The answer to an order, and the packages that were imported for it."""
    command = [sys.executable, "-X", "importtime", "-m", "openclaw", "mcp-server"]
    with subprocess.Popen(
        command,
        env=dict(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(LINES.replace(b"\\\n", b""))
        server.stdin.flush()
        answer = b""
        while b'"id":2' not in answer:
            answer = server.stdout.readline()
            assert answer
            if b"roots/list" in answer:
                server.stdin.write(ROOTS)
                server.stdin.flush()
        _, errors = server.communicate()
    names = {line.rpartition(b"|")[2].strip().decode() for line in errors.splitlines()}
    small = {one for one in sys.stdlib_module_names if one not in {*LARGE, *LOOP}}
    small |= {"org"}  # of Jython, which the standard library looks for
    found = {name.partition(".")[0] for name in names} - small
    return answer, {name for name in found if name.isidentifier() and not name.startswith("_")}


async def test_an_order_through_a_gateway_imports_no_more_than_it_may(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    async with scripted_model(default=Step(text="Hello.")) as model:
        installation.configure(model.url)
        async with installation.here():
            answer, found = await anyio.to_thread.run_sync(ordered, installation.environ())
    assert b'"text":"Hello."' in answer
    measuring = found & {"coverage", "a1_coverage", "sitecustomize"}
    assert found - ORDER - measuring - (LARGE if measuring else set()) == {"openclaw"}


OPENED = """
import json, sys
import anyio
from openclaw.cli.environment import Environment
from openclaw.runtime.access import open_agent

async def main(ahead):
    async with open_agent(Environment(), ahead=ahead) as agent:
        assert (await agent.settings()).id == "main"
        print(json.dumps("pydantic_ai.models.openai" in sys.modules))

anyio.run(main, sys.argv[1] == "ahead")
"""


PERSON = """
import json, sys
import anyio
from openclaw.agent.port import MessageContext
from openclaw.cli.environment import Environment
from openclaw.runtime.access import open_agent

async def main():
    process = Environment()
    async with open_agent(process, person=True) as agent:
        settings, store = await agent.settings(), await agent.store()
        assert "sk-ant" not in process.redactor.redact(process.environ["ANTHROPIC_API_KEY"])
        early = [settings.id, await store.count_sessions(), "openclaw.runtime.runtime" in sys.modules]
        await agent.refresh(settings.id)
        opened = await agent.reply(MessageContext("hi", "s"))
        print(json.dumps([*early, opened.text, await (await agent.store()).count_sessions()]))

anyio.run(main)
"""


async def test_a_person_may_type_before_the_agent_is_imported(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    async with scripted_model(default=Step(text="Hello.")) as model:
        installation.configure(model.url)
        environ = installation.environ(ANTHROPIC_API_KEY="sk-ant-0123456789")
        done = await anyio.run_process([sys.executable, "-c", PERSON], env=environ)
    assert json.loads(done.stdout) == ["main", 0, False, "Hello.", 1]


@pytest.mark.parametrize("ahead", [True, False])
async def test_a_front_end_may_have_the_model_library_imported_before_the_first_message(
    ahead: bool, tmp_path: Path
) -> None:
    installation = Installation(tmp_path)
    installation.configure("http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-c", OPENED, "ahead" if ahead else ""],
        env=installation.environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) is ahead
