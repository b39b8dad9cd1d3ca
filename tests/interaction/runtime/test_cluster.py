"""Gateways' agents that share a database, in one process: who runs what, and what becomes of it."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.fake_server import server_entry
from tests.support.fake_tools import one_pixel_png
from tests.support.gateway_kit import Installation
from tests.support.postgres_server import make_store, own_server

from openclaw.agent.port import MessageContext, Reply, TurnListener
from openclaw.cluster.node import ClusterNode
from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.load import load_config
from openclaw.core.content import InboundMedia, Media, text_of
from openclaw.core.errors import Busy, Cancelled, InvalidRequest, NotFound, UserFacing
from openclaw.core.events import Event, Notice, TextDelta, ToolFinished, TurnFinished, TurnStarted
from openclaw.core.questions import Answer, Question
from openclaw.runtime.gateway_runtime import open_gateway_runtime
from openclaw.runtime.runtime import Runtime
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.postgres.store import PostgresStore
from openclaw.sessions.records import Entry, EntryKind
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

_SHOW = {"content": [{"type": "image", "mimeType": "image/png", "data": one_pixel_png()}]}
_TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}, "does": {"text": "x" * 20_000}},
    {"name": "hang", "inputSchema": {"type": "object"}, "does": {"hang": True}},
    {"name": "show", "inputSchema": {"type": "object"}, "does": {"result": _SHOW}},
]
_RULES = (
    Step(when="large", role="user", text="On it.", calls=(("mcp_kit_echo", {}),)),
    Step(when="hang", role="user", calls=(("mcp_kit_hang", {}),)),
    Step(when="paint it", role="user", calls=(("mcp_kit_show", {}),)),
    Step(when="own", role="user", calls=(("mcp_own_echo", {}),)),
    Step(when="long", role="user", text=" ".join(["word"] * 200)),
    Step(role="tool", text="Done."),
)


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model(rules=_RULES, default=Step(text="Noted.")) as model:
        yield model


@pytest.fixture
def place(tmp_path: Path, postgres_url: str, model: ScriptedModel) -> "_Place":
    return _Place(tmp_path, postgres_url, model.url)


class _Place:
    def __init__(self, directory: Path, database: str, model_url: str) -> None:
        self._directory, self._database, self._model = directory, database, model_url
        self._count = 0

    @asynccontextmanager
    async def gateway(
        self, workers: int, **settings: Any
    ) -> AsyncGenerator[tuple[Runtime, ClusterNode]]:
        self._count += 1
        state = self._directory / f"state-{self._count}"
        state.mkdir(mode=0o700)
        installation = Installation(state)
        installation.configure(
            self._model,
            {"kit": server_entry({"tools": _TOOLS})},
            sessions={"store": self._database},
            gateway={"cluster": {"workers": workers, **settings}, "shutdownGraceMs": 200},
        )
        environ = installation.environ()
        loaded = load_config(None, environ)
        async with open_gateway_runtime(loaded, environ, Redactor()) as runtime:
            assert runtime.cluster is not None
            yield runtime, runtime.cluster


def _message(text: str, key: str | None = None, **more: Any) -> MessageContext:
    return MessageContext(text, "s", idempotency_key=key, **more)


async def _execute(runtime: Runtime, sql: str) -> None:
    assert isinstance(runtime.sessions, PostgresStore)
    await runtime.sessions.database.write(lambda db: db.execute(sql))


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(60):
        while not await condition():  # noqa: ASYNC110 - what the database says
            await anyio.sleep(0.01)


async def _given(member: ClusterNode) -> bool:
    return bool(await member.queue.find("k"))


async def _entries(runtime: Runtime) -> list[Entry]:
    [info] = await runtime.sessions.find_sessions("s")
    return await runtime.sessions.entries(info.ref, limit=1000)


async def test_everything_that_happens_elsewhere_is_told_here_in_order(place: _Place) -> None:
    async with place.gateway(0) as (entry, _), place.gateway(4) as (runner, member):
        await runner.refresh("main", wait=True)
        events: list[Event] = []
        blocks: list[str] = []
        results: list[str] = []
        reply = await entry.reply(
            _message("something large please"),
            TurnListener(
                on_event=events.append,
                on_block_reply=lambda found: blocks.append(text_of(found)),
                on_tool_result=lambda name, result: results.append(f"{name} {len(result.blocks)}"),
            ),
        )
        assert reply.text == "Done."
        assert blocks == ["On it."]
        assert results == ["mcp_kit_echo 1"]
        assert isinstance(events[0], TurnStarted)
        assert isinstance(events[-1], TurnFinished)
        [finished] = [one for one in events if isinstance(one, ToolFinished)]
        assert len(text_of(finished.result.blocks)) > 20_000
        assert member.worker.taken == 1

        spoken: list[str] = []

        def on_event(event: Event) -> None:
            if isinstance(event, TextDelta):
                spoken.append(event.text)

        long = await entry.reply(_message("a long one"), TurnListener(on_event=on_event))
        assert "".join(spoken) == long.text

        shown = await entry.reply(_message("paint it"))
        assert [one.mime_type for one in shown.media] == ["image/png"]
        assert shown.media[0].data is not None


async def test_an_order_with_a_file_is_carried_to_where_it_runs(
    place: _Place, tmp_path: Path, model: ScriptedModel
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("nine hours")
    async with place.gateway(0) as (entry, _), place.gateway(4):
        media = InboundMedia(Media("text/plain", path=notes), text="nine hours")
        await entry.reply(_message("read this", media=(media,)))
        assert "nine hours" in str(model.requests[-1].body)


async def test_a_secret_that_only_the_first_gateway_knows_does_not_leave_it(
    place: _Place, model: ScriptedModel
) -> None:
    async with place.gateway(0) as (front, _), place.gateway(1):
        front.host.redactor.register("tangerine-7431")
        await front.reply(_message("Is tangerine-7431 right?"))
        entries = await _entries(front)
    assert model.requests[0].last_text == "Is [REDACTED] right?"
    assert "tangerine-7431" not in repr(entries)


async def test_the_same_key_at_two_gateways_is_one_turn(
    place: _Place, model: ScriptedModel
) -> None:
    async with place.gateway(2) as (one, _), place.gateway(2) as (two, _):
        replies: list[Reply] = []

        async def ask(runtime: Runtime) -> None:
            replies.append(await runtime.reply(_message("hello", "k")))

        async with anyio.create_task_group() as group:
            group.start_soon(ask, one)
            group.start_soon(ask, two)
        await ask(two)
        assert {reply.text for reply in replies} == {"Noted."}
        assert len(model.requests) == 1
        said = [entry for entry in await _entries(one) if entry.kind is EntryKind.USER_MESSAGE]
        assert len(said) == 1


async def test_a_client_that_goes_away_stops_its_turn_wherever_it_runs(place: _Place) -> None:
    async with place.gateway(0) as (entry, member), place.gateway(4) as (runner, other):
        began = anyio.Event()
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                await entry.reply(
                    _message("hang there", "k"), TurnListener(on_event=lambda _: began.set())
                )

            group.start_soon(ask)
            await began.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(60):
            await other.worker.until_idle()
        assert (await _entries(runner))[-1].kind is EntryKind.TURN_CANCELLED
        [(order, key)] = await member.orders_of_turn("k")
        assert (key, await member.cancel(order)) == ("s", False)
        with pytest.raises(Cancelled):
            await entry.reply(_message("hang there", "k"))


async def test_a_session_is_cancelled_with_all_that_waits_in_it(place: _Place) -> None:
    async with place.gateway(1) as (entry, member):
        errors: list[BaseException] = []

        async def ask(key: str) -> None:
            try:
                await entry.reply(_message("hang there", key))
            except UserFacing as error:
                errors.append(error)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for key in ("1", "2", "3"):
                    group.start_soon(ask, key)

                async def all_there() -> bool:
                    return len(await member.queue.unfinished_of("s", None)) == 3

                await _until(all_there)
                assert await member.cancel_session("s", "main") == 3
        assert [type(error) for error in errors] == [Cancelled] * 3


async def test_a_turn_that_kept_ending_its_gateway_is_given_up_where_its_owner_sees_it(
    place: _Place,
) -> None:
    async with place.gateway(0) as (entry, member), anyio.create_task_group() as group:
        raised: list[UserFacing] = []

        async def ask() -> None:
            try:
                await entry.reply(_message("dangerous", "k"))
            except UserFacing as error:
                raised.append(error)

        group.start_soon(ask)
        await _until(lambda: _given(member))
        await _execute(entry, "UPDATE orders SET attempts = 5")
        async with place.gateway(2) as (_, worker):
            with anyio.fail_after(60):
                while not raised:  # noqa: ASYNC110 - another task
                    await anyio.sleep(0.01)
            assert worker.worker.given_up == 1
        assert "given up: 5 gateways stopped" in str(raised[0])
        last = (await _entries(entry))[-1]
        assert last.kind is EntryKind.TURN_ERROR
        assert "given up" in last.data["detail"]


async def test_a_gateway_that_stops_hands_its_turns_to_another(place: _Place) -> None:
    async with place.gateway(0) as (entry, _), anyio.create_task_group() as group:
        replies: list[Reply] = []
        notices: list[str] = []
        began = anyio.Event()

        def on_event(event: Event) -> None:
            if isinstance(event, Notice):
                notices.append(event.message)
            if isinstance(event, TurnStarted):
                began.set()

        async def ask() -> None:
            replies.append(
                await entry.reply(_message("hang there", "k"), TurnListener(on_event=on_event))
            )

        async with place.gateway(2) as (_, first):
            group.start_soon(ask)
            await began.wait()

            async def calls() -> bool:
                return EntryKind.TOOL_CALL in [one.kind for one in await _entries(entry)]

            await _until(calls)
        assert first.worker.returned == 1
        async with place.gateway(2):
            with anyio.fail_after(60):
                while not replies:  # noqa: ASYNC110 - another task
                    await anyio.sleep(0.01)
        assert replies[0].text == "Done."
        assert any("another one continues it" in notice for notice in notices)
        kinds = [str(entry.kind) for entry in await _entries(entry)]
        assert kinds.count("user_message") == kinds.count("tool_result") == 1


async def test_a_turn_that_can_ask_its_person_runs_where_the_person_is(place: _Place) -> None:
    async with place.gateway(2) as (entry, here), place.gateway(8) as (_, elsewhere):

        async def ask(request: Question) -> Answer:
            return Answer("once")

        for number in range(3):
            await entry.reply(_message(f"hello {number}"), TurnListener(ask=ask))
        assert (here.worker.taken, elsewhere.worker.taken) == (3, 0)


async def test_a_sessions_own_servers_keep_it_at_their_gateway_and_their_end_is_told(
    place: _Place,
) -> None:
    async with place.gateway(2) as (other, _):
        async with place.gateway(2) as (home, member):
            config = McpServerConfig.model_validate(server_entry({"tools": _TOOLS}))
            home.manager.add("own", config, session="s", agent="main")
            reply = await home.reply(_message("my own please"))
            assert reply.text == "Done."
            again = await other.reply(_message("my own please"))
            assert again.text == "Done."
            assert member.worker.taken == 2
            rows = await member.gateways()
            assert [row["this"] for row in rows] == [False, True]
            assert {s["name"]: s["sessions"] for s in rows[1]["servers"]}["own"] == ["s"]
            dead = "INSERT INTO session_homes SELECT id, 'dead', '{own}' FROM sessions"
            dead += " ON CONFLICT (session) DO UPDATE SET gateway = 'dead'"
            await _execute(home, dead)
            events: list[Event] = []
            await other.reply(_message("hello"), TurnListener(on_event=events.append))
        [notice] = [one.message for one in events if isinstance(one, Notice)]
        assert notice == "the gateway of this session is gone: MCP servers own were lost with it"


async def test_too_much_at_once_and_what_cannot_be_sent_are_refused(place: _Place) -> None:
    async with place.gateway(0, maxWaitingPerSession=1) as (entry, member):
        async with anyio.create_task_group() as group:
            group.start_soon(entry.reply, _message("hello", "k"))
            await _until(lambda: _given(member))
            with pytest.raises(Busy, match="try again in 5 s"):
                await entry.reply(_message("hello", "l"))
            group.cancel_scope.cancel()
        with pytest.raises(InvalidRequest):
            await entry.reply(_message("\ud800"))
        with pytest.raises(NotFound):
            await entry.reply(_message("hello", agent_id="nobody"))
        assert await member.orders_of_turn("unknown") == []


async def test_a_turn_that_ended_can_still_be_watched_from_any_number_on(place: _Place) -> None:
    async with place.gateway(0) as (entry, _), place.gateway(2) as (_, member):
        await entry.reply(_message("large", "k"), TurnListener(on_event=lambda _: None))
        [(order, _)] = await member.orders_of_turn("k")
        whole = [event async for event in member.watch_order(order)]
        names = [name for _, name, _ in whole]
        assert names[0] == "turn_started"
        assert names[-1] == "reply"
        assert whole[-1][2]["text"] == "Done."
        rest = [event async for event in member.watch_order(order, after=whole[2][0])]
        assert [name for _, name, _ in rest] == names[3:]
        figures = {name: values[()] for name, _, values in member.figures()}
        assert figures["turns_taken_total"] == 1
        assert figures["database_up"] == 1


async def test_a_gateway_ends_without_a_database_that_would_hear_of_it(
    tmp_path: Path, model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    with own_server() as server:
        url = server.facts.url()
        await anyio.to_thread.run_sync(make_store, url)
        async with _Place(tmp_path, url, model.url).gateway(2) as (runtime, _):
            assert isinstance(runtime.sessions, PostgresStore)
            runtime.sessions.database._patience = 600.0
            await anyio.to_thread.run_sync(server.stop, "immediate")
            began = anyio.current_time()
        assert anyio.current_time() - began < 120, "it tried to connect for as long as ever"
    assert "the other gateways could not be told" in caplog.text
