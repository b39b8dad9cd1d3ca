"""Parts that need no gateway around them."""

import plistlib
import socket
from pathlib import Path

import anyio
import pytest

from openclaw.agent.port import Reply
from openclaw.config.load import stamp
from openclaw.config.reload import waiting_changes
from openclaw.config.schema import (
    Config,
    GatewayConfig,
    GatewayReload,
    HookConfig,
    HooksConfig,
    SessionsConfig,
    TelemetryConfig,
)
from openclaw.core.content import Media, Text
from openclaw.core.errors import Busy, Cancelled, OperatorFacing
from openclaw.core.events import BlockReply, TextDelta
from openclaw.core.outcome import Outcome
from openclaw.gateway.auth import AllowedHosts, RequestRateLimit
from openclaw.gateway.event_streams import EventFeed
from openclaw.gateway.gateway import Turns
from openclaw.gateway.listening import bind_addresses, listen, shown_url
from openclaw.gateway.metrics import Metrics
from openclaw.gateway.openai.endpoints import Written
from openclaw.gateway.service_files import Notifier, unit_for


class HeldClock:
    """A clock that stands still until it is moved."""

    now = 1000.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now


def test_a_burst_passes_and_then_as_many_as_the_rate_allows() -> None:
    clock = HeldClock()
    limit = RequestRateLimit(60, clock)
    assert [limit.admit("a") for _ in range(6)] == [0.0] * 6
    assert limit.admit("a") == pytest.approx(1.0)
    assert limit.admit("b") == 0.0
    clock.now += 1
    assert limit.admit("a") == 0.0
    assert limit.admit("a") > 0


def test_a_flood_of_addresses_is_forgotten_again() -> None:
    clock = HeldClock()
    limit = RequestRateLimit(600, clock)
    for number in range(10_050):
        assert limit.admit(str(number)) == 0.0
    assert len(limit._left) <= 10_000


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost", True),
        ("LOCALHOST:80", True),
        ("[::1]:5", True),
        ("127.0.0.1:5", True),
        ("localhost.evil.example", False),
        ("127.0.0.1.nip.io", False),
        ("", False),
        ("10.0.0.1", False),
        ("mine.example:443", True),
        ("[::1", False),
        ("[::1]evil.com", False),
        ("localhost:80@evil.com", False),
        ("127.0.0.1:x", False),
        ("localhost:80:80", False),
        ("localhost\n", False),
    ],
)
def test_only_our_own_names_are_answered(host: str, known: bool) -> None:
    assert AllowedHosts(hosts=frozenset({"mine.example"})).knows_host(host) is known


def test_bound_beyond_loopback_any_address_will_do_but_no_name() -> None:
    names = AllowedHosts(any_address=True)
    assert names.knows_host("10.0.0.1:80")
    assert not names.knows_host("evil.example")


@pytest.mark.parametrize("bind", ["lan", "10.1.2.3", "0.0.0.0"])
def test_strangers_are_not_let_in_without_a_token(bind: str) -> None:
    with pytest.raises(OperatorFacing, match="only listens on loopback"):
        bind_addresses(bind, 1, has_token=False)
    assert bind_addresses(bind, 1, has_token=True)


def test_a_name_is_not_an_address() -> None:
    with pytest.raises(OperatorFacing, match="has to be loopback, lan or an IP address"):
        bind_addresses("example.com", 1, has_token=True)


def test_a_port_that_is_taken_is_said_to_be() -> None:
    [first] = listen([("127.0.0.1", 0)])
    with first:
        port = first.getsockname()[1]
        assert shown_url([first]) == f"http://127.0.0.1:{port}"
        with pytest.raises(OperatorFacing, match=f"cannot listen on 127.0.0.1 port {port}"):
            listen([("127.0.0.1", port)])


def test_small_answers_are_sent_at_once() -> None:
    [listener] = listen([("127.0.0.1", 0)])
    with listener:
        # asyncio switches Nagle's delay off only where the socket names its protocol.
        assert listener.proto == socket.IPPROTO_TCP


async def test_turns_are_counted_stopped_and_closed() -> None:
    turns = Turns(HeldClock())
    ended: list[str] = []

    async def run(name: str) -> None:
        try:
            async with turns.run(name, "main", f"session {name}", "test"):
                await anyio.sleep_forever()
        except Cancelled as error:
            ended.append(f"{name}: {error.message}")

    async with anyio.create_task_group() as group:
        for name in ("a", "b", "c"):
            group.start_soon(run, name)
        await anyio.wait_all_tasks_blocked()
        assert [turn.id for turn in turns.running] == ["a", "b", "c"]
        with pytest.raises(Busy):
            async with turns.run("a", "main", "s", "test"):
                pytest.fail("it runs twice")
        assert turns.cancel(lambda turn: turn.id == "z") == 0
        assert turns.cancel(lambda turn: turn.id == "a") == 1
        assert turns.cancel(lambda turn: turn.session == "session b") == 1
        await turns.close(0.01, 5)
    assert ended[0] == "a: the turn was cancelled"
    assert "the gateway is stopping" in ended[-1]
    with pytest.raises(OperatorFacing, match="stopping"):
        async with turns.run("d", "main", "s", "test"):
            pytest.fail("it runs")


