"""What a server of ours does at every revision, over stdio and over HTTP.

Each test runs for each revision that has what it tests; `docs/reference/protocol.md` names it there.
"""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import anyio
import pytest
from tests.support.plain_mcp_client import (
    TRANSPORTS,
    HttpTransport,
    Json,
    PipeTransport,
    PlainClient,
    Refused,
)

from openclaw.mcp import names
from openclaw.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
)
from openclaw.mcp.revisions import REVISIONS, Revision, TaskSupport
from openclaw.mcp.tasks import task_form

CAPABILITIES: Json = {
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "roots": {},
    "extensions": {names.TASKS_EXTENSION: {}},
}
ANSWERS: dict[str, Json] = {
    names.SAMPLING: {
        "role": "assistant",
        "model": "m",
        "content": {"type": "text", "text": "sampled words"},
    },
    names.ELICIT: {"action": "accept", "content": {"name": "Alice", "username": "alice"}},
    names.ROOTS: {"roots": [{"uri": "file:///work"}]},
}
Open = Callable[..., AbstractAsyncContextManager[PlainClient]]


def having(feature: Callable[[Revision], Any]) -> pytest.MarkDecorator:
    """For the revisions that have this."""
    found = [revision for revision in REVISIONS.values() if feature(revision)]
    return pytest.mark.parametrize("revision", found, ids=lambda one: one.name)


every_revision = having(lambda revision: True)
every_connection = pytest.mark.parametrize(
    ("revision", "transport"),
    [
        pytest.param(revision, transport, id=f"{revision.name}-{transport}")
        for revision in REVISIONS.values()
        for transport in TRANSPORTS
        if not (revision.stateless and transport == "http")  # there, each request is one of its own
    ],
)
with_handshake = having(lambda revision: not revision.stateless)
stateless = having(lambda revision: revision.stateless)


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def connect(transport: str, revision: Revision) -> Open:
    options: Json = {"capabilities": CAPABILITIES, "answers": ANSWERS}

    def opened(**more: Any) -> AbstractAsyncContextManager[PlainClient]:
        return TRANSPORTS[transport](revision, **{**options, **more})

    return opened


@pytest.fixture
async def client(connect: Open) -> AsyncGenerator[PlainClient]:
    async with connect() as connected:
        yield connected


def said(result: Json) -> str:
    return result["content"][0]["text"]


async def refusal(client: PlainClient, method: str, **params: Any) -> int:
    with pytest.raises(Refused) as caught:
        await client.request(method, **params)
    return caught.value.code


# ---- what every revision has


@every_revision
async def test_a_client_learns_what_the_server_offers_at_its_revision(
    client: PlainClient, revision: Revision
) -> None:
    offered = client.server["capabilities"]
    assert {"tools", "prompts", "resources", "logging"} <= offered.keys()
    assert ("completions" in offered) == revision.completions_capability
    assert ("tasks" in offered) == (revision.tasks is TaskSupport.CORE)
    assert ("extensions" in offered) == revision.stateless
    assert client.server["instructions"] == "For tests."
    if revision.stateless:
        assert client.server["supportedVersions"] == [revision.name]
    else:
        assert client.server["protocolVersion"] == revision.name


@every_revision
async def test_tools_are_listed_and_called(client: PlainClient) -> None:
    listed = (await client.request(names.TOOLS_LIST))["tools"]
    assert "test_simple_text" in [tool["name"] for tool in listed]
    assert said(await client.call("test_simple_text")).startswith("This is a simple text")


@every_revision
async def test_a_tool_that_fails_says_so_in_its_result(client: PlainClient) -> None:
    assert (await client.call("test_error_handling"))["isError"] is True


@every_revision
async def test_prompts_are_listed_and_filled_in(client: PlainClient) -> None:
    listed = (await client.request(names.PROMPTS_LIST))["prompts"]
    assert "test_simple_prompt" in [prompt["name"] for prompt in listed]
    arguments = {"arg1": "one", "arg2": "two"}
    filled = await client.request(
        names.PROMPTS_GET, name="test_prompt_with_arguments", arguments=arguments
    )
    assert "arg1='one', arg2='two'" in filled["messages"][0]["content"]["text"]


@every_revision
async def test_resources_are_listed_and_read(client: PlainClient) -> None:
    listed = (await client.request(names.RESOURCES_LIST))["resources"]
    assert "test://static-text" in [resource["uri"] for resource in listed]
    assert (await client.request(names.TEMPLATES_LIST))["resourceTemplates"]
    read = await client.request(names.RESOURCES_READ, uri="test://template/7/data")
    assert json.loads(read["contents"][0]["text"])["id"] == "7"


