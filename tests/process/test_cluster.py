"""Several gateways on one database, as processes that are killed, frozen and cut off."""

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import orjson
import pytest
from tests.support import cluster_life
from tests.support.cluster_life import Cluster, Life, verdict
from tests.support.postgres_server import own_server
from tests.support.task_client import HttpTaskClient
from tests.support.task_server import task_server_entry

from openclaw.config.paths import StatePaths
from openclaw.sessions.open import open_store
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

pytestmark = pytest.mark.warm_start
_PATIENCE = 60.0  # a bound for a busy machine, not a wait


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model(rules=cluster_life.rules()) as model:
        yield model


async def _events(
    http: httpx2.AsyncClient, body: dict[str, Any], each: Callable[[str, Any], Awaitable[None]]
) -> dict[str, Any]:
    """Send a message and hand each event on; returns the reply or the error."""
    async with http.stream("POST", "/api/messages", json=body) as answer:
        return await _read(answer, each)


async def _read(
    answer: httpx2.Response, each: Callable[[str, Any], Awaitable[None]]
) -> dict[str, Any]:
    name = ""
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            data = orjson.loads(line[6:])
            if name in ("reply", "error"):
                return data
            await each(name, data)
    raise AssertionError("the stream ended without an answer")


async def _ask(http: httpx2.AsyncClient, text: str, session: str = "s", **more: Any) -> Any:
    body = {"text": text, "sessionKey": session, "stream": False, **more}
    return (await http.post("/api/messages", json=body)).json()


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(_PATIENCE):
        while not await condition():  # noqa: ASYNC110 - other processes
            await anyio.sleep(0.02)


async def test_a_turn_enters_at_one_gateway_runs_at_another_and_is_seen_live(
    tmp_path: Path, postgres_url: str, model: ScriptedModel
) -> None:
    async with (
        cluster_life.cluster(tmp_path, postgres_url, model.url, (0, 4)) as gateways,
        gateways.client(0) as entry,
        gateways.client(1) as runner,
    ):
        pieces: list[str] = []
        viewed: list[str] = []
        views: list[Any] = []
        replies: list[Any] = []

        async def watch_elsewhere() -> None:
            async with runner.stream("GET", "/api/turns/live-1/events") as stream:

                async def each(name: str, data: Any) -> None:
                    viewed.append(name)

                views.append(await _read(stream, each))

        async with anyio.create_task_group() as group:

            async def each(name: str, data: Any) -> None:
                if name == "turn_started":
                    group.start_soon(watch_elsewhere)
                if name == "text_delta":
                    pieces.append(data["text"])

            body = {"text": "slow please", "sessionKey": "s", "idempotencyKey": "live-1"}
            replies.append(await _events(entry, body, each))
        [reply] = replies
        assert reply["text"] == "".join(pieces) == "Slowly, slowly, slowly, slowly, done."
        assert len(pieces) > 1
        assert views[0]["text"] == reply["text"]
        assert viewed[0] == "turn_started"
        assert viewed.count("text_delta") == len(pieces)

        # The same order again is the same turn; a picture travels with its order.
        again = await _ask(runner, "slow please", idempotencyKey="live-1")
        assert again["text"] == reply["text"]
        pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        shown = await _ask(entry, "plain picture", media=[{"mimeType": "image/png", "data": pixel}])
        assert shown["text"].startswith("Plainly: plain picture")
        assert pixel in str(model.requests[-1].body)

        status = (await entry.get("/api/status")).json()
        assert sorted(one["workers"] for one in status["gateways"]) == [0, 4]
        assert all(one["alive"] for one in status["gateways"])
        assert {s["name"] for one in status["gateways"] for s in one["servers"]} == {"world"}
        figures = (await runner.get("/metrics")).text
        assert "openclaw_turns_taken_total 2" in figures
        assert "openclaw_database_up 1" in figures


