"""The state machine of a server, by its rules and by any order of events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.mcp_client.lifecycle.server_state import (
    Event,
    ServerLifecycle,
    ServerState,
    advance,
    restart_delay,
)

MOST = 7
EVENTS = st.sampled_from(Event)
STORIES = st.lists(st.tuples(EVENTS, st.floats(0, 100)), max_size=40)
ANY_MOST = st.integers(0, 8)


def crash_and_return(
    life: ServerLifecycle, now: float, most: int = MOST
) -> tuple[ServerLifecycle, float]:
    """A loss, and the life and time once its wait is over and it is ready again."""
    life = advance(life, Event.LOST, now, most, "gone")
    now = life.retry_at or now
    life = advance(life, Event.RETRY_DUE, now, most)
    return advance(life, Event.CONNECTED, now, most), now


def ready(now: float = 0.0) -> ServerLifecycle:
    return advance(
        advance(ServerLifecycle(), Event.STARTED, now, MOST),
        Event.CONNECTED,
        now,
        MOST,
    )


@pytest.mark.requirement("FR-3.3")
def test_restarts_wait_longer_and_longer_up_to_half_a_minute() -> None:
    assert [restart_delay(n) for n in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.requirement("FR-3.3")
def test_restarts_come_after_growing_waits_and_then_no_more():
    life, waits = ready(), list[float | None]()
    while life.state is not ServerState.FAILED:
        life = advance(life, Event.LOST, 0.0, MOST, "gone")
        waits.append(life.retry_at)
        life = advance(life, Event.RETRY_DUE, 0.0, MOST)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, None]


@pytest.mark.requirement("E-2")
@pytest.mark.parametrize(("uptime", "wait"), [(9.9, 1.0), (10.0, 0.0), (59.0, 0.0), (61.0, 0.0)])
def test_a_server_that_had_proven_itself_comes_back_at_once(uptime: float, wait: float):
    life = advance(ready(), Event.LOST, uptime, MOST, "gone")
    assert life.retry_at == uptime + wait


def test_only_the_first_restart_comes_at_once():
    life, now = crash_and_return(ready(), 20.0)
    life = advance(life, Event.LOST, now + 20, MOST, "gone")
    assert life.retry_at == now + 20 + 2.0


def test_a_stable_minute_starts_the_count_afresh():
    life, now = crash_and_return(ready(), 1.0)
    life, now = crash_and_return(life, now + 1.0)
    assert life.restarts == 2
    life = advance(life, Event.LOST, now + 60, MOST, "gone")
    assert (life.restarts, life.retry_at) == (1, now + 60)


def test_what_could_not_be_started_counts_as_no_restart():
    life, waits = advance(ServerLifecycle(), Event.STARTED, 0.0, MOST), list[float | None]()
    while life.state is not ServerState.FAILED:
        life = advance(life, Event.NOT_BEGUN, 0.0, MOST, "a secret is missing")
        assert (life.restarts, life.last_error) == (0, "a secret is missing")
        waits.append(life.retry_at)
        life = advance(life, Event.RETRY_DUE, 0.0, MOST)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, None]


def test_a_server_that_ran_and_then_could_not_be_started_keeps_its_count():
    life, now = crash_and_return(ready(), 1.0)
    life = advance(advance(life, Event.LOST, now, MOST, "gone"), Event.RETRY_DUE, now, MOST)
    life = advance(life, Event.NOT_BEGUN, now, MOST, "a secret is missing")
    assert (life.restarts, life.waits) == (2, 1)
    life = advance(advance(life, Event.RETRY_DUE, now, MOST), Event.CONNECTED, now, MOST)
    assert (life.restarts, life.waits) == (2, 0)
    assert advance(life, Event.NOT_BEGUN, now, MOST, "a secret is missing").restarts == 3


def test_what_could_not_be_started_is_not_tried_again_where_no_restart_is_wanted():
    life = advance(ServerLifecycle(), Event.STARTED, 0.0, MOST)
    life = advance(life, Event.NOT_BEGUN, 0.0, 0, "x")
    assert (life.state, life.last_error) == (ServerState.FAILED, "x")


def test_no_restart_where_none_is_wanted():
    life = advance(ready(), Event.LOST, 20.0, 0, "gone")
    assert (life.state, life.last_error) == (ServerState.FAILED, "gone")


def test_a_fresh_start_leaves_failure_with_the_count_at_zero():
    failed = advance(ready(), Event.BROKEN, 1.0, MOST, "no such command")
    life = advance(failed, Event.RESTARTED, 2.0, MOST)
    assert (life.state, life.restarts) == (ServerState.CONNECTING, 0)


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (Event.BROKEN, ServerState.FAILED),
        (Event.LOGIN_NEEDED, ServerState.NEEDS_LOGIN),
        (Event.STOPPED, ServerState.CLOSED),
    ],
)
def test_each_way_to_end_has_a_state_of_its_own(event: Event, state: ServerState):
    assert advance(ready(), event, 1.0, MOST).state is state


def test_a_disabled_server_stays_so_until_it_is_closed():
    life = ServerLifecycle(ServerState.DISABLED)
    for event in (
        Event.STARTED,
        Event.RESTARTED,
        Event.RETRY_DUE,
        Event.LOST,
    ):
        assert advance(life, event, 1.0, MOST) == life
    assert advance(life, Event.STOPPED, 1.0, MOST).state is ServerState.CLOSED


@pytest.mark.requirement("NFR-4.1")
@given(story=STORIES, most=ANY_MOST, enabled=st.booleans())
def test_whatever_happens_the_life_makes_sense(
    story: list[tuple[Event, float]], most: int, enabled: bool
):
    life = ServerLifecycle(ServerState.DISCONNECTED if enabled else ServerState.DISABLED)
    now = 0.0
    for event, pause in story:
        now += pause
        before = life
        life = advance(life, event, now, most, "why")
        assert (life.retry_at is not None) == (life.state is ServerState.ERROR)
        assert (life.ready_since is not None) == (life.state is ServerState.READY)
        assert 0 <= life.restarts <= max(most, 0)
        assert 0 <= life.waits <= max(most, 0)
        if life.retry_at is not None and before.retry_at is None:
            assert 0 <= life.retry_at - now <= 30
        if before.state is ServerState.CLOSED:
            assert life == before
        if life.state in (ServerState.ERROR, ServerState.FAILED, ServerState.NEEDS_LOGIN):
            assert life.last_error


@given(story=STORIES, most=ANY_MOST)
def test_a_stop_is_always_obeyed(story: list[tuple[Event, float]], most: int):
    life = ServerLifecycle()
    for event, now in story:
        life = advance(life, event, now, most, "why")
    life = advance(life, Event.STOPPED, 0.0, most)
    assert life.state is ServerState.CLOSED


@pytest.mark.requirement("E-3")
@given(most=ANY_MOST, uptimes=st.lists(st.floats(0, 9), min_size=10, max_size=20))
def test_a_server_that_keeps_crashing_is_given_up(most: int, uptimes: list[float]):
    life, now = ready(), 0.0
    for uptime in uptimes:
        life, now = crash_and_return(life, now + uptime, most)
    assert life.state is ServerState.FAILED