@every_revision
async def test_a_resource_that_is_not_there_is_refused_with_the_code_of_the_revision(
    client: PlainClient, revision: Revision
) -> None:
    code = await refusal(client, names.RESOURCES_READ, uri="test://nothing")
    assert code == (INVALID_PARAMS if revision.stateless else RESOURCE_NOT_FOUND)


@every_revision
async def test_arguments_are_completed(client: PlainClient) -> None:
    completed = await client.request(
        names.COMPLETE,
        ref={"type": "ref/prompt", "name": "test_prompt_with_arguments"},
        argument={"name": "arg1", "value": "pa"},
    )
    assert completed["completion"]["values"] == ["paris", "park"]


@every_revision
async def test_progress_arrives_before_the_result_and_only_if_it_is_wanted(
    client: PlainClient,
) -> None:
    await client.call("test_tool_with_progress")
    assert client.notified(names.PROGRESS) == []
    await client.call("test_tool_with_progress", {"progressToken": "here"})
    reported = client.notified(names.PROGRESS)
    assert [one["progress"] for one in reported] == [0, 50, 100]
    assert {one["progressToken"] for one in reported} == {"here"}


@every_revision
@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("no/such/method", {}, METHOD_NOT_FOUND),
        (names.TOOLS_CALL, {"name": "no_such_tool"}, INVALID_PARAMS),
        (names.TOOLS_CALL, {}, INVALID_PARAMS),
        (names.TOOLS_CALL, {"name": "test_simple_text", "arguments": [1]}, INVALID_PARAMS),
        (names.TOOLS_LIST, {"cursor": 7}, INVALID_PARAMS),
        (names.PROMPTS_GET, {"name": "x", "arguments": {"a": 1}}, INVALID_PARAMS),
        (names.RESOURCES_READ, {"uri": None}, INVALID_PARAMS),
        (names.COMPLETE, {"ref": {"type": "ref/else"}}, INVALID_PARAMS),
    ],
)
async def test_a_request_that_is_wrong_is_refused_and_the_next_is_served(
    client: PlainClient, method: str, params: Json, code: int
) -> None:
    assert await refusal(client, method, **params) == code
    assert await client.call("test_simple_text")


@every_revision
async def test_half_a_surrogate_pair_costs_a_character_and_not_the_call(
    client: PlainClient,
) -> None:
    message = client.message(
        names.TOOLS_CALL, {"name": "greet", "arguments": {"name": "cut \ud83d"}}
    )
    assert rb"\ud83d" in json.dumps(message).encode()
    client.start(message)
    assert said(await client.result_of(message["id"])) == "Hello, cut \ufffd!"


@every_revision
async def test_calls_are_carried_out_side_by_side(client: PlainClient) -> None:
    slow = client.message(names.TOOLS_CALL, {"name": "test_tool_with_progress", "arguments": {}})
    client.start(slow)
    assert await client.call("test_simple_text")
    assert await client.result_of(slow["id"])


@every_connection
async def test_an_id_that_is_still_in_use_is_refused(
    client: PlainClient, transport: str, revision: Revision
) -> None:
    meta: Json = {names.META_CAPABILITIES: {}} if revision.stateless else {}
    slow = client.message(
        names.TOOLS_CALL, {"name": "slow_compute", "arguments": {"seconds": 600}}, meta
    )
    client.start(slow)
    await client.call("test_simple_text")
    client.start(slow)
    answer = await client.answer_to(slow["id"] if transport == "stdio" else None)
    assert answer["error"]["code"] == INVALID_REQUEST


@every_revision
async def test_a_call_that_its_client_cancelled_is_not_answered(
    connect: Open, transport: str, revision: Revision
) -> None:
    async with connect(capabilities={}) as client:
        slow = client.message(
            names.TOOLS_CALL, {"name": "slow_compute", "arguments": {"seconds": 600}}
        )
        client.start(slow)
        await client.call("test_simple_text")
        if isinstance(client.transport, HttpTransport) and revision.stateless:
            client.transport.streams[slow["id"]].cancel()  # closing the stream cancels
        else:
            await client.notify(names.CANCELLED, requestId=slow["id"])
        await client.call("test_simple_text")
        assert not client.has_answer_to(slow["id"])


# ---- questions to the user, the model and the client


