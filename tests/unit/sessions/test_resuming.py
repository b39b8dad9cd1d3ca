"""Going on with a turn that was lost, in every store."""

import pytest

from openclaw.core.errors import DeveloperFacing, InvalidRequest
from openclaw.core.outcome import Outcome
from openclaw.sessions.records import EntryKind, NewEntry, TurnState
from openclaw.sessions.store import SessionStore

_HELLO = NewEntry(EntryKind.USER_MESSAGE, {"text": "hello"}, "hello")
_CALL = NewEntry(EntryKind.TOOL_CALL, {}, call_id="c")


async def test_a_lost_turn_runs_again_with_all_that_it_had(store: SessionStore) -> None:
    session = await store.open_session("main", "s")
    async with store.acquire_lane(session) as lane:
        await lane.begin_turn([_HELLO, _CALL], turn="t")
    lost = await store.find_turn(session, "t")
    assert lost is not None
    assert (lost.state, [call.call_id for call in lost.open_calls]) == (TurnState.LOST, ["c"])
    async with store.acquire_lane(session) as lane:
        await lane.resume_turn("t", [NewEntry(EntryKind.TOOL_RESULT, {}, call_id="c")])
        await lane.append("t", [NewEntry(EntryKind.NOTICE)])
        await lane.finish_turn("t", Outcome.OK)
    done = await store.find_turn(session, "t")
    assert done is not None
    assert (done.state, done.open_calls) == (TurnState.OK, ())
    kinds = [entry.kind for entry in await store.history(session)]
    assert kinds == [
        EntryKind.TURN_STARTED,
        EntryKind.USER_MESSAGE,
        EntryKind.TOOL_CALL,
        EntryKind.TURN_LOST,
        EntryKind.TOOL_RESULT,
        EntryKind.NOTICE,
        EntryKind.TURN_FINISHED,
    ]


async def test_only_a_lost_turn_can_be_resumed(store: SessionStore) -> None:
    session = await store.open_session("main", "s")
    async with store.acquire_lane(session) as lane:
        await lane.begin_turn([_HELLO], turn="t")
        with pytest.raises(InvalidRequest):
            await lane.resume_turn("t")
        await lane.finish_turn("t", Outcome.OK)
        with pytest.raises(InvalidRequest):
            await lane.resume_turn("t")
        with pytest.raises(InvalidRequest):
            await lane.resume_turn("unknown")


async def test_a_resumed_turn_that_is_left_again_is_lost_again(store: SessionStore) -> None:
    session = await store.open_session("main", "s")
    for resumed in (False, True):
        async with store.acquire_lane(session) as lane:
            if resumed:
                await lane.resume_turn("t")
            else:
                await lane.begin_turn([_HELLO], turn="t")
    found = await store.find_turn(session, "t")
    assert found is not None
    assert found.state is TurnState.LOST
    async with store.acquire_lane(session) as lane:
        with pytest.raises((DeveloperFacing, InvalidRequest)):
            await lane.append("t", [NewEntry(EntryKind.NOTICE)])
