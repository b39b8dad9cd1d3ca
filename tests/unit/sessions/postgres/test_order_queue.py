"""Orders in a real PostgreSQL: given once, taken in order, fenced, stopped and forgotten."""

import threading
import time
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import asyncpg
import pytest
from tests.support.connection_bench import until

from openclaw.core.errors import Busy, InvalidRequest, MissingExtra, NotFound, OperatorFacing
from openclaw.core.outcome import Outcome
from openclaw.sessions.postgres import lease_thread, order_queue
from openclaw.sessions.postgres import store as postgres_store
from openclaw.sessions.postgres.address import parsed
from openclaw.sessions.postgres.lease_thread import OwnLoop
from openclaw.sessions.postgres.order_queue import (
    EnqueueResult,
    EventBatch,
    GatewayChannel,
    Gateways,
    OrderQueue,
    QueuedOrder,
)
from openclaw.sessions.postgres.store import PostgresStore, open_postgres_store
from openclaw.sessions.records import (
    EntryKind,
    LaneLost,
    NewEntry,
    SessionRef,
    TurnState,
)


@pytest.fixture
async def store(postgres_url: str) -> AsyncGenerator[PostgresStore]:
    async with open_postgres_store(parsed(postgres_url)) as store:
        yield store


@pytest.fixture
def queue(store: PostgresStore) -> OrderQueue:
    return OrderQueue(store.database, "a")


@pytest.fixture
def other(store: PostgresStore) -> OrderQueue:
    return OrderQueue(store.database, "b")


@pytest.fixture
async def session(store: PostgresStore) -> SessionRef:
    return await store.open_session("main", "s")


async def _give(
    queue: OrderQueue, session: SessionRef, turn: str, body: bytes = b""
) -> EnqueueResult:
    return await queue.enqueue(session, turn, body, most=100, most_in_all=1000)


async def _take(queue: OrderQueue, **more: Any) -> QueuedOrder:
    [order] = await queue.claim(10, ["main"], **more)
    return order


async def _row(store: PostgresStore, order: int) -> Any:
    [row] = await store.database.fetch("SELECT * FROM orders WHERE id = $1", order)
    return row


async def _expire(store: PostgresStore) -> None:
    """Let every lease run out, as if its holder had frozen for long enough."""
    sql = "UPDATE pgmq.q_openclaw_turns SET vt = clock_timestamp() - interval '1 hour'"
    await store.database.write(lambda db: db.execute(sql))


async def _renew(store: PostgresStore, queue: OrderQueue, order: QueuedOrder) -> dict[int, bool]:
    return await store.database.read(lambda db: queue.renew(db, [order]))


async def test_an_order_is_given_once_under_its_key_and_taken_once(
    queue: OrderQueue, other: OrderQueue, store: PostgresStore, session: SessionRef
) -> None:
    first = await _give(queue, session, "k", b"hello")
    again = await _give(other, session, "k", b"other words")
    assert (first.created, again.created, again.id) == (True, False, first.id)
    order = await _take(other)
    assert (order.id, order.body, order.turn, order.attempts) == (first.id, b"hello", "k", 1)
    assert list(order.watchers) == ["a", "b"]
    assert await queue.claim(10, ["main"]) == []
    assert (await _row(store, first.id))["state"] == "running"
    assert await queue.answer(first.id) is None


async def test_the_turns_of_a_session_come_in_order_and_those_of_others_beside_them(
    queue: OrderQueue, other: OrderQueue, store: PostgresStore, session: SessionRef
) -> None:
    second = await store.open_session("main", "t")
    for turn in ("1", "2", "3"):
        await _give(queue, session, turn)
    await _give(queue, second, "x")
    orders = await queue.claim(10, ["main"])
    assert [order.turn for order in orders] == ["1", "x"]
    assert await other.claim(10, ["main"]) == []
    assert await queue.finish(orders[0], "ok", b"done")
    assert [order.turn for order in await other.claim(10, ["main"])] == ["2"]
    assert not await queue.finish(orders[1], "ok", b"done")