@having(lambda revision: revision.server_requests)
async def test_a_server_asks_the_model_by_a_request(client: PlainClient) -> None:
    answered = await client.call("test_sampling", prompt="Say something")
    assert said(answered) == "LLM response: sampled words"
    assert [one["method"] for one in client.asked] == [names.SAMPLING]


@having(lambda revision: revision.server_requests and revision.form_elicitation)
async def test_a_server_asks_the_user_by_a_request(client: PlainClient) -> None:
    answered = await client.call("test_elicitation", message="Who?")
    assert '"alice"' in said(answered)
    assert client.asked[0]["params"]["requestedSchema"]["required"] == ["username", "email"]


@having(lambda revision: not revision.form_elicitation)
async def test_a_client_whose_revision_has_no_questions_is_not_asked(client: PlainClient) -> None:
    with pytest.raises(Refused):
        await client.call("test_elicitation", message="Who?")
    assert client.asked == []


@having(lambda revision: revision.server_requests)
async def test_a_client_that_cannot_answer_is_not_asked(connect: Open) -> None:
    async with connect(capabilities={}) as client:
        with pytest.raises(Refused):
            await client.call("test_sampling", prompt="Say something")
        assert client.asked == []


@having(lambda revision: not revision.server_requests)
@pytest.mark.parametrize(
    ("tool", "asked", "words"),
    [
        ("elicitation", [names.ELICIT], "Hello, Alice!"),
        ("sampling", [names.SAMPLING], "sampled words"),
        ("list_roots", [names.ROOTS], "file:///work"),
        ("multiple_inputs", [names.ELICIT, names.SAMPLING, names.ROOTS], "sampled words"),
    ],
)
async def test_a_server_asks_in_its_result(
    client: PlainClient, tool: str, asked: list[str], words: str
) -> None:
    answered = await client.call(f"test_input_required_result_{tool}")
    assert words in said(answered)
    assert [one["method"] for one in client.asked] == asked


@having(lambda revision: not revision.server_requests)
async def test_what_a_client_carries_to_the_next_round_cannot_be_changed(
    client: PlainClient,
) -> None:
    tool = "test_input_required_result_tampered_state"
    first = await client.request(names.TOOLS_CALL, name=tool)
    responses = {"confirm": {"action": "accept", "content": {"ok": True}}}
    state: str = first["requestState"]
    again = partial(client.request, names.TOOLS_CALL, name=tool, inputResponses=responses)
    assert said(await again(requestState=state)) == "state-ok"
    for changed in (f"x{state}", state[:-1], f"{state}0", ""):
        with pytest.raises(Refused):
            await again(requestState=changed)


@having(lambda revision: not revision.server_requests)
async def test_what_a_client_does_not_declare_is_refused_by_name(connect: Open) -> None:
    async with connect(capabilities={}) as client:
        with pytest.raises(Refused) as caught:
            await client.call("test_input_required_result_sampling")
        assert caught.value.code == MISSING_CAPABILITY
        assert caught.value.error["data"] == {"requiredCapabilities": {"sampling": {}}}


# ---- logging


@having(lambda revision: not revision.log_level_per_request)
async def test_a_client_sets_the_level_of_what_is_logged(client: PlainClient) -> None:
    await client.request(names.SET_LEVEL, level="warning")
    await client.call("test_tool_with_logging")
    assert client.notified(names.LOG) == []
    await client.request(names.SET_LEVEL, level="info")
    await client.call("test_tool_with_logging")
    assert [one["level"] for one in client.notified(names.LOG)] == ["info"] * 3
    assert await refusal(client, names.SET_LEVEL, level="loud") == INVALID_PARAMS


@having(lambda revision: revision.log_level_per_request)
async def test_a_request_says_what_may_be_logged_for_it(client: PlainClient) -> None:
    await client.call("test_logging_tool")
    await client.call("test_logging_tool", {names.META_LOG_LEVEL: "error"})
    assert client.notified(names.LOG) == []
    await client.call("test_logging_tool", {names.META_LOG_LEVEL: "debug"})
    assert [one["level"] for one in client.notified(names.LOG)] == ["info"]
    assert await refusal(client, names.SET_LEVEL, level="info") == METHOD_NOT_FOUND


# ---- changes


@having(lambda revision: not revision.listen)
async def test_a_change_of_a_list_is_announced_to_every_client(client: PlainClient) -> None:
    await client.call("test_trigger_tool_change")
    await client.until(lambda: bool(client.notified(names.TOOLS_CHANGED)))
    await client.request(names.SUBSCRIBE, uri="test://watched-resource")
    await client.request(names.UNSUBSCRIBE, uri="test://watched-resource")


