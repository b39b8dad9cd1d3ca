"""A process that dies while a tool runs, and the one that comes after it."""

import json
import signal
import sys
from pathlib import Path

import anyio
import pytest
from tests.support.agent_kit import FakeTools, agent_kit, scripted_config

from openclaw.core.clock import SystemClock
from openclaw.sessions.sqlite.store import open_sqlite_store
from openclaw.testing.scripted_model import Step, scripted_model

DYING = """
import sys
from pathlib import Path

import anyio

from openclaw.core.clock import SystemClock
from openclaw.sessions.sqlite.store import open_sqlite_store
from tests.support.agent_kit import FakeTools, agent_kit, scripted_config


async def pay(arguments, context):
    print("paying", flush=True)
    await anyio.sleep_forever()


async def main():
    tools = FakeTools()
    tools.add("pay", pay)
    async with (
        open_sqlite_store(Path(sys.argv[1]), SystemClock()) as store,
        agent_kit(scripted_config(sys.argv[2]), tools=tools, store=store) as kit,
    ):
        await kit.say("pay the rent")


anyio.run(main)
"""


@pytest.mark.subprocess
async def test_a_call_that_a_crash_cut_off_is_told_to_the_model_and_not_run_again(
    tmp_path: Path,
) -> None:
    database = tmp_path / "sessions.db"
    tools = FakeTools()
    tools.add("pay")
    async with scripted_model([Step(calls=(("pay", {}),)), Step(text="I will check.")]) as model:
        command = [sys.executable, "-c", DYING, str(database), model.url]
        async with await anyio.open_process(command, stderr=None) as process:
            assert process.stdout is not None
            with anyio.fail_after(60):
                assert (await process.stdout.receive()).startswith(b"paying")
            process.send_signal(signal.SIGKILL)
            await process.wait()
        async with (
            open_sqlite_store(database, SystemClock()) as store,
            agent_kit(scripted_config(model.url), tools=tools, store=store) as kit,
        ):
            with anyio.fail_after(60):
                reply = await kit.say("did it work?")
    assert reply.text == "I will check."
    assert tools.calls == []
    messages = model.requests[-1].body["messages"]
    roles = [message["role"] for message in messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert "It may or may not have happened" in json.dumps(messages[3])