async def test_a_follower_hears_what_comes_and_not_what_was() -> None:
    feed, heard = EventFeed(), list[bytes]()
    feed.put(b"before")
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: feed.follow(heard.append, past=False))
        while not feed.followers:
            await anyio.lowlevel.checkpoint()
        feed.put(b"after")
        feed.close()
    assert (heard, feed.followers) == ([b"after"], 0)


def test_pieces_blocks_and_the_rest_make_up_the_answer() -> None:
    written = Written()
    sent = [
        written.on_event(TextDelta("First")),
        written.on_event(TextDelta(" I look.")),
        written.on_event(BlockReply((Text("First I look."),))),
        written.on_event(TextDelta("Then")),
        written.finish(Reply("Then I say.", "s", "t", (Media("image/png", data=b"x", name="d]"),))),
    ]
    assert "".join(sent) == written.text
    assert written.text == ("First I look.\n\nThen I say.\n\n![d](data:image/png;base64,eA==)")


@pytest.mark.parametrize(
    ("media", "shown"),
    [
        (
            Media("text/plain", path=Path("/w/a.txt"), name="a.txt"),
            "[a.txt: text/plain at /w/a.txt]",
        ),
        (Media("audio/wav", url="https://x/y"), "[audio/wav](https://x/y)"),
        (Media("audio/wav", data=b"x"), "[audio/wav: audio/wav]"),
    ],
)
def test_other_things_are_named(media: Media, shown: str) -> None:
    written = Written()
    written.finish(Reply("", "s", "t", (media,)))
    assert written.text == shown


def test_labels_are_of_a_bounded_set_whatever_clients_send() -> None:
    metrics = Metrics()
    for number in range(100):
        metrics.request(f"M{number}", f"/api/{number}", 404, 0.1)
        metrics.request("GET", f"/{number}", 404, 0.1)
    text = metrics.render([("g", 'a "gauge"', {(("name", 'x"\n\\'),): 1.0})])
    assert text.count("openclaw_http_requests_total{") == 2
    assert 'g{name="x\\"\\n\\\\"} 1' in text
    assert text.endswith("\n")


def test_large_counts_and_times_are_not_rounded() -> None:
    metrics = Metrics()
    metrics.turn(Outcome.OK, 0.1, 12_345_678, 0)
    text = metrics.render([("started", "When.", {(): 1794978034.123})])
    assert 'openclaw_model_tokens_total{kind="input"} 12345678\n' in text
    assert "started 1794978034.123\n" in text


def test_a_unit_quotes_what_it_is_given(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": "/a dir/100%", "PATH": "/bin"}
    systemd = unit_for("systemd", environ, Path('/c "x"/$y.json'))
    assert 'Environment="OPENCLAW_STATE_DIR=/a dir/100%%"' in systemd.text
    assert '"--config" "/c \\"x\\"/$$y.json"' in systemd.text
    assert "Type=notify" in systemd.text
    launchd = unit_for("launchd", environ, Path("/a & b.json"))
    told = plistlib.loads(launchd.text.encode())
    assert told["ProgramArguments"][-1] == "/a & b.json"
    assert told["EnvironmentVariables"]["OPENCLAW_STATE_DIR"] == "/a dir/100%"
    windows = unit_for("windows", environ, Path("/a & b.json"))
    assert '"/a &amp; b.json"</Arguments>' in windows.text
    assert windows.start == ("schtasks", "/Run", "/TN", "OpenClaw gateway")


async def test_without_a_service_manager_nothing_is_said() -> None:
    notifier = Notifier({})
    notifier.ready("x")
    await notifier.keep_alive()


async def test_a_watchdog_is_told_twice_as_often_as_it_wants_and_rests_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str | float] = []

    async def pause(seconds: float) -> None:
        told.append(seconds)
        if len(told) == 4:
            raise TimeoutError

    def send(self: Notifier, message: str) -> None:
        told.append(message)

    monkeypatch.setattr("openclaw.gateway.service_files.anyio.sleep", pause)
    monkeypatch.setattr(Notifier, "_send", send)
    with pytest.raises(TimeoutError):
        await Notifier({"WATCHDOG_USEC": "3000000"}).keep_alive()
    assert told == ["WATCHDOG=1", 1.5, "WATCHDOG=1", 1.5]


def test_a_change_is_seen_and_what_needs_a_restart_is_named(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    assert not stamp(path)
    path.write_text("{}")
    before = stamp(path)
    path.write_text("{ }")
    assert stamp(path) != before
    old = Config()
    changed = {
        "gateway": GatewayConfig(port=1, shutdown_grace_ms=1, reload=GatewayReload(mode="off")),
        "sessions": SessionsConfig(lane_lease_ms=1, compact_at=0.5),
        "telemetry": TelemetryConfig(enabled=True),
        "hooks": HooksConfig(commands=(HookConfig(on="turn_end", command=("true",)),)),
    }
    restart = ["gateway.port", "gateway.shutdownGraceMs"]
    restart += ["sessions.laneLeaseMs", "telemetry.enabled"]
    assert [*waiting_changes(old, old.model_copy(update=changed))] == restart
    assert [*waiting_changes(old, old)] == []