async def test_concurrent_gives_keep_one_head_and_lose_none(
    queue: OrderQueue, session: SessionRef
) -> None:
    async def give(number: int) -> None:
        await _give(queue, session, f"t{number}")

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(give, number)
    seen: list[str] = []
    while orders := await queue.claim(10, ["main"]):
        assert len(orders) == 1
        seen.append(orders[0].turn)
        await queue.finish(orders[0], "ok", b"")
    assert sorted(seen) == sorted(f"t{number}" for number in range(20))


async def test_too_many_in_a_session_or_in_all_are_refused_with_a_time_to_come_back(
    queue: OrderQueue, session: SessionRef
) -> None:
    await _give(queue, session, "1")
    with pytest.raises(Busy, match=r"1 turns are waiting in this session; try again in 5 s"):
        await queue.enqueue(session, "2", b"", most=1, most_in_all=1000)
    assert not (await queue.enqueue(session, "1", b"", most=1, most_in_all=1000)).created
    assert (await queue.measure()).waiting == 1
    with pytest.raises(Busy, match="1 turns are waiting; try again in 10 s") as refused:
        await queue.enqueue(session, "3", b"", most=100, most_in_all=1)
    assert refused.value.retry_after == 10


async def test_a_lease_that_ran_out_lets_another_take_the_order_and_fences_the_first(
    queue: OrderQueue, other: OrderQueue, store: PostgresStore, session: SessionRef
) -> None:
    await _give(queue, session, "k")
    stale = await _take(queue)
    assert await _renew(store, queue, stale) == {stale.id: False}
    await _expire(store)
    fresh = await _take(other)
    assert (fresh.id, fresh.attempts) == (stale.id, 2)
    assert fresh.read_ct > stale.read_ct
    assert await _renew(store, queue, stale) == {}
    assert not await queue.release(stale, blameless=True)
    with pytest.raises(LaneLost):
        await queue.finish(stale, "ok", b"")
    await other.finish(fresh, "ok", b"answer")
    assert await queue.answer(fresh.id) == b"answer"
    row = await _row(store, fresh.id)
    assert (row["state"], row["outcome"]) == ("done", "ok")


