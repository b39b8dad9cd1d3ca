"""Holders of tokens who want what belongs to another token or to the user."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.interaction.gateway.test_detached import begin
from tests.support.gateway_kit import Installation
from tests.support.task_client import HttpTaskClient, RpcError

from openclaw.core.clock import SystemClock
from openclaw.gateway import owners
from openclaw.gateway.http_server import Endpoint, endpoints_of_gateway
from openclaw.gateway.tokens import TokenFile
from openclaw.testing.scripted_model import Step, scripted_model

SECRET = "4711"
TURN = "the-same-key"  # which every client chooses for its turn
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}
RULES = [
    Step(when="Hang", hang=True),
    Step(when="Rain?", calls=(("weather", {}),)),
    Step(text="Heard it."),
]
# Routes for orders that reach nothing of a session.
REACH_NOTHING = {"/v1/models", "/v1/models/{model:path}", "/api/completions"}


@dataclass(frozen=True, slots=True)
class Belongings:
    """What one client has at the gateway."""

    session: str
    response: str
    call: str
    task: str


def client(url: str, token: str) -> httpx2.AsyncClient:
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.AsyncClient(base_url=url, headers=headers, timeout=90, trust_env=False)


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


async def settle(http: httpx2.AsyncClient) -> Belongings:
    """Have a conversation with a secret, a turn and a task that run, and a call that waits."""
    key = {"x-openclaw-session-key": "main"}
    body = {"model": "openclaw", "input": f"The PIN is {SECRET}."}
    response = (await http.post("/v1/responses", json=body, headers=key)).json()
    first = {"text": "hello", "sessionKey": "main", "stream": False}
    session = (await http.post("/api/messages", json=first)).json()["sessionKey"]
    await begin(http, "busy", "turn_started", text="Hang", idempotencyKey=TURN)
    chat = {"model": "openclaw", "messages": said(f"Rain? {SECRET}"), "tools": [WEATHER]}
    answer = (await http.post("/v1/chat/completions", json=chat)).json()
    call = answer["choices"][0]["message"]["tool_calls"][0]["id"]
    task = await HttpTaskClient(http).order(f"Hang {SECRET}")
    return Belongings(session, response["id"], call, task["taskId"])


Attempt = Callable[[httpx2.AsyncClient, Belongings], Awaitable[Any]]


async def _message(http: httpx2.AsyncClient, theirs: Belongings) -> None:
    for key in (theirs.session, "main"):
        await http.post("/api/messages", json={"text": "and?", "sessionKey": key, "stream": False})


async def _chat(http: httpx2.AsyncClient, theirs: Belongings) -> None:
    body = {"model": "openclaw", "tools": [WEATHER], "messages": said("and?")}
    headers = {"x-openclaw-session-key": theirs.session}
    await http.post("/v1/chat/completions", json=body, headers=headers)
    function = {"name": "weather", "arguments": "{}"}
    called = {"id": theirs.call, "type": "function", "function": function}
    messages = [
        *said("Rain?"),
        {"role": "assistant", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": theirs.call, "content": "heavy"},
    ]
    answer = await http.post("/v1/chat/completions", json={**body, "messages": messages})
    assert answer.status_code == 400


async def _responses(http: httpx2.AsyncClient, theirs: Belongings) -> None:
    body = {"model": "openclaw", "input": "and?", "previous_response_id": theirs.response}
    assert (await http.post("/v1/responses", json=body)).status_code == 404
    result = {"type": "function_call_output", "call_id": theirs.call, "output": "heavy"}
    answer = await http.post("/v1/responses", json={"model": "openclaw", "input": [result]})
    assert answer.status_code == 400


async def _cancel_turn(http: httpx2.AsyncClient, theirs: Belongings) -> None:
    # The caller's own turn has the same id, and is not the one that this test is about.
    await http.post(f"/api/turns/{TURN}/cancel")


async def _watch(http: httpx2.AsyncClient, theirs: Belongings) -> None:
    assert (await http.get(f"/api/turns/{TURN}/events")).status_code == 404


async def _cancel_session(http: httpx2.AsyncClient, theirs: Belongings) -> None:
    for key in (theirs.session, theirs.session.replace("main", "busy"), "busy"):
        answer = await http.post(f"/api/sessions/{key}/cancel")
        assert answer.json() == {"cancelled": 0}


async def _undo(http: httpx2.AsyncClient, theirs: Belongings) -> None:
    answer = await http.post(f"/api/sessions/{theirs.session}/undo")
    assert answer.status_code == 404 or answer.json()["sessionKey"].startswith("token-mallory:")


async def _cancel_task(http: httpx2.AsyncClient, theirs: Belongings) -> None:
    assert (await http.post(f"/api/tasks/{theirs.task}/cancel")).status_code == 404


async def _response(http: httpx2.AsyncClient, theirs: Belongings) -> None:
    assert (await http.get(f"/v1/responses/{theirs.response}")).status_code == 404


async def _mcp(http: httpx2.AsyncClient, theirs: Belongings) -> None:
    tasks = HttpTaskClient(http)
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        with pytest.raises(RpcError):
            await tasks.request(method, taskId=theirs.task, inputResponses={})
    await tasks.order("and?", arguments={"sessionKey": theirs.session})


ATTEMPTS: Mapping[tuple[str, str], Attempt] = {
    ("POST", "/api/messages"): _message,
    ("POST", "/api/sessions/{key:path}/cancel"): _cancel_session,
    ("POST", "/api/sessions/{key:path}/undo"): _undo,
    ("POST", "/api/tasks/{id}/cancel"): _cancel_task,
    ("GET", "/api/turns/{turn}/events"): _watch,
    ("POST", "/api/turns/{turn}/cancel"): _cancel_turn,
    ("POST", "/v1/chat/completions"): _chat,
    ("POST", "/v1/responses"): _responses,
    ("GET", "/v1/responses/{response}"): _response,
    ("", "/mcp"): _mcp,
}


def for_orders() -> list[Endpoint]:
    return [one for one in endpoints_of_gateway() if one.needs == "orders"]


def test_every_route_says_what_it_reaches_and_every_route_for_orders_is_attacked() -> None:
    rules = {one for one in vars(owners).values() if isinstance(one, owners.Reach)}
    for one in endpoints_of_gateway():
        assert one.reach in rules, one.path
        if one.needs is None:
            assert one.reach is owners.NOTHING, one.path
        if one.reach is owners.ALL:
            assert one.needs in ("read", "admin"), one.path
    reaching = {(one.methods, one.path) for one in for_orders() if one.path not in REACH_NOTHING}
    assert reaching == ATTEMPTS.keys()
    assert {one.path for one in for_orders() if one.reach is owners.NOTHING} == REACH_NOTHING


@asynccontextmanager
async def three_clients(
    state: Path, model: str, scopes: Mapping[str, list[str]]
) -> AsyncGenerator[dict[str, httpx2.AsyncClient]]:
    """The user's own client and those of these tokens, at one gateway."""
    state.mkdir(mode=0o700)
    installation = Installation(state)
    installation.configure(model, mcpServer={"taskAfterMs": 1})
    async with installation.here() as info:
        file = TokenFile(state, SystemClock())
        tokens = {name: file.add(name, scope).reveal() for name, scope in scopes.items()}
        async with AsyncExitStack() as stack:
            yield {
                name: await stack.enter_async_context(client(info.url, token))
                for name, token in {"user": installation.token, **tokens}.items()
            }


