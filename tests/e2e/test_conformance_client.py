"""The official conformance suite against our client.

`conformance_client.json` names every scenario that the suite has: those that pass, and those that do
not apply, with the reason and the checks that fail there. The suite must say the same of each.
"""

import json
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.e2e.conftest import NodePackages
from tests.support.conformance_client import Play, play

from openclaw.mcp import negotiation

pytestmark = pytest.mark.subprocess

SUITE = "@modelcontextprotocol/conformance/dist/index.js"
AT_ONCE = 4
MOST = 1024 * 1024

# What the suite starts for every scenario: it has the scenario played in the process of the test,
# which has all of the client in memory already.
STUB = """
import json, os, socket, sys
order = {"scenario": os.environ["MCP_CONFORMANCE_SCENARIO"], "url": sys.argv[2],
         "context": json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")}
with socket.socket(socket.AF_UNIX) as line:
    line.connect(sys.argv[1])
    line.sendall(json.dumps(order).encode() + b"\\n")
    answer = line.makefile().read()
sys.exit(answer or None)
"""


class Stage:
    """Plays what it is told to, a few at once, each with a directory of its own."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._limit = anyio.CapacityLimiter(AT_ONCE)
        self._number = 0

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            line = await BufferedByteReceiveStream(stream).receive_until(b"\n", MOST)
            order: dict[str, Any] = json.loads(line)
            self._number += 1
            one = Play(**order, state=self._root / str(self._number))
            async with self._limit:
                await stream.send((await self._trouble(one)).encode())

    async def _trouble(self, one: Play) -> str:
        try:
            await play(one)
        except Exception as error:  # noqa: BLE001 - the suite hears of it
            return f"{type(error).__name__}: {error}"
        return ""


@asynccontextmanager
async def stage(root: Path) -> AsyncGenerator[str]:
    """The command that the suite is to run."""
    short = Path(tempfile.mkdtemp(prefix="oc-"))  # a socket's path may have 100 characters
    stub = root / "stub.py"
    stub.write_text(STUB)
    try:
        async with (
            await anyio.create_unix_listener(short / "s") as listener,
            anyio.create_task_group() as group,
        ):
            group.start_soon(listener.serve, Stage(root).serve)
            yield f"{sys.executable} -I -S {stub} {short / 's'}"
            group.cancel_scope.cancel()
    finally:
        shutil.rmtree(short)


def verdicts(results: Path) -> dict[str, tuple[bool, list[str]]]:
    """Of every scenario: whether anything was checked, and what went wrong."""
    found: dict[str, tuple[bool, list[str]]] = {}
    for path in results.rglob("checks.json"):
        name = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", str(path.parent.relative_to(results)))
        checks: list[dict[str, Any]] = json.loads(path.read_text())
        wrong = {check["id"] for check in checks if check["status"] in ("FAILURE", "WARNING")}
        found[name] = any(check["status"] == "SUCCESS" for check in checks), sorted(wrong)
    return found


async def listed(packages: NodePackages) -> set[str]:
    """The client scenarios that the suite says it has."""
    done = await anyio.run_process([*packages.script(SUITE), "list"])
    clients = done.stdout.decode().partition("Client scenarios")[2].partition("\n\n")[0]
    return set(re.findall(r"^  - (\S+)", clients, re.MULTILINE))


async def test_the_suite_says_of_every_scenario_what_we_say(
    tmp_path: Path, node_packages: NodePackages, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine that runs all tests at once may take longer to answer.
    monkeypatch.setattr(negotiation, "STALL", 20.0)
    said: dict[str, Any] = json.loads(
        Path(__file__).with_name("conformance_client.json").read_text()
    )
    unfit: dict[str, dict[str, list[str]]] = said["does not apply"]
    failing = {name: ids for group in unfit.values() for name, ids in group.items()}
    results = tmp_path / "results"
    async with stage(tmp_path) as command:
        suite = [*node_packages.script(SUITE), "client", "--suite", "all", "--command", command]
        done = await anyio.run_process(
            [*suite, "--timeout", "240000", "-o", str(results)], check=False
        )
    printed = done.stdout.decode()
    found = verdicts(results)
    assert set(found) == await listed(node_packages)
    assert {name: wrong for name, (checked, wrong) in found.items() if wrong or not checked} == (
        failing
    )
    assert sorted(set(found) - set(failing)) == said["passes"]
    unhappy = set(re.findall(r"^\u2717 (\S+):", printed, re.MULTILINE))
    assert unhappy == {name for name, ids in failing.items() if ids}