async def test_leases_are_renewed_while_the_event_loop_is_blocked(
    queue: OrderQueue,
    store: PostgresStore,
    session: SessionRef,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(order_queue, "LEASE_SECONDS", 3.0)
    await _give(queue, session, "k")
    order = await _take(queue)
    asked: list[QueuedOrder] = []
    stops: list[bool | None] = []

    def held() -> list[QueuedOrder]:
        asked.append(order)
        return [order]

    def renewed(order: QueuedOrder, stop: bool | None) -> None:
        stops.append(stop)

    async def lease_ends() -> Any:
        connection = await store.database.connect()
        try:
            query = "SELECT vt FROM pgmq.q_openclaw_turns WHERE msg_id = $1"
            return await connection.fetchval(query, order.msg_id)
        finally:
            await connection.close()

    async def until_renewed() -> None:
        for _ in range(2):
            with anyio.fail_after(60):
                before = await lease_ends()
                while await lease_ends() == before:  # noqa: ASYNC110 - it is in the database
                    await anyio.sleep(0.05)

    async with anyio.create_task_group() as group:
        group.start_soon(queue.keep_renewing, held, renewed)
        await until(lambda: len(asked) > 0)
        stops.clear()
        thread = threading.Thread(target=anyio.run, args=(until_renewed,))
        thread.start()
        thread.join()  # on the event loop, which runs nothing meanwhile
        assert stops == []
        await until(lambda: len(stops) > 0)
        assert set(stops) == {False}
        group.cancel_scope.cancel()


async def test_a_process_whose_event_loop_is_stuck_renews_nothing(
    queue: OrderQueue,
    store: PostgresStore,
    session: SessionRef,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(order_queue, "LEASE_SECONDS", 0.03)
    monkeypatch.setattr(lease_thread, "STUCK_SECONDS", -1.0)
    await _give(queue, session, "k")
    order = await _take(queue)
    asked: list[QueuedOrder] = []
    stops: list[bool | None] = []

    def held() -> list[QueuedOrder]:
        asked.append(order)
        return [order]

    def renewed(order: QueuedOrder, stop: bool | None) -> None:
        stops.append(stop)

    async with anyio.create_task_group() as group:
        group.start_soon(queue.keep_renewing, held, renewed)
        await until(lambda: len(asked) > 2)
        group.cancel_scope.cancel()
    assert stops == []


async def test_an_event_loop_that_has_not_run_for_long_is_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = OwnLoop()
    monkeypatch.setattr(lease_thread, "STUCK_SECONDS", 0.01)
    time.sleep(0.05)  # on the event loop
    assert loop.is_stuck()
    monkeypatch.setattr(lease_thread, "STUCK_SECONDS", 3600.0)
    assert not loop.is_stuck()


async def test_an_order_that_was_given_back_can_be_taken_at_once(
    queue: OrderQueue, other: OrderQueue, session: SessionRef
) -> None:
    await _give(queue, session, "k")
    assert await queue.release(await _take(queue), blameless=True)
    again = await _take(other)
    assert again.attempts == 1
    await other.release(again, blameless=False)
    assert (await _take(queue)).attempts == 2


async def test_finishing_commits_with_the_turn_or_not_at_all(
    queue: OrderQueue, store: PostgresStore, session: SessionRef
) -> None:
    await _give(queue, session, "k")
    order = await _take(queue)
    follows: list[bool] = []
    async with store.acquire_lane(session, entitled=True) as lane:
        await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, "hi")], turn="k")
        await _expire(store)
        [taken] = await OrderQueue(store.database, "b").claim(1, ["main"])
        lane.on_finish = queue.finishing(order, "ok", b"mine", 3, follows.append)
        with pytest.raises(LaneLost):
            await lane.finish_turn("k", Outcome.OK)
        found = await store.find_turn(session, "k")
        assert found is not None
        assert found.state is TurnState.RUNNING
        lane.on_finish = queue.finishing(taken, "ok", b"theirs", 3, follows.append)
        await lane.finish_turn("k", Outcome.OK)
    row = await _row(store, order.id)
    assert (row["reply"], row["events"], follows) == (b"theirs", 3, [False])


async def test_a_finish_whose_acknowledgement_was_lost_can_be_repeated(
    queue: OrderQueue, session: SessionRef
) -> None:
    await _give(queue, session, "k")
    order = await _take(queue)
    await queue.finish(order, "ok", b"")
    assert not await queue.finish(order, "ok", b"")


async def test_an_order_that_waits_ends_when_it_is_cancelled_and_one_that_runs_is_told(
    queue: OrderQueue, other: OrderQueue, store: PostgresStore, session: SessionRef
) -> None:
    ids = [(await _give(queue, session, turn)).id for turn in ("1", "2", "3")]
    stopped = await other.cancel(ids[1], b"no")
    assert (stopped.known, stopped.runner, stopped.more) == (True, None, False)
    assert stopped.watchers == ("a",)
    assert (await _row(store, ids[1]))["outcome"] == "cancelled"
    head = await other.cancel(ids[0], b"no")
    assert (head.known, head.runner, head.more) == (True, None, True)
    running = await _take(queue)
    assert running.turn == "3"
    told = await other.cancel(ids[2], b"no")
    assert (told.known, told.runner) == (True, "a")
    assert await _renew(store, queue, running) == {running.id: True}
    await queue.finish(running, "cancelled", b"no")
    assert not (await other.cancel(ids[2], b"no")).known


