"""What every store promises, asked of each of them."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from openclaw.core.errors import Busy, DeveloperFacing, InvalidRequest, NotFound
from openclaw.core.events import Usage
from openclaw.core.outcome import Outcome
from openclaw.sessions.copying import exported
from openclaw.sessions.records import (
    MAX_ENTRY_BYTES,
    Document,
    Entry,
    EntryKind,
    LaneLost,
    NewEntry,
    SessionRef,
    TurnState,
)
from openclaw.sessions.sqlite.store import SqliteStore
from openclaw.sessions.store import SessionStore

K = EntryKind


def said(text: str) -> NewEntry:
    return NewEntry(K.USER_MESSAGE, {"content": text}, text)


def answered(text: str) -> NewEntry:
    return NewEntry(K.ASSISTANT_MESSAGE, {"content": text}, text)


def call(name: str) -> NewEntry:
    return NewEntry(K.TOOL_CALL, {"name": "send"}, call_id=name, details={"private": True})


def kinds(entries: Sequence[Entry]) -> list[EntryKind]:
    return [entry.kind for entry in entries]


async def one_turn(store: SessionStore, session: SessionRef, text: str = "hello") -> str:
    async with store.acquire_lane(session) as lane:
        turn = await lane.begin_turn([said(text)])
        await lane.finish_turn(turn, Outcome.OK, [answered(f"re: {text}")])
    return turn


async def test_a_session_is_created_once_and_found_again(store: SessionStore) -> None:
    first = await store.open_session("main", "k")
    assert await store.open_session("main", "k") == first
    assert (await store.open_session("other", "k")).id != first.id
    assert [info.agent for info in await store.find_sessions("k")] == ["main", "other"]
    assert [info.key for info in await store.find_sessions(first.id)] == ["k"]
    assert await store.find_sessions("k", "nobody") == []


@pytest.mark.parametrize(
    "key", ["../../x", "a/b\\c", "😀" * 512, " ", "'; DROP TABLE sessions;--", "\uff21A", "\n"]
)
async def test_any_text_is_a_key_and_comes_back_as_it_was(store: SessionStore, key: str) -> None:
    session = await store.open_session("main", key)
    assert (await store.show(session)).key == key
    assert (await store.list_sessions()).sessions[0].key == key


@pytest.mark.parametrize("key", ["", "x" * 513, "a\0b", "\ud800"])
async def test_what_no_database_can_hold_is_refused_as_a_key(store: SessionStore, key: str) -> None:
    with pytest.raises(InvalidRequest):
        await store.open_session("main", key)


async def test_keys_are_compared_exactly(store: SessionStore) -> None:
    names = ["é", "e\u0301", "É", "e"]
    ids = {(await store.open_session("main", name)).id for name in names}
    assert len(ids) == 4


async def test_a_turn_is_written_in_order_with_its_totals(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as lane:
        assert lane.session == session
        turn = await lane.begin_turn([said("find it")])
        numbers = await lane.append(turn, [call("c1")])
        await lane.append(turn, [NewEntry(K.TOOL_RESULT, {"ok": True}, call_id="c1")])
        used = Usage(input_tokens=10, output_tokens=3, requests=2, tool_calls=1)
        await lane.finish_turn(turn, Outcome.OK, [answered("done")], usage=used)
    entries = await store.history(session)
    assert kinds(entries) == [
        K.TURN_STARTED,
        K.USER_MESSAGE,
        K.TOOL_CALL,
        K.TOOL_RESULT,
        K.ASSISTANT_MESSAGE,
        K.TURN_FINISHED,
    ]
    assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert list(numbers) == [3]
    assert {entry.turn for entry in entries} == {turn}
    assert entries[1].data == {"content": "find it"}
    assert entries[2].details == {"private": True}
    info = await store.show(session)
    assert (info.messages, info.entries, Usage(*info[8:])) == (2, 6, used)
    assert await store.unfinished_turns(session) == []


async def test_usage_adds_up_over_turns(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    for _ in range(2):
        async with store.acquire_lane(session) as lane:
            turn = await lane.begin_turn()
            await lane.finish_turn(turn, Outcome.OK, usage=Usage(1, 2, 3, 4, 5, 6))
    assert Usage(*(await store.show(session))[8:]) == Usage(2, 4, 6, 8, 10, 12)


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [(Outcome.CANCELLED, K.TURN_CANCELLED), (Outcome.ERROR, K.TURN_ERROR)],
)
async def test_a_turn_that_ended_badly_says_so(
    store: SessionStore, outcome: Outcome, kind: EntryKind
) -> None:
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as lane:
        turn = await lane.begin_turn([said("hi")])
        await lane.finish_turn(turn, outcome, detail="the model went away")
    last = (await store.history(session))[-1]
    assert (last.kind, last.data) == (kind, {"detail": "the model went away"})


async def test_those_who_wait_for_a_session_are_served_as_they_came(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    served: list[int] = []

    async def wait(number: int) -> None:
        async with store.acquire_lane(session):
            served.append(number)

    async with anyio.create_task_group() as group, store.acquire_lane(session):
        for number in range(10):
            group.start_soon(wait, number)
            await anyio.wait_all_tasks_blocked()
        assert served == []
    assert served == list(range(10))


async def test_one_who_stops_waiting_lets_the_next_through(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    served = anyio.Event()

    async def wait() -> None:
        async with store.acquire_lane(session):
            served.set()

    async with anyio.create_task_group() as group:
        async with store.acquire_lane(session):
            impatient = anyio.CancelScope()

            async def give_up() -> None:
                with impatient:
                    await wait()

            group.start_soon(give_up)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            impatient.cancel()
        with anyio.fail_after(60):
            await served.wait()


async def test_sessions_do_not_wait_for_each_other(store: SessionStore) -> None:
    one, two = await store.open_session("main", "1"), await store.open_session("main", "2")
    async with store.acquire_lane(one), store.acquire_lane(two) as lane:
        await lane.begin_turn()


async def test_an_exception_leaves_the_lane_free_and_comes_out_as_it_is(
    store: SessionStore,
) -> None:
    session = await store.open_session("main", "k")
    with pytest.raises(ZeroDivisionError):
        async with store.acquire_lane(session):
            raise ZeroDivisionError
    await one_turn(store, session)


async def test_a_holder_that_was_replaced_cannot_write(subject: Any) -> None:
    store: SessionStore = subject.store
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as old:
        turn = await old.begin_turn([said("send it")])
        await old.append(turn, [call("c1")])
        subject.take_away(session)
        async with store.acquire_lane(session) as new:
            assert new.at.epoch > old.at.epoch
            with pytest.raises(LaneLost):
                await old.append(turn, [said("too late")])
            with pytest.raises(LaneLost):
                await old.finish_turn(turn, Outcome.OK)
            with pytest.raises(LaneLost):
                await old.begin_turn()
            with pytest.raises(LaneLost):
                await old.compact(turn, NewEntry(K.COMPACTION), through=1)
            await new.begin_turn()


async def test_a_turn_that_died_half_way_is_visible_with_calls_of_unknown_outcome(
    subject: Any,
) -> None:
    store: SessionStore = subject.store
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as old:
        dead = await old.begin_turn([said("send it")])
        await old.append(dead, [call("c1"), call("c2")])
        await old.append(dead, [NewEntry(K.TOOL_RESULT, {}, call_id="c1")])
        (running,) = await store.unfinished_turns(session)
        assert (running.id, running.state) == (dead, TurnState.RUNNING)
        subject.take_away(session)
        async with store.acquire_lane(session) as new:
            (found,) = await store.unfinished_turns(session)
            assert (found.id, found.state) == (dead, TurnState.LOST)
            assert [entry.call_id for entry in found.open_calls] == ["c2"]
            turn = await new.begin_turn()
            await new.finish_turn(turn, Outcome.OK)
    async with store.acquire_lane(session):  # it is not lost once more
        pass
    (lost,) = await store.unfinished_turns(session)
    assert (lost.id, lost.state) == (dead, TurnState.LOST)
    assert [entry.call_id for entry in lost.open_calls] == ["c2"]
    ending = next(e for e in await store.history(session) if e.kind is K.TURN_LOST)
    assert ending.data == {"openCalls": ["c2"]}


async def test_a_turn_that_nobody_finished_is_lost_once_its_lane_is_left(
    store: SessionStore,
) -> None:
    session = await store.open_session("main", "k")

    async def fail() -> None:
        async with store.acquire_lane(session) as lane:
            turn = await lane.begin_turn([said("x")], turn="t")
            await lane.append(turn, [call("c1")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    (turn,) = await store.unfinished_turns(session)
    assert (turn.state, len(turn.open_calls)) == (TurnState.LOST, 1)
    assert (await store.history(session))[-1].kind is K.TURN_LOST


async def test_a_turn_id_is_taken_once(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as lane:
        assert await lane.begin_turn(turn="order-1") == "order-1"
        await lane.finish_turn("order-1", Outcome.OK)
        with pytest.raises(InvalidRequest, match="already"):
            await lane.begin_turn(turn="order-1")
    found = await store.find_turn(session, "order-1")
    assert found is not None
    assert (found.state, found.open_calls) == (TurnState.OK, ())
    assert await store.find_turn(session, "order-2") is None


async def test_a_lane_refuses_what_makes_no_sense(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as lane:
        with pytest.raises(DeveloperFacing):
            await lane.append("no such turn", [said("x")])
        turn = await lane.begin_turn()
        with pytest.raises(DeveloperFacing):
            await lane.begin_turn()
        with pytest.raises(InvalidRequest):
            await lane.append(turn, [NewEntry(K.TURN_FINISHED)])
        with pytest.raises(InvalidRequest):
            await lane.compact(turn, said("no summary"), through=1)
        with pytest.raises(InvalidRequest):
            await lane.compact(turn, NewEntry(K.COMPACTION), through=99)
        await lane.finish_turn(turn, Outcome.OK)
        with pytest.raises(DeveloperFacing):
            await lane.finish_turn(turn, Outcome.OK)
    assert kinds(await store.history(session)) == [K.TURN_STARTED, K.TURN_FINISHED]


async def test_a_notice_may_stand_between_turns(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as lane:
        await lane.append(None, [NewEntry(K.NOTICE, {"level": "info"}, "model changed")])
    (entry,) = await store.history(session)
    assert (entry.turn, entry.text) == (None, "model changed")


async def test_a_summary_stands_for_what_it_covers_and_the_transcript_stays_whole(
    store: SessionStore,
) -> None:
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as lane:
        turn = await lane.begin_turn([said("one")])  # 1, 2
        await lane.append(turn, [call("c1"), said("two"), call("c2")])  # 3, 4, 5
        assert await lane.compact(turn, NewEntry(K.COMPACTION, {"n": 1}), through=3) == 6
        assert await lane.compact(turn, NewEntry(K.COMPACTION, {"n": 2}), through=4) == 7
        await lane.finish_turn(turn, Outcome.OK)  # 8
    assert [entry.seq for entry in await store.history(session)] == [7, 5, 8]
    whole = await store.history(session, since_compaction=False)
    assert [entry.seq for entry in whole] == list(range(1, 9))
    assert [entry.details for entry in whole if entry.call_id] == [None, {"private": True}]


async def test_entries_are_read_page_by_page(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    await one_turn(store, session)
    assert [e.seq for e in await store.entries(session, limit=3)] == [1, 2, 3]
    assert [e.seq for e in await store.entries(session, after=3)] == [4]
    assert await store.entries(session, after=4) == []


async def test_a_listing_begins_with_the_session_used_last_and_goes_on_by_its_cursor(
    store: SessionStore,
) -> None:
    for number in range(7):
        await store.open_session("main" if number % 2 else "other", f"k{number}")
    await one_turn(store, await store.open_session("main", "k1"))
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.list_sessions(limit=3, cursor=cursor)
        seen += [info.key for info in page.sessions]
        if (cursor := page.cursor) is None:
            break
    assert seen == ["k1", "k6", "k5", "k4", "k3", "k2", "k0"]
    assert [i.key for i in (await store.list_sessions("main")).sessions] == ["k1", "k5", "k3"]
    assert len((await store.list_sessions(limit=None)).sessions) == 7
    assert await store.count_sessions() == 7
    with pytest.raises(InvalidRequest):
        await store.list_sessions(cursor="nonsense")


async def test_a_listing_can_leave_out_what_programs_began(store: SessionStore) -> None:
    for key in ("chat-1", "mcp-1700000000000-ab", "http-1", "cron:daily", "about mcp-1"):
        await store.open_session("main", key)
    page = await store.list_sessions("main", conversations=True)
    assert [info.key for info in page.sessions] == ["about mcp-1", "chat-1"]


async def test_a_listing_is_narrowed_by_key_or_title(store: SessionStore) -> None:
    await store.set_title(await store.open_session("main", "a"), "  Holiday in\nNorway ")
    await store.open_session("main", "100%_sure")
    titles = [info.title for info in (await store.list_sessions(search="norway")).sessions]
    assert titles == ["Holiday in Norway"]
    found = await store.list_sessions(search="0%_s")
    assert [info.key for info in found.sessions] == ["100%_sure"]
    assert (await store.list_sessions(search="%")).sessions == found.sessions


async def test_a_title_is_one_line_and_can_be_taken_away(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    await store.set_title(session, "x" * 300)
    assert (await store.show(session)).title == "x" * 200
    await store.set_title(session, None)
    assert (await store.show(session)).title is None


async def test_a_deleted_session_is_gone_with_all_that_it_held(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    await one_turn(store, session, "unforgettable")
    await store.delete(session)
    assert await store.search("unforgettable") == []
    assert await store.find_sessions("k") == []
    for gone in (store.show, store.history, store.delete, store.unfinished_turns):
        with pytest.raises(NotFound):
            await gone(session)
    with pytest.raises(NotFound):
        async with store.acquire_lane(session):
            pass
    again = await store.open_session("main", "k")
    assert again.id != session.id
    assert await store.history(again) == []


async def test_a_session_in_use_is_not_deleted(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session):
        with pytest.raises(Busy):
            await store.delete(session)
    await store.delete(session)


async def test_a_lane_outlives_no_deletion(subject: Any) -> None:
    store: SessionStore = subject.store
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as lane:
        subject.take_away(session)
        await store.delete(session)
        with pytest.raises(LaneLost):
            await lane.begin_turn()


async def test_an_export_is_the_session_and_then_every_entry(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    await one_turn(store, session)
    async with store.acquire_lane(session) as lane:
        await lane.append(None, [call("c1")])
    lines = [line async for line in exported(store, session)]
    assert [line["type"] for line in lines] == ["session"] + ["entry"] * 5
    assert (lines[0]["key"], lines[0]["messages"]) == ("k", 2)
    assert [line["seq"] for line in lines[1:]] == [1, 2, 3, 4, 5]
    assert (lines[5]["callId"], lines[5]["details"]) == ("c1", {"private": True})


async def test_a_search_finds_every_word_in_any_order(store: SessionStore) -> None:
    main = await store.open_session("main", "k")
    await one_turn(store, main, "the quick brown fox")
    await one_turn(store, await store.open_session("other", "k"), "a slow brown bear")
    hits = await store.search("FOX quick")
    assert {hit.session.key for hit in hits} == {"k"}
    assert all("quick brown fox" in hit.snippet for hit in hits)
    assert {hit.kind for hit in hits} == {K.USER_MESSAGE, K.ASSISTANT_MESSAGE}
    assert len(await store.search("brown")) == 4
    assert {hit.session.agent for hit in await store.search("brown", agent="other")} == {"other"}
    assert len(await store.search("brown", limit=1)) == 1
    assert await store.search("fox bear") == []
    assert await store.search("   ") == []


@pytest.mark.parametrize("text", ['"', "a OR", "NEAR(", "*", "text:x", "-", "(", "'", "\0", "💥"])
async def test_a_search_takes_its_words_literally(store: SessionStore, text: str) -> None:
    await one_turn(store, await store.open_session("main", "k"))
    assert await store.search(text) == []


@pytest.mark.parametrize("part", ["東京", "の天気", "สวัสดี"])
async def test_scripts_without_spaces_are_found_by_any_part(store: SessionStore, part: str) -> None:
    await one_turn(store, await store.open_session("main", "k"), "今日の東京の天気 สวัสดีครับ")
    assert len(await store.search(part)) == 2


async def test_a_cancelled_write_is_whole_or_absent(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as lane:
        turn = await lane.begin_turn([said("x")])
        with anyio.CancelScope() as scope:
            scope.cancel()
            await lane.finish_turn(turn, Outcome.OK, [answered("y")])
        found = kinds(await store.history(session))
    assert found in (
        [K.TURN_STARTED, K.USER_MESSAGE],
        [K.TURN_STARTED, K.USER_MESSAGE, K.ASSISTANT_MESSAGE, K.TURN_FINISHED],
    )


@pytest.mark.parametrize(
    "data", [{"x": "\ud800"}, {"x": 2**70}, {"x": "\0"}, {}, {"é": [1.5, None]}]
)
async def test_data_comes_back_as_it_was(store: SessionStore, data: dict[str, object]) -> None:
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as lane:
        await lane.append(None, [NewEntry(K.NOTICE, data, "a\0b\ud800")])
    (entry,) = await store.history(session)
    assert entry.data == data
    assert entry.text == "a\ufffdb?"


async def test_data_that_is_no_json_or_too_large_is_refused(store: SessionStore) -> None:
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as lane:
        with pytest.raises(InvalidRequest, match="JSON"):
            await lane.append(None, [NewEntry(K.NOTICE, {"x": object()})])
        with pytest.raises(InvalidRequest, match="too large"):
            await lane.append(None, [NewEntry(K.NOTICE, {"x": "y" * MAX_ENTRY_BYTES})])
    assert await store.history(session) == []


async def test_attachments_are_kept_with_their_session_and_deleted_with_it(
    store: SessionStore,
) -> None:
    session, other = await store.open_session("main", "k"), await store.open_session("main", "l")
    digest = await store.keep_media(session, b"an image")
    assert await store.keep_media(session, b"an image") == digest
    assert await store.media(session, digest) == b"an image"
    assert await store.media(other, digest) is None
    assert await store.media(session, "../../sessions.db") is None
    await store.delete(session)
    again = await store.open_session("main", "k")
    assert await store.media(again, digest) is None


async def test_a_session_keeps_the_newest_attachments_within_a_bound(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw.sessions.postgres.store.SESSION_BYTES", 25)
    if isinstance(store, SqliteStore):
        monkeypatch.setattr(store._media, "_session_bytes", 25)
    session = await store.open_session("main", "k")
    digests: list[str] = []
    for number in range(3):
        digests.append(await store.keep_media(session, bytes([number]) * 10))
        await anyio.sleep(0.02)  # the order is that of their times
    found = [await store.media(session, digest) is not None for digest in digests]
    assert found == [False, True, True]


async def test_all_sessions_together_keep_the_newest_attachments_within_a_bound(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("openclaw.sessions.postgres.store", "openclaw.media.stored_files"):
        monkeypatch.setattr(f"{module}.LOOK_EVERY_BYTES", 1)
    monkeypatch.setattr("openclaw.sessions.postgres.store.ALL_BYTES", 25)
    if isinstance(store, SqliteStore):
        monkeypatch.setattr(store._media, "_all_bytes", 25)
    kept: list[tuple[SessionRef, str]] = []
    for number in range(3):
        session = await store.open_session("main", f"k{number}")
        kept.append((session, await store.keep_media(session, bytes([number]) * 10)))
        await anyio.sleep(0.02)  # the order is that of their times
    assert [await store.media(*one) is not None for one in kept] == [False, True, True]


async def test_a_document_is_written_by_whoever_knows_its_last_revision(
    store: SessionStore,
) -> None:
    first, second = Document("a", 1, {"x": 1}), Document("a", 2, {"x": 2})
    assert await store.write_document("k", first, expires_ms=1000)
    assert not await store.write_document("k", Document("a", 1, {"x": 9}), expires_ms=1000)
    assert await store.write_document("k", second, expires_ms=1000, durable=False)
    assert not await store.write_document("k", Document("a", 4, {}), expires_ms=1000)
    assert not await store.write_document("k", Document("missing", 2, {}), expires_ms=1000)
    assert await store.documents("k", ["a", "b"]) == [second]
    assert await store.documents("other") == []


async def test_two_that_add_the_same_at_once_both_count(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, read, both = store.documents, list[str](), anyio.Event()

    async def together(kind: str, ids: Sequence[str]) -> list[Document]:
        found = await documents(kind, ids)
        read.append(kind)
        if len(read) == 2:
            both.set()
        await both.wait()
        return found

    async def add() -> None:
        await store.update_document(
            "k", "a", lambda before: {"x": before.get("x", 0) + 1}, expires_ms=1000
        )

    monkeypatch.setattr(store, "documents", together)
    async with anyio.create_task_group() as group:
        group.start_soon(add)
        group.start_soon(add)
    assert [one.data["x"] for one in await documents("k", ["a"])] == [2]


async def test_documents_are_removed_by_name_and_by_age(store: SessionStore) -> None:
    week = 7 * 24 * 3_600_000
    for name, expires in (("old", 10), ("named", week), ("new", week)):
        assert await store.write_document("k", Document(name, 1, {}), expires_ms=expires)
    await store.delete_documents("k", ["named"], expired=week)
    assert {one.id for one in await store.documents("k")} == {"old", "new"}
    await store.delete_documents("k", expired=week + 50)
    assert [one.id for one in await store.documents("k")] == ["new"]


async def test_the_age_of_a_document_follows_the_stores_clock(store: SessionStore) -> None:
    assert await store.seconds_since_written("k", "a") is None
    assert await store.write_document("k", Document("a", 1, {}), expires_ms=1)
    age = await store.seconds_since_written("k", "a")
    assert age is not None
    assert 0 <= age < 60