async def test_cancelling_at_one_gateway_stops_the_turn_at_another_and_the_one_that_waits(
    tmp_path: Path, postgres_url: str, model: ScriptedModel
) -> None:
    async with (
        cluster_life.cluster(
            tmp_path, postgres_url, model.url, (0, 4, 0), tool_seconds=3600
        ) as gateways,
        gateways.client(0) as entry,
        gateways.client(2) as other,
    ):
        answers: dict[str, Any] = {}
        running = anyio.Event()

        async def order(key: str) -> None:
            async def each(name: str, data: Any) -> None:
                if name == "tool_started":
                    running.set()

            body = {"text": f"mark {key}", "sessionKey": "s", "idempotencyKey": key}
            answers[key] = await _events(entry, body, each)

        with anyio.fail_after(_PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(order, "one")
                await running.wait()
                group.start_soon(order, "two")

                async def two_cancelled() -> bool:  # not known there before it was taken in
                    return (await other.post("/api/turns/two/cancel")).status_code == 200

                await _until(two_cancelled)
                assert (await other.post("/api/turns/one/cancel")).status_code == 200
                assert (await other.post("/api/turns/none/cancel")).status_code == 404
        assert answers["one"]["type"] == answers["two"]["type"] == "Cancelled"
        session = (await other.get("/api/sessions/s")).json()
        kinds = [entry["kind"] for entry in session["entries"]]
        assert kinds.count("user_message") == 1
        assert kinds[-1] == "turn_cancelled"
        assert "mark two" not in gateways.done()


async def test_kills_a_freeze_and_an_upgrade_lose_nothing_double_nothing_and_keep_the_order(
    tmp_path: Path, postgres_url: str
) -> None:
    async with (
        scripted_model(rules=cluster_life.rules(0.02)) as model,
        cluster_life.cluster(
            tmp_path, postgres_url, model.url, (4, 4), tool_seconds=0.05
        ) as gateways,
    ):
        life = Life(gateways, sessions=6, turns=2, chance=random.Random(7))
        with anyio.fail_after(4 * _PATIENCE):
            await life.live(kills=1, freezes=1, upgrades=1, every=0.6)
        assert set(life.answered.values()) == {"Done."}
        found = await verdict(life)
        assert (found.turns, found.lost, found.doubled, found.out_of_order) == (12, 0, 0, 0)


async def test_a_killed_gateways_turn_goes_on_elsewhere_and_its_open_call_is_not_made_again(
    tmp_path: Path, postgres_url: str, model: ScriptedModel
) -> None:
    async with (
        cluster_life.cluster(
            tmp_path, postgres_url, model.url, (0, 4, 0), tool_seconds=1.0
        ) as gateways,
        gateways.client(0) as entry,
    ):
        started, notices = anyio.Event(), list[str]()
        replies: list[Any] = []

        async def each(name: str, data: Any) -> None:
            if name == "tool_started":
                started.set()
            if name == "notice":
                notices.append(data["message"])

        async def order() -> None:
            body = {"text": "mark once", "sessionKey": "s", "idempotencyKey": "k"}
            replies.append(await _events(entry, body, each))

        with anyio.fail_after(2 * _PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(order)
                await started.wait()
                await gateways.gateways[1].kill()
                await gateways.gateways[1].start()
        assert replies[0]["text"] == "Done."
        assert any("another one continues it" in notice for notice in notices)
        session = (await entry.get("/api/sessions/s")).json()
        results = [e for e in session["entries"] if e["kind"] == "tool_result"]
        assert [e["text"][:15] for e in results] == ["Outcome unknown"]
        assert [e["kind"] for e in session["entries"]].count("user_message") == 1
        assert gateways.done().count("mark once") <= 1


async def test_a_killed_gateways_call_that_is_a_task_is_fetched_by_the_next(
    tmp_path: Path, postgres_url: str
) -> None:
    step = Step(role="user", calls=(("mcp_digger_work", {}),))
    servers = {"digger": task_server_entry(tmp_path, "2026-07-28")}
    async with (
        scripted_model(rules=[step, Step(role="tool", text="It said {last}")]) as model,
        cluster_life.cluster(
            tmp_path, postgres_url, model.url, (0, 4, 0), servers=servers
        ) as gateways,
        gateways.client(0) as entry,
    ):
        working = anyio.Event()
        replies: list[Any] = []

        async def each(name: str, data: Any) -> None:
            if name == "tool_progress":
                working.set()

        async def order() -> None:
            body = {"text": "dig", "sessionKey": "s", "idempotencyKey": "k"}
            replies.append(await _events(entry, body, each))

        with anyio.fail_after(2 * _PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(order)
                await working.wait()
                await gateways.gateways[1].kill()
                await gateways.gateways[1].start()
                (tmp_path / "done").touch()
    assert "t1 found gold" in replies[0]["text"]
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


async def test_orders_as_tasks_behind_a_round_robin_proxy_survive_a_killed_gateway(
    tmp_path: Path, postgres_url: str, model: ScriptedModel
) -> None:
    async with (
        cluster_life.cluster(
            tmp_path,
            postgres_url,
            model.url,
            (2, 2, 2),
            tool_seconds=0.5,
            mcpServer={"taskAfterMs": 1},
        ) as gateways,
        cluster_life.round_robin(gateways) as url,
        httpx2.AsyncClient(
            base_url=url,
            trust_env=False,
            timeout=_PATIENCE,
            headers={"authorization": f"Bearer {cluster_life.TOKEN}"},
            limits=httpx2.Limits(max_keepalive_connections=0),  # each request at the next gateway
        ) as http,
    ):
        client = HttpTaskClient(http)
        with anyio.fail_after(4 * _PATIENCE):
            tasks = [
                (await client.order(f"mark {n}", arguments={"sessionKey": f"s{n}"}))["taskId"]
                for n in range(9)
            ]
            await gateways.gateways[1].kill()
            ended = [await client.until(task) for task in tasks]
    assert [task["status"] for task in ended] == ["completed"] * 9
    assert all("Done." in str(task["result"]) for task in ended)
    done = gateways.done()
    assert len(done) == len(set(done))


async def test_a_restarted_database_and_cut_connections_cost_no_turn(tmp_path: Path) -> None:
    with own_server() as server:
        url = server.facts.url()
        async with (
            scripted_model(rules=cluster_life.rules(0.02)) as model,
            cluster_life.cluster(tmp_path, url, model.url, (4, 4)) as gateways,
        ):
            life = Life(gateways, sessions=4, turns=3, chance=random.Random(1))
            with anyio.fail_after(4 * _PATIENCE):
                async with anyio.create_task_group() as group:
                    group.start_soon(life.live)
                    await _until(lambda: _answered(life, 2))
                    await anyio.to_thread.run_sync(server.stop, "immediate")
                    await anyio.to_thread.run_sync(server.start)
                    await _until(lambda: _answered(life, 6))
                    await gateways.cut()
            assert set(life.answered.values()) == {"Done."}
            assert (await verdict(life)).clean
            await _until(lambda: _ready(gateways))


async def _answered(life: Life, count: int) -> bool:
    return len(life.answered) >= count


async def _ready(gateways: Cluster) -> bool:
    async with gateways.client(0) as http:
        return (await http.get("/ready")).status_code == 200


async def test_gateways_whose_clocks_are_hours_apart_take_over_from_each_other_all_the_same(
    tmp_path: Path, postgres_url: str
) -> None:
    async with (
        scripted_model(rules=cluster_life.rules(0.02)) as model,
        cluster_life.cluster(
            tmp_path, postgres_url, model.url, (4, 4), tool_seconds=0.05, skews=(-7200, 7200)
        ) as gateways,
    ):
        life = Life(gateways, sessions=4, turns=2, chance=random.Random(11))
        with anyio.fail_after(4 * _PATIENCE):
            await life.live(kills=1, freezes=1, every=0.6)
        assert set(life.answered.values()) == {"Done."}
        found = await verdict(life)
        assert (found.turns, found.lost, found.doubled, found.out_of_order) == (8, 0, 0, 0)
        infos = [await gateway.installation.running() for gateway in gateways.gateways]
        assert infos[1].started - infos[0].started > 3 * 3600 * 1000, "the clocks are not apart"


async def test_three_gateways_make_each_scheduled_run_once_also_if_one_is_killed(
    tmp_path: Path, postgres_url: str, model: ScriptedModel
) -> None:
    """Real processes and a real clock: one-time schedules, some due while a gateway dies."""
    async with cluster_life.cluster(tmp_path, postgres_url, model.url, (4, 4, 4)) as gateways:
        begun = datetime.now(UTC)
        jobs = [
            {
                "id": f"job-{number}",
                "when": "once",
                "message": f"plain run {number}",
                "timezone": "UTC",
                "created_ms": 0,
                "at": (begun + timedelta(seconds=2 + number / 2)).replace(tzinfo=None).isoformat(),
            }
            for number in range(40)
        ]
        for gateway in gateways.gateways:
            place = gateway.installation.state / "cron"
            place.mkdir(mode=0o700)
            (place / "fresh").write_text(orjson.dumps({"jobs": jobs}).decode())
            (place / "fresh").rename(place / "jobs.json")

        async def seen() -> Counter[str]:
            return Counter(str(request.last_text) for request in list(model.requests))

        async def some_ran() -> bool:
            return len(await seen()) >= 5

        await _until(some_ran)
        await gateways.gateways[0].kill()

        async def all_ran() -> bool:
            return len(await seen()) >= len(jobs)

        await _until(all_ran)

        async with open_store(postgres_url, StatePaths.of({"HOME": str(tmp_path)})) as store:

            async def ends(number: int) -> list[str]:
                found = await store.find_sessions(f"cron:job-{number}", "main")
                if not found:
                    return []
                entries = await store.history(found[0].ref, since_compaction=False)
                return [str(e.kind) for e in entries if str(e.kind).startswith("turn_")]

            async def all_ended() -> bool:
                return all([(await ends(n))[-1:] == ["turn_finished"] for n in range(len(jobs))])

            await _until(all_ended)
            for number in range(len(jobs)):
                kinds = await ends(number)
                assert kinds.count("turn_started") == 1, (number, kinds)
                assert kinds.count("turn_finished") == 1, (number, kinds)