async def test_orders_are_found_by_turn_and_by_session(
    queue: OrderQueue, store: PostgresStore, session: SessionRef
) -> None:
    given = await _give(queue, session, "k")
    assert await queue.find("k") == [(given.id, "s")]
    assert await queue.find("unknown") == []
    assert await queue.unfinished_of("s", None) == await queue.unfinished_of("s", "main")
    assert await queue.unfinished_of("s", "else") == []
    assert await queue.watch(given.id) is None
    await _take(queue)
    assert await OrderQueue(store.database, "c").watch(given.id) == "a"
    with pytest.raises(NotFound):
        await queue.answer(given.id + 1)


async def test_an_order_is_left_for_a_moment_to_gateways_whose_servers_are_ready(
    queue: OrderQueue, other: OrderQueue, session: SessionRef
) -> None:
    await _give(queue, session, "k")
    assert await queue.claim(10, ["another agent"], patience=60) == []
    assert len(await other.claim(10, [], patience=0)) == 1


async def test_a_pinned_order_waits_for_its_gateway_until_that_one_is_dead(
    queue: OrderQueue, other: OrderQueue, store: PostgresStore, session: SessionRef
) -> None:
    home = Gateways(store.database, "a")
    await home.heartbeat({"url": "here"})
    await home.set_home(session.id, ["files"])
    given = await _give(other, session, "k")
    assert await other.claim(10, ["main"], patience=0) == []
    sql = "UPDATE gateways SET seen_at = clock_timestamp() - interval '1 minute'"
    await store.database.write(lambda db: db.execute(sql))
    [row] = await home.listed()
    assert (row["id"], row["this"], row["alive"], row["url"]) == ("a", True, False, "here")
    taken = await _take(other)
    assert (taken.id, taken.pin) == (given.id, "a")
    assert await Gateways(store.database, "b").clear_home(session.id, "a") == ["files"]
    assert await Gateways(store.database, "b").clear_home(session.id, "a") == []
    await home.set_home(session.id, ["files"])
    await home.set_home(session.id, [])
    await home.leave()
    assert await home.listed() == []


async def test_a_database_whose_clock_was_set_back_holds_up_no_order_and_revives_no_gateway(
    queue: OrderQueue, other: OrderQueue, store: PostgresStore, session: SessionRef
) -> None:
    home = Gateways(store.database, "a")
    await home.heartbeat({"url": "here"})
    await _give(queue, session, "k")
    await _take(queue)
    for table, column in (("pgmq.q_openclaw_turns", "vt"), ("gateways", "seen_at")):
        sql = f"UPDATE {table} SET {column} = {column} + interval '1 day'"
        await store.database.write(lambda db, sql=sql: db.execute(sql))
    assert await other.claim(10, ["main"], patience=0) == []
    await other.forget_future()
    assert (await _take(other, patience=0)).turn == "k"
    [row] = await home.listed()
    assert row["seenSecondsAgo"] >= 0


async def test_old_answers_and_messages_of_deleted_sessions_are_forgotten(
    queue: OrderQueue, store: PostgresStore, session: SessionRef
) -> None:
    given = await _give(queue, session, "k")
    await queue.finish(await _take(queue), "ok", b"")
    assert await queue.prune() == 0
    assert await queue.prune(kept=-1) == 1
    with pytest.raises(NotFound):
        await queue.answer(given.id)
    gone = await store.open_session("main", "gone")
    await _give(queue, gone, "k")
    await store.delete(gone)
    with pytest.raises(NotFound):
        await _give(queue, gone, "l")
    for _ in range(2):
        assert await queue.claim(1, ["main"]) == []
        await _expire(store)
    await queue.prune()
    count = "SELECT count(*) FROM pgmq.q_openclaw_turns"
    assert await store.database.read(lambda db: db.fetchval(count)) == 0


async def test_events_are_kept_in_stretches_and_read_from_where_one_was(
    queue: OrderQueue, session: SessionRef
) -> None:
    order = (await _give(queue, session, "k")).id
    stretches = [EventBatch(order, 1, 3, b"[1,2,3]"), EventBatch(order, 4, 4, b"[4]")]
    await queue.keep_events([*stretches, EventBatch(order + 99, 1, 1, b"of no order")])
    await queue.keep_events(stretches[:1])
    assert await queue.events_after(order, 0) == stretches
    assert await queue.events_after(order, 3) == stretches[1:]
    assert await queue.events_after(order, 4) == []


