"""Commands beside a gateway whose process exists but doesn't run, as after SIGSTOP."""

import json
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be stopped there"),
]


@contextmanager
def frozen(pid: int) -> Generator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_commands_say_which_process_does_not_respond_and_a_turn_runs_without_it(
    tmp_path: Path,
) -> None:
    installation = Installation(tmp_path)
    async with scripted_model(default=Step(text="Hello.")) as model:
        installation.configure(model.url)
        async with installation.process() as gateway:
            pid = (await installation.running()).pid
            reason = f"the gateway (pid {pid}) does not respond"

            async def run(*words: str) -> tuple[int | None, str, str]:
                command = [sys.executable, "-m", "openclaw", *words]
                done = await anyio.run_process(command, env=installation.environ(), check=False)
                return done.returncode, done.stdout.decode(), done.stderr.decode()

            with frozen(pid):
                _, status, _ = await run("status", "--json")
                assert reason in json.loads(status)["gateway"]["error"]

                code, _, stderr = await run("page", "--print")
                assert code == 1
                assert reason in stderr.lower()
                assert f"kill -9 {pid}" in stderr

                code, doctor, _ = await run("doctor", "--json")
                assert code == 1
                assert reason in doctor

                code, said, _ = await run("gateway", "status")
                assert code == 1
                assert reason in said.lower()

                code, _, stderr = await run("gateway", "start")
                assert code == 1
                assert reason in stderr.lower()

                code, _, _ = await run("config", "set", "agents.defaults.timeoutSeconds", "60")
                assert code == 0

                code, answer, stderr = await run("agent", "Hi")
                assert (code, answer) == (0, "Hello.\n")
                assert stderr.lower().count(reason) == 1

            code, answer, stderr = await run("agent", "Hi")
            assert (code, answer) == (0, "Hello.\n")
            assert reason not in stderr.lower()

            with frozen(pid):
                code, _, stderr = await run("gateway", "stop")
                assert code == 1
                assert f"kill -9 {pid}" in stderr
            assert await gateway.wait() == 0  # it stops once it runs again
