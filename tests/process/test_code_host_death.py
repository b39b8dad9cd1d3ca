"""The host dies between two calls of a script."""

import os
import signal
import sys
from pathlib import Path

import anyio

HOST = """
import os, signal, sys
import anyio
from openclaw.core.tools import JsonObject, ToolResult
from tests.support.code_kit import Tools, says

ledger = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

async def pay(arguments: JsonObject) -> ToolResult:
    os.write(ledger, f"{arguments['text']}\\n".encode())
    if arguments["text"] == "3":
        from tests.hostile.test_code_escapes import workers
        (worker,) = workers()
        print(worker.parent.name, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return says("paid")

source = "for i in range(1, 9):\\n    await pay(text=str(i))"
anyio.run(Tools(pay=pay).run, source)
"""


async def test_the_ledger_has_each_call_once_and_the_worker_ends_too(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HOST, str(ledger)]
    host = await anyio.run_process(command, check=False, env=environment)
    assert host.returncode == -signal.SIGKILL, host.stderr.decode()
    assert ledger.read_text().split() == ["1", "2", "3"]
    worker = Path("/proc", host.stdout.decode().strip(), "cmdline")
    with anyio.fail_after(60):
        while worker.exists() and b"monty" in worker.read_bytes():  # noqa: ASYNC110
            await anyio.sleep(0.05)