async def test_gateways_hear_each_other_and_come_back_after_a_cut(store: PostgresStore) -> None:
    heard: dict[str, list[Any]] = {"a": [], "b": []}
    news = anyio.Event()

    def wire(name: str) -> GatewayChannel:
        def put(what: Any) -> None:
            heard[name].append(what)
            news.set()

        return GatewayChannel(
            store.database,
            name,
            on_wake=lambda: put("wake"),
            on_message=put,
            on_connected=lambda: put("connected"),
        )

    async def until(name: str, what: Any) -> None:
        nonlocal news
        with anyio.fail_after(60):
            while what not in heard[name]:
                news = anyio.Event()
                await news.wait()

    a, b = wire("a"), wire("b")
    a.wake()  # nobody listens yet, and nothing is kept for later
    async with anyio.create_task_group() as group:
        group.start_soon(a.run)
        group.start_soon(b.run)
        await until("a", "connected")
        await until("b", "connected")
        a.tell("a", {"o": 1})
        assert {"o": 1} in heard["a"]
        a.tell("b", {"o": 2})
        a.wake()
        await until("b", {"o": 2})
        await until("b", "wake")
        assert "wake" not in heard["a"]
        heard["b"].clear()
        sql = (
            "SELECT pg_notify('openclaw_b', 'no JSON'), pg_terminate_backend(pid)"
            " FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        await store.database.write(lambda db: db.execute(sql))
        await until("b", "connected")
        with anyio.fail_after(60):
            while {"o": 3} not in heard["b"]:
                a.tell("b", {"o": 3})
                await anyio.sleep(0.05)
        group.cancel_scope.cancel()


async def test_a_lost_turn_is_resumed_by_whoever_is_entitled_next(
    store: PostgresStore, session: SessionRef
) -> None:
    async with store.acquire_lane(session, entitled=True) as lane:
        await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, "hi")], turn="k")
    async with store.acquire_lane(session, entitled=True) as lane:
        with pytest.raises(InvalidRequest):
            await lane.resume_turn("unknown")
        await lane.resume_turn("k", [NewEntry(EntryKind.NOTICE, {"resumed": True})])
        await lane.finish_turn("k", Outcome.OK)
    found = await store.find_turn(session, "k")
    assert found is not None
    assert found.state is TurnState.OK


def test_the_script_that_installs_the_queue_is_the_pinned_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "pgmq.read_grouped_head" in postgres_store.install_script()
    monkeypatch.setattr(postgres_store, "SHA256", "0")
    with pytest.raises(OperatorFacing, match="not the version"):
        postgres_store.install_script()
    monkeypatch.setattr(postgres_store, "_PGMQ_SQL", "pgmq/sql/nothing.sql")
    with pytest.raises(MissingExtra):
        postgres_store.install_script()


async def test_the_queue_uses_a_pgmq_that_is_there_already(bare_postgres_url: str) -> None:
    connection = await asyncpg.connect(bare_postgres_url)
    await connection.execute(postgres_store.install_script())
    await connection.close()
    async with open_postgres_store(parsed(bare_postgres_url)) as store:
        session = await store.open_session("main", "s")
        assert (await _give(OrderQueue(store.database, "a"), session, "k")).created


async def test_a_turn_that_was_begun_is_taken_before_those_that_wait_longer(
    queue: OrderQueue, other: OrderQueue, store: PostgresStore, session: SessionRef
) -> None:
    await _give(queue, session, "begun")
    begun = await _take(queue)
    for number in range(3):
        await _give(queue, await store.open_session("main", f"w{number}"), "waits")
    assert await queue.release(begun, blameless=False)
    [first] = await other.claim(1, ["main"])
    assert first.turn == "begun"
    assert len(await other.claim(10, ["main"])) == 3