@having(lambda revision: revision.listen)
async def test_a_change_of_a_list_is_announced_to_those_who_listen_for_it(
    client: PlainClient,
) -> None:
    wanted = {"toolsListChanged": True}
    listening = client.message(names.LISTEN, {"notifications": wanted})
    client.start(listening)
    await client.until(lambda: bool(client.notified(names.ACKNOWLEDGED)))
    await client.call("test_trigger_prompt_change")
    await client.call("test_trigger_tool_change")
    await client.until(lambda: bool(client.notified(names.TOOLS_CHANGED)))
    assert client.notified(names.PROMPTS_CHANGED) == []
    (acknowledged,) = client.notified(names.ACKNOWLEDGED)
    assert acknowledged["notifications"] == wanted
    for told in (acknowledged, *client.notified(names.TOOLS_CHANGED)):
        assert told["_meta"][names.META_SUBSCRIPTION] == listening["id"]
    assert await refusal(client, names.SUBSCRIBE, uri="test://static-text") == METHOD_NOT_FOUND


# ---- tasks


@having(lambda revision: revision.tasks is TaskSupport.EXTENSION)
async def test_the_server_makes_a_task_of_a_call_and_asks_in_it(client: PlainClient) -> None:
    form = task_form(client.revision)
    assert form is not None
    created = await client.request(names.TOOLS_CALL, name="confirm_delete")
    task = form.handle_in(created)
    assert task is not None
    status = form.parse(await client.request(names.TASKS_GET, taskId=task.id))
    while not status.requests:
        status = form.parse(await client.request(names.TASKS_GET, taskId=task.id))
    answers = {key: {"action": "accept"} for key in status.requests}
    updated = await client.request(names.TASKS_UPDATE, taskId=task.id, inputResponses=answers)
    assert updated.keys() == {"resultType", "_meta"}
    while not status.status.has_ended:
        status = form.parse(await client.request(names.TASKS_GET, taskId=task.id))
    assert status.result is not None
    assert "accept" in said(status.result)
    assert await refusal(client, names.TASKS_LIST) == METHOD_NOT_FOUND


@having(lambda revision: revision.tasks is TaskSupport.CORE)
async def test_the_client_asks_for_a_task_and_fetches_its_result(client: PlainClient) -> None:
    form = task_form(client.revision)
    assert form is not None
    call: Json = {"name": "slow_compute", "arguments": {"seconds": 0}}
    assert "task" not in await client.request(names.TOOLS_CALL, **call)
    task = form.handle_in(await client.request(names.TOOLS_CALL, **call, task={"ttl": 60_000}))
    assert task is not None
    result = await client.request(names.TASKS_RESULT, taskId=task.id)
    assert said(result) == "Computed."
    assert result["_meta"][names.META_RELATED_TASK] == {"taskId": task.id}
    assert (await client.request(names.TASKS_GET, taskId=task.id))["status"] == "completed"
    assert [one["taskId"] for one in (await client.request(names.TASKS_LIST))["tasks"]] == [task.id]
    assert await refusal(client, names.TASKS_UPDATE, taskId=task.id, inputResponses={}) == (
        METHOD_NOT_FOUND
    )


@having(lambda revision: revision.tasks is not TaskSupport.NONE)
async def test_a_task_is_cancelled(client: PlainClient, revision: Revision) -> None:
    form = task_form(revision)
    assert form is not None
    more: Json = {} if revision.stateless else {"task": {}}
    call: Json = {"name": "slow_compute", "arguments": {"seconds": 600}, **more}
    task = form.handle_in(await client.request(names.TOOLS_CALL, **call))
    assert task is not None
    await client.request(names.TASKS_CANCEL, taskId=task.id)
    status = form.parse(await client.request(names.TASKS_GET, taskId=task.id))
    while not status.status.has_ended:
        status = form.parse(await client.request(names.TASKS_GET, taskId=task.id))
    assert status.status == "cancelled"


@having(lambda revision: revision.tasks is TaskSupport.NONE)
async def test_a_revision_without_tasks_has_none_of_their_methods(client: PlainClient) -> None:
    for method in (names.TASKS_GET, names.TASKS_CANCEL, names.TASKS_RESULT):
        assert await refusal(client, method, taskId="x") == METHOD_NOT_FOUND


