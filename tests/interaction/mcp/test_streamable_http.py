"""Streamable HTTP: sessions, streams that can be resumed, and what is refused before it is read."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import httpx2
import pytest
from tests.support.conformance_server import suite_listening
from tests.support.plain_mcp_client import ACCEPT, Json

from openclaw.mcp import http, names
from openclaw.mcp.http_server import header
from openclaw.mcp.sse import EventDecoder, ServerSentEvent

LATEST = "2025-11-25"


@pytest.fixture
async def address() -> AsyncGenerator[str]:
    async with suite_listening() as url:
        yield url


@pytest.fixture
async def web(address: str) -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(
        base_url=address, headers=ACCEPT, trust_env=False, timeout=60
    ) as client:
        yield client


def ask(id: Any, method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id: Any, tool: str, **more: Any) -> Json:
    return ask(id, names.TOOLS_CALL, name=tool, arguments={}, **more)


def hello(revision: str = LATEST) -> Json:
    client = {"name": "t", "version": "1"}
    return ask(
        "hello", names.INITIALIZE, protocolVersion=revision, capabilities={}, clientInfo=client
    )


async def begin(web: httpx2.AsyncClient, revision: str = LATEST) -> str:
    """The id of a new session, which all further requests name."""
    begun = await web.post("", json=hello(revision))
    assert begun.status_code == 200
    web.headers[http.SESSION_HEADER] = begun.headers[http.SESSION_HEADER]
    ready = await web.post("", json={"jsonrpc": "2.0", "method": names.INITIALIZED})
    assert (ready.status_code, ready.content) == (202, b"")
    return begun.headers[http.SESSION_HEADER]


async def events(answer: httpx2.Response, most: int = 1000) -> list[ServerSentEvent]:
    """What a stream carries until it ends, or until there are so many."""
    decoder, found = EventDecoder(), list[ServerSentEvent]()
    async for chunk in answer.aiter_bytes():
        found += decoder.feed(chunk)
        if len(found) >= most:
            break
    return found


async def test_an_answer_that_is_there_at_once_is_json_and_others_are_streams(
    web: httpx2.AsyncClient,
) -> None:
    await begin(web)
    at_once = await web.post("", json=call(1, "test_simple_text"))
    assert at_once.headers["content-type"] == http.JSON
    reported = call(2, "test_tool_with_progress", _meta={"progressToken": 1})
    async with web.stream("POST", "", json=reported) as answer:
        assert answer.headers["content-type"] == http.EVENT_STREAM
        primer, *progress, result = await events(answer)
    assert primer.data == b""
    assert [json.loads(one.data)["method"] for one in progress] == [names.PROGRESS] * 3
    assert json.loads(result.data)["id"] == 2


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
async def test_clients_of_revisions_without_priming_events_get_none(
    web: httpx2.AsyncClient, revision: str
) -> None:
    await begin(web, revision)
    reported = call(1, "test_tool_with_progress", _meta={"progressToken": 1})
    async with web.stream("POST", "", json=reported) as answer:
        assert all(event.data for event in await events(answer))


async def test_a_stream_that_broke_is_read_on_where_it_broke(web: httpx2.AsyncClient) -> None:
    await begin(web)
    reported = call(1, "test_tool_with_progress", _meta={"progressToken": 1})
    async with web.stream("POST", "", json=reported) as answer:
        last = (await events(answer, most=2))[-1].id
    assert last is not None
    for _ in range(2):  # what was read may be read again
        resumed = {http.LAST_EVENT_HEADER: last}
        async with web.stream("GET", "", headers=resumed) as answer:
            found = [json.loads(event.data) for event in await events(answer)]
        assert found[-1]["id"] == 1
        assert 1 <= len([one for one in found if "method" in one]) <= 3


async def test_two_streams_of_a_session_are_resumed_apart(web: httpx2.AsyncClient) -> None:
    await begin(web)
    primers = list[str]()
    for id in ("a", "b"):
        async with web.stream("POST", "", json=call(id, "test_reconnection")) as answer:
            (primer,) = await events(answer)
            assert primer.id is not None
            primers.append(primer.id)
    for id, last in zip(("a", "b"), primers, strict=True):
        async with web.stream("GET", "", headers={http.LAST_EVENT_HEADER: last}) as answer:
            assert [json.loads(event.data)["id"] for event in await events(answer)] == [id]


async def test_a_client_that_is_let_go_is_told_when_to_come_back(web: httpx2.AsyncClient) -> None:
    await begin(web)
    async with web.stream("POST", "", json=call(1, "test_reconnection")) as answer:
        text = (await answer.aread()).decode()
    assert "retry: 1000" in text
    assert '"result"' not in text


async def test_an_event_that_is_not_known_is_refused(web: httpx2.AsyncClient) -> None:
    await begin(web)
    refused = await web.get("", headers={http.LAST_EVENT_HEADER: "somebody-elses-7"})
    assert refused.status_code == 400


async def test_what_belongs_to_no_request_waits_for_the_sessions_own_stream(
    web: httpx2.AsyncClient,
) -> None:
    await begin(web)
    await web.post("", json=call(1, "test_trigger_tool_change"))
    async with web.stream("GET", "") as own:
        (changed,) = await events(own, most=1)
    assert json.loads(changed.data)["method"] == names.TOOLS_CHANGED


async def test_the_newest_of_a_sessions_own_streams_is_the_one_that_is_written(
    web: httpx2.AsyncClient,
) -> None:
    await begin(web)
    async with web.stream("GET", "") as first, web.stream("GET", "") as second:
        assert await events(first) == []
        await web.post("", json=call(1, "test_trigger_tool_change"))
        assert len(await events(second, most=1)) == 1


async def test_a_session_ends_when_its_client_says_so(web: httpx2.AsyncClient) -> None:
    await begin(web)
    async with web.stream("GET", "") as own:
        assert (await web.delete("")).status_code == 204
        assert await events(own) == []
    for method in ("POST", "GET", "DELETE"):
        gone = await web.request(method, "", json=call(1, "test_simple_text"))
        assert gone.status_code == 404


async def test_a_request_without_a_session_is_refused(web: httpx2.AsyncClient) -> None:
    refused = await web.post("", json=ask(1, names.TOOLS_LIST))
    assert refused.status_code == 400
    assert http.SESSION_HEADER in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"accept": "text/html"}, 406),
        ({"content-type": "text/plain"}, 415),
        ({"mcp-protocol-version": "2099-01-01"}, 400),
        ({"mcp-protocol-version": "2025-06-18"}, 200),
        ({"accept": "application/json"}, 200),
    ],
)
async def test_headers_that_are_wrong_are_refused_with_their_status(
    web: httpx2.AsyncClient, headers: dict[str, str], status: int
) -> None:
    await begin(web)
    answer = await web.post("", json=ask(1, names.TOOLS_LIST), headers=headers)
    assert answer.status_code == status


async def test_a_client_that_takes_only_json_gets_only_the_answer(web: httpx2.AsyncClient) -> None:
    await begin(web)
    reported = call(1, "test_tool_with_progress", _meta={"progressToken": 1})
    answer = await web.post("", json=reported, headers={"accept": http.JSON})
    assert answer.json()["id"] == 1


@pytest.mark.parametrize("body", [b"nonsense", b"{}", b"[]", b'{"jsonrpc":"2.0","id":1}'])
async def test_a_body_that_is_no_message_is_a_bad_request(
    web: httpx2.AsyncClient, body: bytes
) -> None:
    await begin(web)
    answer = await web.post("", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in (-32700, -32600)


async def test_a_body_above_the_limit_is_refused(web: httpx2.AsyncClient) -> None:
    await begin(web)
    answer = await web.post("", content=b" " * (1 << 20) + b"{}")
    assert answer.status_code == 413


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_the_latest_revision_has_no_sessions(web: httpx2.AsyncClient, method: str) -> None:
    headers = {http.VERSION_HEADER: "2026-07-28"}
    assert (await web.request(method, "", headers=headers)).status_code in (400, 405)


async def test_closing_the_stream_of_a_call_cancels_it_at_the_latest_revision(
    web: httpx2.AsyncClient,
) -> None:
    meta: Json = {names.META_VERSION: "2026-07-28", names.META_CAPABILITIES: {}}
    listen = ask("l", names.LISTEN, notifications={"toolsListChanged": True}, _meta=meta)
    headers = {http.VERSION_HEADER: "2026-07-28", http.METHOD_HEADER: names.LISTEN}
    async with web.stream("POST", "", json=listen, headers=headers) as stream:
        (acknowledged,) = await events(stream, most=1)
    assert json.loads(acknowledged.data)["method"] == names.ACKNOWLEDGED
    with anyio.fail_after(60):  # the server serves on
        headers[http.METHOD_HEADER] = names.TOOLS_LIST
        answer = await web.post("", json=ask(2, names.TOOLS_LIST, _meta=meta), headers=headers)
    assert answer.status_code == 200


async def test_every_session_has_an_id_of_its_own_in_visible_ascii(web: httpx2.AsyncClient) -> None:
    ids = {await begin(web) for _ in range(3)}
    assert len(ids) == 3
    assert all(0x21 <= ord(char) <= 0x7E for id in ids for char in id)


def test_a_header_is_found_by_its_lower_case_name() -> None:
    assert header([("a", "1"), ("b", "2")], "b") == "2"
    assert header([], "b") is None
