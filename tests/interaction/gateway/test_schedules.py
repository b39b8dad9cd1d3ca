"""Schedules that run: in a real gateway, once among several, with their result told."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.agent_kit import agent_kit, scripted_config
from tests.support.fake_http import QuietHandler, serving

from openclaw.agent.port import MessageContext, Reply
from openclaw.agent.schedules import JobFile, Scheduler, describe_job, last_run, new_job
from openclaw.config.schema import CronConfig
from openclaw.secrets.refs import Secret
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

NOON = 1_794_916_800_000


class Held:
    def __init__(self) -> None:
        self.now = NOON

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


async def unresolved(text: str) -> Secret:
    return Secret(text)


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model(default=Step(text="All is well: {last}")) as running:
        yield running


async def test_of_three_gateways_on_one_store_one_makes_each_run(
    model: ScriptedModel, tmp_path: Path
) -> None:
    clock = Held()
    jobs = JobFile(tmp_path)
    jobs.add(new_job("every 15 minutes", "Look.", "UTC", NOON, id="j", agent="main"))
    async with agent_kit(scripted_config(model.url)) as kit:

        async def answer(context: MessageContext) -> Reply:
            return await kit.reply(context)

        three = [Scheduler(jobs, CronConfig, answer, clock, {}, unresolved) for _ in range(3)]
        for quarter in range(1, 13):
            clock.now = NOON + quarter * 15 * 60_000
            alive = three if quarter < 5 else three[1:]  # one is killed
            if quarter == 9:  # and comes back later, not knowing what ran
                alive = [*alive, Scheduler(jobs, CronConfig, answer, clock, {}, unresolved)]
            async with anyio.create_task_group() as group:
                for one in alive:
                    one.look(NOON, group)
        assert len(model.requests) == 12


async def test_a_schedule_says_how_its_last_run_went(model: ScriptedModel, tmp_path: Path) -> None:
    jobs = JobFile(tmp_path)
    for id, session in (("own", None), ("shared", "talk")):
        jobs.add(new_job("hourly", id, "UTC", NOON, id=id, agent="main", session=session))
    async with agent_kit(scripted_config(model.url)) as kit:
        own, shared = jobs.get("own"), jobs.get("shared")
        await kit.say("Hello", session="talk")  # by a person
        assert await last_run(kit.store, own) is None
        assert await last_run(kit.store, shared) is None
        for job in (own, shared):
            key = job.run_id(NOON)
            await kit.say("Look.", session=job.session_key, idempotency_key=key)
            last = await last_run(kit.store, job)
            assert last is not None
            assert last.id == key
            assert "(ok): " in describe_job(job, NOON, last)


async def test_a_run_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    clock = Held()
    jobs = JobFile(tmp_path)
    for name in ("bad", "good"):
        jobs.add(new_job("hourly", name, "UTC", NOON, id=name))
    ran: list[str] = []

    async def answer(context: MessageContext) -> Reply:
        ran.append(context.text)
        if context.text == "bad":
            raise RuntimeError("broken")
        return Reply("ok", "s", "t")

    clock.now += 3_600_000
    told = tmp_path / "told"
    settings = CronConfig(notify=("sh", "-c", f"cat >> {told}"))
    one = Scheduler(jobs, lambda: settings, answer, clock, {"PATH": os.environ["PATH"]}, unresolved)
    async with anyio.create_task_group() as group:
        one.look(NOON, group)
    assert sorted(ran) == ["bad", "good"]
    assert json.loads(told.read_text()) == {
        "id": "good", "session": "cron:good", "outcome": "ok", "text": "ok",
    }  # fmt: skip


class Hook(QuietHandler):
    seen: list[tuple[str | None, Any]] = []  # noqa: RUF012 - one for the test

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.headers["Authorization"], json.loads(body)))
        self.send_response(204 if len(self.seen) == 1 else 500)
        self.end_headers()


async def test_a_result_is_told_on_the_desktop_and_to_an_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desktop = CronConfig.model_validate({"notify": "desktop"})
    assert "{text}" in desktop.notify
    with serving(Hook) as url:
        told = tmp_path / "told"
        settings = CronConfig(
            notify=("sh", "-c", f'printf "%s|" "$@" >> {told}', "x", "{id}: {text}", "{outcome}"),
            webhook=f"{url}/x",
            webhook_token="secret://env/HOOK",
        )

        async def resolve(text: str) -> Secret:
            return Secret(f"value of {text}")

        async def answer(context: MessageContext) -> Reply:
            return Reply("--help", "s", "t")

        clock, jobs = Held(), JobFile(tmp_path)
        jobs.add(new_job("hourly", "go", "UTC", NOON, id="j"))
        one = Scheduler(
            jobs, lambda: settings, answer, clock, {"PATH": os.environ["PATH"]}, resolve
        )
        for _ in range(2):
            clock.now += 3_600_000
            async with anyio.create_task_group() as group:
                one.look(NOON, group)
        settings = CronConfig(notify=("/nowhere",), webhook="http://127.0.0.1:9/x")
        clock.now += 3_600_000
        async with anyio.create_task_group() as group:
            one.look(NOON, group)
    assert told.read_text() == "j: help|ok|" * 2
    bearer, body = Hook.seen[0]
    assert bearer == "Bearer value of secret://env/HOOK"
    assert body == {"id": "j", "session": "cron:j", "outcome": "ok", "text": "--help"}
    assert "cron.notify failed: it could not be started" in caplog.text
    assert caplog.text.count("cron.webhook could not be reached") == 2


async def openclaw(*words: str) -> "subprocess.CompletedProcess[bytes]":
    return await anyio.run_process([sys.executable, "-m", "openclaw", *words], check=False)


async def test_the_commands_and_the_gateway_together(home: Path, model: ScriptedModel) -> None:
    state, told = home / ".openclaw", home / "told"
    state.mkdir(mode=0o700)
    provider = {"baseUrl": f"{model.url}/v1", "apiKey": "k-0123456789", "models": [{"id": "m"}]}
    config: dict[str, Any] = {
        "models": {"providers": {"acme": provider}},
        "cron": {"notify": ["sh", "-c", f"cat > {told}.new && mv {told}.new {told}"]},
        "agents": {"defaults": {"userTimezone": "Europe/Berlin"}},
    }
    (state / "openclaw.json").write_text(json.dumps(config))
    (state / "openclaw.json").chmod(0o600)
    added = await openclaw("cron", "add", "weekdays 8:00", "What is new?", "--name", "news")
    assert b"Added news: weekdays 8:00 (0 8 * * 1-5, Europe/Berlin), next " in added.stdout
    assert b"no gateway is running" in added.stderr
    assert (await openclaw("cron", "add", "someday", "x")).returncode == 2
    ran = await openclaw("cron", "run", "news")
    assert ran.stdout == b"All is well: What is new?\n"
    assert (await openclaw("cron", "pause", "news")).stdout == b"Paused news.\n"
    assert b"paused" in (await openclaw("cron", "list")).stdout
    assert (await openclaw("cron", "resume", "news")).stdout == b"Resumed news.\n"
    (row,) = json.loads((await openclaw("cron", "list", "--json")).stdout)["jobs"]
    assert row["session"] is None
    assert (await openclaw("cron", "remove", "news")).stdout == b"Removed news.\n"
    # One that has been due since long before: the gateway makes up for its last run.
    JobFile(state / "cron").add(new_job("hourly", "Hourly.", "UTC", 0, id="old", agent="main"))
    command = [sys.executable, "-m", "openclaw", "gateway", "run", "--port", "0"]
    async with await anyio.open_process(command, stdout=None, stderr=None) as gateway:
        with anyio.fail_after(60):
            while not told.exists():  # noqa: ASYNC110 - written by another process
                await anyio.sleep(0.05)
        gateway.terminate()
        await gateway.wait()
    said = json.loads(told.read_text())
    assert (said["id"], said["outcome"], said["text"]) == ("old", "ok", "All is well: Hourly.")
    shown = await openclaw("sessions", "show", "cron:old")
    assert b"All is well: Hourly." in shown.stdout