@stateless
async def test_tasks_need_a_client_that_declares_them(connect: Open) -> None:
    async with connect(capabilities={}) as client:
        assert await refusal(client, names.TASKS_GET, taskId="x") == MISSING_CAPABILITY
        with pytest.raises(Refused) as caught:
            await client.call("failing_job")
        assert caught.value.code == MISSING_CAPABILITY
        assert said(await client.call("slow_compute", seconds=0)) == "Computed."


@stateless
async def test_a_tasks_question_is_read_by_a_client_that_cannot_answer_it(connect: Open) -> None:
    async with connect(capabilities={"extensions": {names.TASKS_EXTENSION: {}}}) as client:
        created = await client.request(names.TOOLS_CALL, name="confirm_delete")
        status = created
        while status["status"] != "input_required":
            status = await client.request(names.TASKS_GET, taskId=created["taskId"])
        assert status["inputRequests"].keys() == {"confirm"}


# ---- what differs


@having(lambda revision: revision.batches)
async def test_a_batch_is_answered_by_a_batch(client: PlainClient) -> None:
    requests = [client.message(method, {}) for method in (names.PING, names.TOOLS_LIST, "nope")]
    batch = [*requests, {"jsonrpc": "2.0", "method": names.ROOTS_CHANGED}, "rubbish"]
    client.tasks.start_soon(client.send, batch)
    ids = [request["id"] for request in requests]
    assert await client.result_of(ids[0]) == {}
    assert (await client.result_of(ids[1]))["tools"]
    assert (await client.answer_to(ids[2]))["error"]["code"] == METHOD_NOT_FOUND
    assert (await client.answer_to(None))["error"]["code"] == INVALID_REQUEST


@having(lambda revision: not revision.batches)
async def test_a_batch_is_refused_where_there_are_none(client: PlainClient) -> None:
    batch = [client.message(names.TOOLS_LIST, {})]
    client.tasks.start_soon(client.send, batch)
    assert (await client.answer_to(None))["error"]["code"] == INVALID_REQUEST


@every_revision
async def test_results_carry_what_their_revision_has(
    client: PlainClient, revision: Revision
) -> None:
    listed = await client.request(names.TOOLS_LIST)
    called = await client.call("test_simple_text")
    assert ("resultType" in called) == revision.result_types
    assert ({"ttlMs", "cacheScope"} <= listed.keys()) == revision.cache_hints
    assert "ttlMs" not in called
    if revision.result_types:
        assert called["_meta"][names.META_SERVER]["name"] == "conformance"


@with_handshake
async def test_a_ping_is_answered_and_a_second_handshake_refused(client: PlainClient) -> None:
    assert await client.request(names.PING) == {}
    if isinstance(client.transport, PipeTransport):  # over HTTP it begins another session
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        assert await refusal(client, names.INITIALIZE, **hello) == INVALID_REQUEST


@stateless
async def test_what_belongs_to_sessions_is_gone(client: PlainClient) -> None:
    for method in (names.PING, names.INITIALIZE, names.SET_LEVEL):
        assert await refusal(client, method) == METHOD_NOT_FOUND


@stateless
async def test_a_revision_that_is_not_known_is_refused_with_those_that_are(
    client: PlainClient,
) -> None:
    message = client.message(names.TOOLS_LIST, {}, {names.META_VERSION: "2099-01-01"})
    headers = {"mcp-protocol-version": "2099-01-01", "mcp-method": names.TOOLS_LIST}
    client.tasks.start_soon(client.transport.post, message, headers)
    answer = await client.answer_to(message["id"])
    assert answer["error"]["data"] == {
        "supported": [client.revision.name],
        "requested": "2099-01-01",
    }


@with_handshake
@pytest.mark.parametrize("transport", ["stdio"])
async def test_requests_of_both_kinds_are_served_on_one_pipe(client: PlainClient) -> None:
    """A client whose probe took too long sends `initialize` behind it: both are answered."""
    meta: Json = {names.META_VERSION: "2026-07-28", names.META_CAPABILITIES: {}}
    assert (await client.request(names.DISCOVER, meta))["supportedVersions"] == ["2026-07-28"]
    assert (await client.request(names.TOOLS_LIST, meta))["resultType"] == "complete"
    assert "resultType" not in await client.request(names.TOOLS_LIST)


async def test_a_client_that_goes_takes_its_calls_with_it(transport: str) -> None:
    with anyio.fail_after(60):
        async with TRANSPORTS[transport](REVISIONS["2025-11-25"]) as client:
            endless: Json = {"name": "slow_compute", "arguments": {"seconds": 600}}
            client.start(client.message(names.TOOLS_CALL, endless))
            await client.request(names.PING)
