"""The client's end of a connection as a script: messages and times in, events and messages out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.mcp import jsonrpc, names
from openclaw.mcp.client import (
    MAX_EXTENSION,
    MAX_SERVER_REQUESTS,
    Answered,
    AskCancelled,
    Asked,
    Call,
    ClientConnection,
    ClientSettings,
    Closed,
    Flooded,
    Garbled,
    Noise,
    Notified,
    Progressed,
    RateLimit,
    Refused,
    Send,
    State,
    TimedOut,
)
from openclaw.mcp.jsonrpc import (
    ErrorData,
    ErrorResponse,
    Notification,
    Request,
    Response,
    parse,
)
from openclaw.mcp.negotiation import Handshake
from openclaw.mcp.revisions import REVISIONS


def connected(
    revision: str = "2025-11-25", *, over_http: bool = False, **settings: Any
) -> ClientConnection:
    info = {"name": "us", "version": "1"}
    options = ClientSettings(client_info=info, over_http=over_http, **settings)
    connection = ClientConnection(options)
    connection.begin(Handshake(REVISIONS[revision]))
    return connection


def call(connection: ClientConnection, timeout: float | None = 10.0, now: float = 0.0) -> Call:
    return connection.request("tools/call", {"name": "x"}, now, timeout)


def asks(id: jsonrpc.Id, method: str = "roots/list") -> Request:
    return Request(id, method)


def test_an_answer_ends_its_call_once() -> None:
    connection = connected()
    first, second = call(connection), call(connection)
    assert connection.receive(Response(second.id, {"a": 1}), 0) == [Answered(second, {"a": 1})]
    assert connection.receive(Response(second.id, {"a": 2}), 0) == []
    error = ErrorData(-1, "no")
    assert connection.receive(ErrorResponse(first.id, error), 0) == [Refused(first, error)]
    assert connection.open_calls == []


@pytest.mark.parametrize("id", ["7", 99, "x", None])
def test_only_the_right_id_counts_though_a_number_may_come_as_text(id: Any) -> None:
    connection = connected()
    while (own := call(connection)).id != 7:
        pass
    message = ErrorResponse(None, ErrorData(1, "x")) if id is None else Response(id, {})
    assert bool(connection.receive(message, 0)) is (id == "7")
    assert (own in connection.open_calls) is (id != "7")


MALFORMED: list[tuple[Any, type]] = [
    ({"id": 1, "result": 5}, Garbled),
    ({"id": 99, "result": 5}, Noise),
    ({"method": 5}, Noise),
    ([{"id": 1, "result": {}}, 7], Answered),
    ("text", Noise),
]


@pytest.mark.parametrize(("value", "event"), MALFORMED)
def test_what_is_no_message_ends_the_call_that_it_is_about(value: Any, event: type) -> None:
    connection = connected()
    call(connection)
    assert isinstance(connection.receive(parse(value), 0)[0], event)


def test_a_request_that_is_not_valid_is_answered() -> None:
    malformed = parse({"jsonrpc": "2.0", "id": 5, "method": "ping", "params": []})
    events = connected().receive(malformed, 0)
    assert [type(event) for event in events] == [Noise, Send]


def test_calls_run_out_of_time_and_the_server_is_told() -> None:
    connection = connected()
    own = call(connection, 10.0)
    call(connection, None)
    assert connection.next_deadline() == 10.0
    assert connection.expire(9.0) == []
    told = Notification(
        "notifications/cancelled", {"requestId": own.id, "reason": "no answer in time"}
    )
    assert connection.expire(10.0) == [TimedOut(own), Send(told)]
    assert connection.next_deadline() == float("inf")


def test_progress_keeps_a_call_alive_but_not_for_ever() -> None:
    connection = connected()
    own = connection.request("tools/call", {}, 0.0, 10.0, reports_progress=True)
    token = (own.request.params or {})["_meta"]["progressToken"]
    step = Notification(names.PROGRESS, {"progressToken": token, "progress": 1, "message": "m"})
    assert connection.receive(step, 9.0) == [Progressed(own, 1.0, None, "m")]
    assert own.due == 19.0
    assert connection.receive(step, 9.01) == []  # too soon for another report
    connection.receive(step, 10.0 * MAX_EXTENSION - 1)
    assert own.due == 10.0 * MAX_EXTENSION
    connection.receive(step, 10.0 * MAX_EXTENSION)
    assert isinstance(connection.expire(10.0 * MAX_EXTENSION)[0], TimedOut)


@pytest.mark.parametrize("progress", [True, "1", None, [], float("nan")])
def test_progress_that_is_no_number_is_not_reported(progress: Any) -> None:
    connection = connected()
    connection.request("x", {}, 0.0, 10.0, reports_progress=True)
    params = {"progressToken": 1, "progress": progress}
    events = connection.receive(Notification(names.PROGRESS, params), 0.0)
    assert bool(events) is (progress != progress)  # NaN is a number, if not a useful one


def test_while_the_server_waits_for_us_its_time_does_not_run() -> None:
    connection = connected()
    own = call(connection, 10.0)
    assert connection.receive(asks("q"), 5.0) == [Asked(asks("q"))]
    assert connection.expire(10.0) == []
    assert connection.answer("q", {"roots": []}, 15.0) == Response("q", {"roots": []})
    assert own.due == 25.0
    assert connection.answer("q", {}, 16.0) is None


def test_the_server_gets_its_answers_within_bounds() -> None:
    connection = connected()
    assert connection.receive(asks(1, "ping"), 0) == [Send(Response(1, {}))]
    for number in range(MAX_SERVER_REQUESTS):
        assert isinstance(connection.receive(asks(f"q{number}"), 0)[0], Asked)
    [busy] = connection.receive(asks("more"), 0)
    assert isinstance(busy, Send)
    assert connection.receive(Notification(names.CANCELLED, {"requestId": "q0"}), 0) == [
        AskCancelled("q0")
    ]
    assert connection.answer("q0", {}, 0) is None
    refused = connection.answer("q1", ErrorData(-1, "no"), 0)
    assert refused == ErrorResponse("q1", ErrorData(-1, "no"))


def test_a_flood_of_notifications_is_dropped() -> None:
    connection = connected()
    note = Notification("notifications/message", {})
    events = [connection.receive(note, 0.0)[0] for _ in range(3000)]
    assert events[0] == Notified("notifications/message", {})
    assert events[-1] == Flooded()
    assert connection.receive(note, 60.0) == [Notified("notifications/message", {})]


@pytest.mark.parametrize(
    ("revision", "over_http", "told"),
    [("2025-11-25", True, True), ("2026-07-28", False, True), ("2026-07-28", True, False)],
)
def test_how_the_server_learns_that_nobody_waits(
    revision: str, over_http: bool, told: bool
) -> None:
    connection = connected(revision, over_http=over_http)
    assert (connection.cancel(call(connection), "stop") is not None) is told


def test_the_handshake_is_not_cancelled_and_has_no_meta_of_its_own() -> None:
    connection = ClientConnection(ClientSettings(client_info={}))
    own = connection.request(names.INITIALIZE, {"a": 1}, 0.0)
    assert own.request.params == {"a": 1}
    assert connection.cancel(own, "stop") is None


def test_each_request_of_2026_07_28_says_who_asks() -> None:
    connection = connected("2026-07-28", capabilities={"roots": {}}, log_level="info")
    request = connection.request("tools/list", {"_meta": {"own": 1}}, 0.0).request
    meta = (request.params or {})["_meta"]
    assert meta[names.META_VERSION] == "2026-07-28"
    assert meta[names.META_CAPABILITIES] == {"roots": {}}
    assert meta[names.META_LOG_LEVEL] == "info"
    assert meta["own"] == 1


def test_headers_repeat_what_the_revision_wants_repeated() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}}
    connection = connected("2026-07-28", over_http=True)
    connection.learn_tools({"weather": schema})
    params = {"name": "weather", "arguments": {"city": "Ulm"}}
    request = connection.request("tools/call", params, 0.0).request
    assert connection.headers(request) == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "weather",
        "mcp-param-city": "Ulm",
    }
    assert connected("2025-06-18").headers(request) == {"mcp-protocol-version": "2025-06-18"}


def test_a_server_may_end_a_subscription_and_nothing_else_of_ours() -> None:
    connection = connected("2026-07-28")
    listening = connection.request(names.LISTEN, {}, 0.0)
    other = call(connection)

    def cancelled(id: Any) -> Notification:
        return Notification(names.CANCELLED, {"requestId": id})

    assert connection.receive(cancelled(other.id), 0) == []
    [event] = connection.receive(cancelled(listening.id), 0)
    assert isinstance(event, Refused)
    assert connection.open_calls == [other]


def test_after_the_end_there_is_nothing() -> None:
    connection = connected()
    own = call(connection)
    assert connection.close() == [own]
    assert connection.state is State.CLOSED
    assert connection.receive(Response(own.id, {}), 0) == []
    with pytest.raises(Closed):
        call(connection)


def test_a_rate_limit_lets_a_burst_pass_and_then_a_trickle() -> None:
    limit = RateLimit(rate=10, burst=3)
    assert [limit.allows(100.0) for _ in range(5)] == [True, True, True, False, False]
    assert [limit.allows(100.15), limit.allows(100.15)] == [True, False]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["requestId", "progressToken", "progress", "x"]), inner)
    ),
    max_leaves=8,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0"),
        "id": st.integers(0, 4) | ANYTHING,
        "method": st.sampled_from(
            [names.PROGRESS, names.CANCELLED, names.PING, names.ROOTS, names.LOG]
        ),
        "params": ANYTHING,
        "result": ANYTHING,
        "error": ANYTHING,
    },
)


@given(st.lists(MESSAGES | st.lists(MESSAGES, max_size=3), max_size=8))
def test_whatever_comes_each_call_ends_at_most_once(messages: list[Any]) -> None:
    connection = connected()
    open_calls = {call(connection) for _ in range(3)}
    for now, message in enumerate(messages):
        for event in connection.receive(parse(message), float(now)):
            if isinstance(event, Answered | Refused | Garbled | TimedOut):
                open_calls.remove(event.call)
    assert set(connection.close()) == open_calls
