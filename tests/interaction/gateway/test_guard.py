"""Who is let in, from where, how much and how often."""

import base64
import json
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.interaction.gateway.conftest import Open, chat
from tests.support.connection_bench import until
from tests.support.gateway_kit import Installation
from tests.support.loop_time import pass_time
from tests.support.pictures import tiny_image

from openclaw.core.clock import SystemClock
from openclaw.core.errors import OperatorFacing
from openclaw.gateway.auth import MOST_LISTENERS, MOST_WATCHERS
from openclaw.gateway.event_streams import QUIET_SECONDS
from openclaw.gateway.tokens import TokenFile
from openclaw.testing.scripted_model import Step, scripted_model

PICTURE = base64.b64encode(tiny_image() + bytes(8_000_000)).decode()
TOKEN = "the-configured-token-0123456789"
WITH_TOKEN = {"gateway": {"auth": {"token": "secret://env/GATEWAY_TOKEN"}}}


async def test_a_configured_token_is_needed_and_the_local_one_does_as_well(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9", **WITH_TOKEN)
    async with opened(GATEWAY_TOKEN=TOKEN) as client:
        local = await client.get("/api/agents")
        given = await client.get("/api/agents", headers={"authorization": f"Bearer {TOKEN}"})
        answers = [
            await client.get(path, headers={"authorization": header})
            for path in ("/api/agents", "/v1/models", "/metrics")
            for header in ("", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x")
        ]
        monitor = await client.get("/health", headers={"authorization": ""})
    assert (local.status_code, given.status_code, monitor.status_code) == (200, 200, 200)
    assert {answer.status_code for answer in answers} == {401}
    assert answers[0].headers["www-authenticate"].startswith("Bearer")


async def test_nobody_is_let_in_for_being_on_the_same_machine(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9")
    asked = [
        ("GET", "/v1/models"),
        ("GET", "/api/sessions"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/api/messages"),
        ("POST", "/api/questions/1"),
        ("POST", "/api/servers/x/pins"),
        ("POST", "/api/reload"),
        ("POST", "/api/login/links"),
    ]
    async with opened() as client:
        for header in ("", "Bearer unused"):
            answers = [
                await client.request(method, path, json={}, headers={"authorization": header})
                for method, path in asked
            ]
            assert {answer.status_code for answer in answers} == {401}


async def test_a_token_for_orders_answers_no_question_and_reads_no_conversation(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        value = TokenFile(installation.state, SystemClock()).add("laptop", ["orders"]).reveal()
        headers = {"authorization": f"Bearer {value}"}

        async def status(method: str, path: str, **body: Any) -> int:
            return (await client.request(method, path, json=body, headers=headers)).status_code

        assert await status("GET", "/v1/models") == 200
        refused = [
            await status("GET", "/api/sessions"),
            await status("GET", "/api/logs"),
            await status("POST", "/api/questions/1", action="accept"),
            await status("POST", "/api/servers/x/pins"),
            await status("POST", "/api/reload"),
            await status("POST", "/api/login/links"),
            await status("POST", "/api/messages", text="x", questions=True),
        ]
    assert set(refused) == {403}


async def test_a_one_time_link_logs_in_one_browser_once(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        link = (await client.post("/api/login/links", json={})).json()["url"]
        code = link.partition("#login=")[2]
        stranger = {"authorization": ""}
        wrong = await client.post("/api/login", json={"code": "guess"}, headers=stranger)
        first = await client.post("/api/login", json={"code": code}, headers=stranger)
        second = await client.post("/api/login", json={"code": code}, headers=stranger)
        page = {"authorization": f"Bearer {first.json()['token']}"}
        seen = await client.get("/api/agents", headers=page)
    assert [one.status_code for one in (wrong, first, second, seen)] == [401, 200, 401, 200]


async def test_pages_of_an_allowed_origin_may_call_and_read_the_answer(
    installation: Installation, opened: Open
) -> None:
    allowed = "https://chat.example"
    installation.configure("http://127.0.0.1:9", gateway={"allowedOrigins": [allowed]})
    async with opened() as client:

        async def preflight(origin: str) -> httpx2.Response:
            asked = {"access-control-request-method": "POST", "authorization": ""}
            return await client.options("/v1/chat/completions", headers={"origin": origin, **asked})

        ours, theirs = await preflight(allowed), await preflight("https://evil.example")
        answer = await client.get("/v1/models", headers={"origin": allowed})
        unasked = await client.get("/v1/models", headers={"origin": allowed, "authorization": ""})
    assert (ours.status_code, theirs.status_code) == (204, 403)
    assert ours.headers["access-control-allow-origin"] == allowed
    assert "authorization" in ours.headers["access-control-allow-headers"]
    assert "access-control-allow-origin" not in theirs.headers
    assert answer.headers["access-control-allow-origin"] == allowed
    assert unasked.status_code == 401
    assert unasked.headers["access-control-allow-origin"] == allowed


@pytest.mark.parametrize(
    "more",
    [
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"host: evil.example\r\ncontent-length: 2\r\n\r\n{}",
        b"authorization: Bearer a\r\nauthorization: Bearer b\r\ncontent-length: 2\r\n\r\n{}",
    ],
    ids=["two lengths", "two hosts", "two tokens"],
)
async def test_a_request_that_says_one_thing_in_two_ways_is_refused(
    installation: Installation, opened: Open, more: bytes
) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        port = client.base_url.port
        assert port is not None
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"POST /api/reload HTTP/1.1\r\nhost: localhost\r\n" + more)
            with anyio.fail_after(60):
                assert (await stream.receive()).startswith(b"HTTP/1.1 400")


async def test_a_client_that_leaves_in_the_middle_of_its_request_is_no_failure(
    installation: Installation, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        port = client.base_url.port
        assert port is not None
        head = f"POST /api/reload HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {installation.token}\r\ncontent-length: 50\r\n\r\n{{"
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(head.encode())
        assert (await client.get("/health")).status_code == 200
    assert not [one for one in caplog.records if one.exc_info]


async def test_without_a_token_nothing_but_loopback_is_bound(installation: Installation) -> None:
    installation.configure("http://127.0.0.1:9", gateway={"bind": "lan"})
    with pytest.raises(ExceptionGroup) as caught:
        async with installation.here():
            pytest.fail("it was bound")
    [error] = caught.value.exceptions
    assert isinstance(error, OperatorFacing)
    assert (
        "without a token for other machines the gateway only listens on loopback" in error.message
    )


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:80"}, 421),
        ({"host": "192.168.1.5"}, 421),
        ({"host": "allowed.example"}, 200),
        ({"host": "localhost:1"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
        ({"host": "localhost:80@evil.com"}, 421),
        ({"origin": "https://friend.example"}, 200),
        ({"host": "localhost:7", "origin": "http://localhost:7"}, 200),
        ({"host": "localhost:7", "origin": "http://localhost:8"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ],
)
async def test_a_page_of_another_site_and_a_rebound_name_are_turned_away(
    installation: Installation, opened: Open, headers: dict[str, str], status: int
) -> None:
    installation.configure(
        "http://127.0.0.1:9",
        gateway={
            "allowedHosts": ["allowed.example"],
            "allowedOrigins": ["https://friend.example"],
        },
    )
    async with opened() as client:
        answer = await client.get("/health", headers=headers)
    assert answer.status_code == status


async def test_a_form_cannot_give_orders(installation: Installation, opened: Open) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        answer = await client.post(
            "/api/messages", content=b'{"text":"x"}', headers={"content-type": "text/plain"}
        )
    assert answer.status_code == 400
    assert "application/json" in answer.json()["error"]["message"]


async def test_a_request_that_is_too_large_is_refused_declared_or_not(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9", gateway={"limits": {"maxRequestBytes": 1000}})
    large = b'{"text": "' + b"x" * 2000 + b'"}'

    async def pieces():
        yield large[:500]
        yield large[500:]

    async with opened() as client:
        json = {"content-type": "application/json"}
        declared = await client.post("/api/messages", content=large, headers=json)
        chunked = await client.post("/api/messages", content=pieces(), headers=json)
    assert declared.status_code == 413
    assert chunked.status_code == 413


async def test_an_address_that_asks_too_often_is_told_when_to_come_back(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9", gateway={"limits": {"requestsPerMinute": 20}})
    async with opened() as client:
        answers = [await client.get("/api/agents") for _ in range(4)]
        monitor = await client.get("/health")
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert monitor.status_code == 200


async def test_no_more_requests_are_served_at_once_than_configured(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(hang=True)) as model:
        installation.configure(model.url, gateway={"limits": {"maxConcurrent": 1}})
        async with opened() as client, anyio.create_task_group() as group:
            group.start_soon(_order, client)
            with anyio.fail_after(60):
                while not model.requests:  # noqa: ASYNC110 (the model keeps no event of ours)
                    await anyio.sleep(0.01)
            assert (await client.get("/api/agents")).status_code == 503
            group.cancel_scope.cancel()


async def test_those_who_listen_to_events_have_a_bound_of_their_own(
    installation: Installation, opened: Open
) -> None:
    limits = {"maxConcurrent": 1, "requestsPerMinute": 100_000}
    installation.configure("http://127.0.0.1:9", gateway={"limits": limits})
    async with opened() as client, AsyncExitStack() as stack:
        for _ in range(MOST_LISTENERS):
            answer = await stack.enter_async_context(client.stream("GET", "/api/events"))
            assert answer.status_code == 200
        assert (await client.get("/api/events")).status_code == 503
        assert (await client.get("/api/agents")).status_code == 200
        await stack.aclose()
        with anyio.fail_after(60):
            while True:  # until the gateway has noticed that they left
                async with client.stream("GET", "/api/events") as answer:
                    if answer.status_code == 200:
                        break
                await anyio.sleep(0.01)


async def test_those_who_watch_turns_keep_nobody_from_giving_orders(
    installation: Installation, opened: Open
) -> None:
    limits = {"maxConcurrent": 1, "requestsPerMinute": 100_000}
    async with scripted_model(default=Step(hang=True)) as model:
        installation.configure(model.url, gateway={"limits": limits, "shutdownGraceMs": 100})
        async with opened() as client, AsyncExitStack() as stack:
            body = {"text": "x", "detached": True, "idempotencyKey": "t"}
            async with client.stream("POST", "/api/messages", json=body) as answer:
                await anext(answer.aiter_lines())
            port = client.base_url.port
            assert port is not None
            ask = f"GET /api/turns/t/events HTTP/1.1\r\nhost: localhost\r\nauthorization: {client.headers['authorization']}\r\n\r\n"
            heads: list[bytes] = []
            for _ in range(MOST_WATCHERS + 1):
                stream = await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
                await stream.send(ask.encode())
                heads.append((await stream.receive())[:12])
            while (await client.get("/api/agents")).status_code != 200:
                await anyio.wait_all_tasks_blocked()
                pass_time(QUIET_SECONDS)  # then the gateway notices that the first one left
    assert heads == [b"HTTP/1.1 200"] * MOST_WATCHERS + [b"HTTP/1.1 503"]


async def _order(client: httpx2.AsyncClient) -> None:
    await client.post("/v1/chat/completions", json=chat("x"))


async def test_a_client_that_sends_its_request_too_slowly_is_cut(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9", gateway={"limits": {"clientTimeoutMs": 200}})
    async with opened() as client:
        port = client.base_url.port
        assert port is not None
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(
                f"POST /api/messages HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {installation.token}\r\n".encode()
                + b"content-type: application/json\r\ncontent-length: 50\r\n\r\n{"
            )
            with anyio.fail_after(60):
                answer = await stream.receive()
    assert answer.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("earlier", [0, 1])
async def test_the_head_of_a_request_has_as_long_as_is_configured(
    installation: Installation, opened: Open, earlier: int
) -> None:
    installation.configure("http://127.0.0.1:9", gateway={"limits": {"clientTimeoutMs": 60_000}})
    async with opened() as client:
        port = client.base_url.port
        assert port is not None
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            for _ in range(earlier):
                await stream.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert (await stream.receive()).startswith(b"HTTP/1.1 200")
            await stream.send(b"GET /health HTTP/1.1\r\nhost: local")
            await anyio.wait_all_tasks_blocked()
            pass_time(60)
            with anyio.fail_after(60), pytest.raises(anyio.EndOfStream):
                await stream.receive()


async def test_a_slow_head_is_waited_for_within_what_is_configured(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9", gateway={"limits": {"clientTimeoutMs": 60_000}})
    async with opened() as client:
        port = client.base_url.port
        assert port is not None
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"GET /health HTTP/1.1\r\nhost: local")
            await anyio.wait_all_tasks_blocked()
            pass_time(50)  # longer than any bound but the configured one
            await anyio.wait_all_tasks_blocked()
            await stream.send(b"host\r\n\r\n")
            with anyio.fail_after(60):
                assert (await stream.receive()).startswith(b"HTTP/1.1 200")


async def test_a_client_that_does_not_read_is_cut_and_its_turn_stopped(
    installation: Installation, opened: Open, tmp_path: Path
) -> None:
    picture = {"type": "image", "mimeType": "image/png", "data": PICTURE}
    tool = {"name": "draw", "inputSchema": {"type": "object"}}
    spec = tmp_path / "server.json"
    spec.write_text(json.dumps({"tools": [{**tool, "does": {"result": {"content": [picture]}}}]}))
    server = {
        "command": sys.executable,
        "args": ["-m", "tests.support.fake_server", f"@{spec}"],
    }
    steps = [Step(calls=(("mcp_art_draw", {}),)), Step(hang=True)]
    async with scripted_model(steps) as model:
        installation.configure(
            model.url, {"art": server}, gateway={"limits": {"clientTimeoutMs": 20_000}}
        )
        async with opened() as client:
            port = client.base_url.port
            assert port is not None
            body = b'{"text":"x","sessionKey":"k"}'
            with socket.socket() as deaf:
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                deaf.connect(("127.0.0.1", port))
                deaf.sendall(
                    f"POST /api/messages HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {installation.token}\r\n".encode()
                    + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
                    + body
                )
                await until(lambda: len(model.requests) == 2)  # the picture is on its way
                while (await client.get("/api/turns")).json()["turns"]:
                    await anyio.wait_all_tasks_blocked()
                    pass_time(15)
            entries = (await client.get("/api/sessions/k")).json()["entries"]
    assert entries[-1]["kind"] == "turn_cancelled"


async def test_no_answer_says_more_than_it_must(installation: Installation, opened: Open) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        answer = await client.get("/nothing/here")
        page = await client.get("/")
        beyond = await client.get("/", headers={"range": "bytes=99999999-"})
    assert answer.status_code == 404
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "server" not in answer.headers
    if page.status_code == 200:
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert beyond.status_code == 416
        assert beyond.headers["content-security-policy"] == page.headers["content-security-policy"]