@pytest.mark.parametrize("scopes", [["orders"], ["orders", "read"]])
async def test_no_token_gets_at_what_is_anothers(tmp_path: Path, scopes: list[str]) -> None:
    narrow = scopes == ["orders"]
    tokens = {"mallory": scopes, "alice": ["orders"]}
    async with (
        scripted_model(rules=RULES) as model,
        three_clients(tmp_path / "state", model.url, tokens) as clients,
    ):
        mallory, user = clients["mallory"], clients["user"]
        victims = {
            name: await settle(clients[name])
            for name in (("alice", "user") if narrow else ("alice",))
        }
        sizes = await _sizes(user, victims)
        for theirs in victims.values():
            for route, attempt in ATTEMPTS.items():
                # A token that may read may also watch; it may not act on what is another token's.
                if narrow or route[0] != "GET":
                    await attempt(mallory, theirs)
        bodies = [str(request.body) for request in model.requests]
        assert not [one for one in bodies if SECRET in one and ("and?" in one or "heavy" in one)]
        assert await _sizes(user, victims) == sizes
        turns = (await user.get("/api/turns")).json()["turns"]
        held = [one["sessionKey"] for one in turns if one["turn"] == TURN]
        assert len(held) == len(victims)
        for name, theirs in victims.items():
            task = await HttpTaskClient(clients[name]).get(theirs.task)
            assert task["status"] == "working"
            assert (await clients[name].get(f"/v1/responses/{theirs.response}")).status_code == 200
        for endpoint in endpoints_of_gateway() if narrow else ():
            if endpoint.needs in ("read", "admin"):
                path = endpoint.path.replace(":path", "")
                answer = await mallory.request(endpoint.methods, path, json={})
                assert answer.status_code == 403, path


