"""Following what changes at a server."""

from collections.abc import Mapping
from typing import Any, cast

import anyio
import pytest

from openclaw.mcp.negotiation import Handshake
from openclaw.mcp.revisions import REVISIONS
from openclaw.mcp_client.errors import CallFailed, Interrupted, RemoteError, TimedOut
from openclaw.mcp_client.session import notifications
from openclaw.mcp_client.session.notifications import ChangeSubscription


class _Session:
    """A server with resources; `refuses` names the one that it never tells of."""

    handshake_result = Handshake(REVISIONS["2025-11-25"], {"resources": {"subscribe": True}})

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.asked: list[tuple[str, str]] = []
        self.changed = anyio.Event()

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None
    ) -> dict[str, Any]:
        self.asked.append((method, params["uri"]))
        self.changed.set()
        self.changed = anyio.Event()
        if params["uri"] == self.refuses:
            raise RemoteError(-32602, "no")
        return {}

    async def until(self, *asked: tuple[str, str]) -> None:
        while set(self.asked) != set(asked):
            await self.changed.wait()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(notifications, "COALESCE", 0.0)


async def test_a_refresh_that_failed_is_tried_again() -> None:
    tries: list[str] = []
    learnt = anyio.Event()

    async def refresh(_: Any, kind: str) -> bool:
        tries.append(kind)
        if len(tries) == 1:
            raise TimedOut(1.0)
        if len(tries) == 3:
            learnt.set()
        return len(tries) == 3

    following = ChangeSubscription(refresh, lambda uri: None)
    following.list_changed("tools")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(following.run, cast("Any", _Session()))
            await learnt.wait()
            group.cancel_scope.cancel()
    assert tries == ["tools"] * 3


async def test_a_catalogue_is_asked_for_again_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notifications, "MIN_TTL", 0.0)
    refreshed = anyio.Event()

    async def refresh(_: Any, kind: str) -> bool:
        assert kind == "prompts"
        refreshed.set()
        return True

    following = ChangeSubscription(refresh, lambda uri: None)
    following.stale_after("prompts", 0.01)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(following.run, cast("Any", _Session()))
            await refreshed.wait()
            group.cancel_scope.cancel()


class _Listening(_Session):
    """A server of 2026-07-28 that refuses to tell of resources, or breaks off at first."""

    handshake_result = Handshake(
        REVISIONS["2026-07-28"], {"tools": {"listChanged": True}, "resources": {}}
    )

    def __init__(self, first: CallFailed) -> None:
        super().__init__()
        self.caller = self
        self.first: CallFailed | None = first
        self.listened: list[Any] = []

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.listened.append(params["notifications"])
        self.changed.set()
        self.changed = anyio.Event()
        if self.first is not None:
            failure, self.first = self.first, None
            raise failure
        await anyio.sleep_forever()
        return {}


@pytest.mark.parametrize(
    ("failure", "second"),
    [
        (RemoteError(-32602, "no such resource"), {"toolsListChanged": True}),
        (Interrupted("it broke off"), {"toolsListChanged": True, "resourceSubscriptions": ["a:1"]}),
    ],
)
async def test_a_refused_or_broken_subscription_is_made_again(
    failure: CallFailed, second: dict[str, Any]
) -> None:
    refreshed: set[str] = set()
    listed_again = anyio.Event()

    async def refresh(_: Any, kind: str) -> bool:
        refreshed.add(kind)
        if refreshed == {"tools", "resources", "prompts"}:
            listed_again.set()
        return True

    link = _Listening(failure)
    following = ChangeSubscription(refresh, lambda uri: None)
    following.want_updates(["a:1"])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(following.run, cast("Any", link))
            await listed_again.wait()
            while len(link.listened) < 2:
                await link.changed.wait()
            group.cancel_scope.cancel()
    assert link.listened[1] == second


async def test_one_refused_subscription_leaves_the_others_and_unwanted_ones_end() -> None:
    async def refresh(_: Any, kind: str) -> bool:
        return True

    link = _Session(refuses="a:1")
    following = ChangeSubscription(refresh, lambda uri: None)
    following.want_updates(["a:1", "b:2"])
    first = {("resources/subscribe", "a:1"), ("resources/subscribe", "b:2")}
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(following.run, cast("Any", link))
            await link.until(*first)
            following.want_updates(["a:1"])
            await link.until(*first, ("resources/unsubscribe", "b:2"))
            group.cancel_scope.cancel()
