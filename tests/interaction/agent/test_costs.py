"""What turns cost: counted by day, session and model, shown, and bounded before the call."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.agent_kit import agent_kit, scripted_config
from tests.support.fake_server import server_entry

from openclaw.config.schema import Config
from openclaw.core.clock import SystemClock
from openclaw.core.events import Notice, Usage
from openclaw.sessions.records import SessionRef
from openclaw.sessions.sqlite.store import open_sqlite_store
from openclaw.sessions.usage import UsageLedger, grouped, money, total
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

COST = {"input": 100_000, "output": 200_000}  # a request: 2 dollars


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model(default=Step(text="Done.")) as running:
        yield running


def configure(home: Path, model: ScriptedModel, **defaults: Any) -> None:
    state = home / ".openclaw"
    state.mkdir(mode=0o700, exist_ok=True)
    entry = {"id": "m", "cost": COST}
    provider = {"baseUrl": f"{model.url}/v1", "apiKey": "k-0123456789", "models": [entry]}
    config = {"models": {"providers": {"acme": provider}}, "agents": {"defaults": defaults}}
    (state / "openclaw.json").write_text(json.dumps(config))
    (state / "openclaw.json").chmod(0o600)


async def openclaw(*words: str, stdin: str = "") -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "openclaw", *words]
    return await anyio.run_process(command, check=False, input=stdin.encode())


async def test_each_turn_says_its_price_and_usage_adds_them_up(
    home: Path, model: ScriptedModel
) -> None:
    configure(home, model)
    empty = await openclaw("usage")
    assert b"No model requests" in empty.stdout, empty.stderr
    first = json.loads((await openclaw("agent", "one", "--session-key", "main", "--json")).stdout)
    assert first["usage"]["cost"] == pytest.approx(2.0)
    await openclaw("agent", "two", "--session-key", "other")
    report = json.loads((await openclaw("usage", "--json")).stdout)
    assert report["total"]["cost"] == pytest.approx(4.0)
    assert report["total"]["requests"] == 2
    assert {row["session"] for row in report["rows"]} == {"main", "other"}
    by_session = (await openclaw("usage", "--by", "session")).stdout.decode()
    assert "main/other" in by_session
    assert "$4.00" in by_session
    assert "2 requests  30 tokens" in by_session
    chat = (
        await openclaw("chat", "--session-key", "main", stdin="three\n/usage\n")
    ).stderr.decode()
    assert "This conversation: $4.00, 30 tokens" in chat
    assert "Today: $6.00" in chat


async def test_a_spent_day_ends_before_the_model_is_asked(home: Path, model: ScriptedModel) -> None:
    configure(home, model, limits={"maxCostPerDay": 3})
    for _ in range(2):
        await openclaw("agent", "go")
    asked = len(model.requests)
    third = await openclaw("agent", "go", "--session-key", "another")
    assert asked == len(model.requests) == 2
    said = third.stdout.decode()
    assert "has spent $4.00 today" in said, third.stderr
    assert "limits.maxCostPerDay" in said
    assert third.returncode == 1


async def test_a_model_without_a_known_price_is_counted_as_such() -> None:
    async with (
        scripted_model(default=Step(text="Hi.")) as server,
        agent_kit(scripted_config(server.url)) as kit,
    ):
        reply = await kit.say("go")
        rows = await UsageLedger(kit.store, SystemClock(), "UTC").rows(
            UsageLedger(kit.store, SystemClock(), "UTC").days(2)
        )
    assert (reply.usage.cost, reply.usage.unpriced) == (0.0, 1)
    assert money(total(rows)) == "price unknown"


async def test_the_price_list_knows_public_models() -> None:
    config = scripted_config("x").model_dump(by_alias=True)
    async with scripted_model(default=Step(text="Hi.", input_tokens=1000)) as server:
        config["models"]["providers"] = {
            "anthropic": {"baseUrl": server.url, "apiKey": "k", "api": "anthropic-messages"}
        }
        config["agents"]["defaults"]["model"] = "anthropic/claude-sonnet-5"
        async with agent_kit(Config.model_validate(config)) as kit:
            reply = await kit.say("go")
    assert reply.usage.cost == pytest.approx(0.00205)


async def test_claude_through_openrouter_is_cached() -> None:
    config = scripted_config("x").model_dump(by_alias=True)
    async with scripted_model(default=Step(text="Hi.")) as server:
        config["models"]["providers"] = {
            "openrouter": {"baseUrl": f"{server.url}/v1", "apiKey": "k"}
        }
        config["agents"]["defaults"]["model"] = "openrouter/anthropic/claude-sonnet-4.5"
        async with agent_kit(Config.model_validate(config)) as kit:
            reply = await kit.say("go")
    assert reply.text == "Hi."
    assert '"cache_control"' in json.dumps(server.requests[0].body["messages"])
    assert reply.usage.cost > 0


@pytest.mark.parametrize(
    ("api", "level", "sent"),
    [
        ("openai-completions", "high", {"reasoning_effort": "high"}),
        ("anthropic-messages", "off", {}),
        ("openai-responses", "low", {"reasoning": {"effort": "low"}}),
    ],
)
async def test_effort_goes_to_models_that_have_one(api: str, level: str, sent: Any) -> None:
    async with (
        scripted_model(default=Step(text="Hi.")) as server,
        agent_kit(
            scripted_config(server.url, api=api, model={"reasoning": True}, thinkingDefault=level)
        ) as kit,
    ):
        await kit.say("go")
    body = server.requests[0].body
    assert {name: body.get(name) for name in sent} == sent


async def test_a_model_that_cannot_be_told_to_think_is_named() -> None:
    async with (
        scripted_model(default=Step(text="Hi.")) as server,
        agent_kit(scripted_config(server.url)) as kit,
    ):
        await kit.say("go", thinking="high")
    notices = [event.message for event in kit.events if isinstance(event, Notice)]
    assert notices == ["acme/scripted has no adjustable thinking"]
    assert "reasoning_effort" not in server.requests[0].body


async def test_rows_that_are_written_at_once_are_all_counted(tmp_path: Path) -> None:
    async with open_sqlite_store(tmp_path / "sessions.db", SystemClock()) as store:
        ledger = UsageLedger(store, SystemClock(), "Europe/Berlin")
        session = SessionRef("1", "main", "k")
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(
                    ledger.add, session, f"m/{number % 2}", Usage(10, 5, requests=1, cost=0.25)
                )
        rows = await ledger.rows([ledger.today()])
        assert total(rows) == Usage(80, 40, requests=8, cost=2.0)
        assert grouped(rows, "model")["m/0"].cost == 1.0
        assert await ledger.cost_today("main") == 2.0
        assert await ledger.cost_today("other") == 0
        assert money(Usage(cost=0.00123)) == "$0.0012"
        assert money(Usage(cost=1.5, unpriced=1)) == "at least $1.50"


async def test_what_a_server_asks_of_the_model_is_counted_and_bounded(
    home: Path, model: ScriptedModel
) -> None:
    tool: dict[str, Any] = {
        "name": "think",
        "inputSchema": {"type": "object"},
        "does": {"sampling": {}},
    }
    server = server_entry({"tools": [tool]}, sampling=True)
    configure(home, model, limits={"maxCostPerDay": 5}, mcp={"servers": {"fake": server}})
    steps = [Step(calls=(("mcp_fake_think", {}),)), Step(text="Plums."), Step(text="Done.")]
    model.script.steps[:] = steps
    await openclaw("agent", "go")
    report = json.loads((await openclaw("usage", "--json")).stdout)
    rows = {row["session"]: row["cost"] for row in report["rows"]}
    assert rows["sampling:fake"] == pytest.approx(2.0)
    assert report["total"]["cost"] == pytest.approx(6.0)