@pytest.mark.parametrize("scope", ["orders", "read", "tools"])
async def test_a_scope_opens_no_route_of_another(tmp_path: Path, scope: str) -> None:
    async with (
        scripted_model(rules=RULES) as model,
        three_clients(tmp_path / "state", model.url, {"mallory": [scope]}) as clients,
    ):
        for endpoint in endpoints_of_gateway():
            if endpoint.needs in (None, scope):
                continue
            for method in endpoint.methods.split() or ("GET", "POST", "DELETE"):
                path = endpoint.path.replace(":path", "")
                answer = await clients["mallory"].request(method, path, json={})
                assert answer.status_code == 403, (method, path)
    assert not model.requests


async def _sizes(user: httpx2.AsyncClient, victims: Mapping[str, Belongings]) -> list[int]:
    infos = [await user.get(f"/api/sessions/{one.session}") for one in victims.values()]
    return [info.json()["session"]["entries"] for info in infos]


async def test_a_token_reaches_all_that_is_its_own_and_the_user_reaches_everything(
    tmp_path: Path,
) -> None:
    async with (
        scripted_model(rules=RULES) as model,
        three_clients(tmp_path / "state", model.url, {"alice": ["orders"]}) as clients,
    ):
        alice, user = clients["alice"], clients["user"]
        own = await settle(alice)
        assert own.session == "token-alice:main"
        asks = f"/api/turns/{TURN}/events?questions=true"
        assert (await alice.get(asks)).status_code == 403
        for http in (alice, user):
            assert (await http.get(f"/v1/responses/{own.response}")).status_code == 200
        body = {"model": "openclaw", "input": "and?", "previous_response_id": own.response}
        assert (await alice.post("/v1/responses", json=body)).status_code == 200
        assert SECRET in str(model.requests[-1].body)
        assert (await alice.post(f"/api/tasks/{own.task}/cancel")).json() == {"cancelled": True}
        assert (await user.post(f"/api/turns/{TURN}/cancel")).json() == {"cancelled": 1}


async def test_a_file_of_another_order_is_not_sent_along(tmp_path: Path) -> None:
    async with (
        scripted_model(rules=RULES) as model,
        three_clients(tmp_path / "state", model.url, {"alice": ["orders"]}) as clients,
    ):
        file = tmp_path / "state" / "tmp" / "theirs.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(SECRET)
        media = {"mimeType": "text/plain", "path": str(file)}
        order = {"text": "read it", "media": media, "stream": False}
        refused = await clients["alice"].post("/api/messages", json=order)
    assert refused.status_code == 403
    assert not model.requests


async def test_a_tokens_agent_reads_no_session_of_others_whatever_the_settings_say(
    tmp_path: Path,
) -> None:
    calls = (("sessions_list", "{}"), ("session_history", {"key": "main"}))
    reads = Step(when="Read.", role="user", calls=calls)
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    installation = Installation(state)
    async with scripted_model(rules=(reads, Step(text="Heard it."))) as model:
        installation.configure(
            model.url, agents={"list": [{"id": "main", "readableSessions": ["*"]}]}
        )
        async with installation.here() as info, client(info.url, installation.token) as user:
            token = TokenFile(state, SystemClock()).add("alice", ["orders"]).reveal()
            secret = {"text": f"The PIN is {SECRET}.", "sessionKey": "main", "stream": False}
            await user.post("/api/messages", json=secret)
            async with client(info.url, token) as alice:
                await alice.post("/api/messages", json={"text": "Read.", "stream": False})
            before = len(model.requests)
            await user.post("/api/messages", json={"text": "Read.", "stream": False})
    assert SECRET in str(model.requests[-1].body)
    assert SECRET not in str([request.body for request in model.requests[1:before]])
