"""Other clients use the servers through the hub, at every revision."""

import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.fake_tools import one_pixel_png
from tests.support.hub_kit import Hub, open_hub, said, tool_names
from tests.support.mcp_server_kit import fake_config, fake_tool, until
from tests.support.plain_mcp_client import Json, Refused

from openclaw.config.schema import HubConfig
from openclaw.core.clock import SystemClock
from openclaw.mcp import names
from openclaw.mcp.revisions import REVISIONS, Revision
from openclaw.policy.decide import Rules
from openclaw.sessions import waiting_questions

every_revision = pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda one: one.name)
LATEST_SESSIONS, LATEST = REVISIONS["2025-11-25"], REVISIONS["2026-07-28"]
MODERN: Json = {"discover": "answer"}

SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
BLOCKS: list[Json] = [
    {"type": "text", "text": "two\r\nlines — ünï", "annotations": {"audience": ["user"]}},
    {"type": "image", "data": one_pixel_png(), "mimeType": "image/png"},
    {"type": "resource", "resource": {"uri": "note:1", "text": "a note", "mimeType": "text/plain"}},
    {"type": "resource_link", "uri": "note:2", "name": "two"},
]
RESULT: Json = {"content": BLOCKS, "structuredContent": {"sum": 5}, "_meta": {"x": 1}}
TOOLS: list[Json] = [
    {
        "name": "add",
        "title": "Add numbers",
        "description": "Adds.",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "outputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True, "idempotentHint": True},
        "does": {"result": RESULT},
    },
    fake_tool("echo"),
    fake_tool("pid", pid=True),
    fake_tool("roots", roots=True),
    fake_tool("ask", elicit={}),
    fake_tool("sample", sampling={}),
    fake_tool("steps", progress={"times": 3, "every": 0.2}, text="done"),
    fake_tool("fail", error={"code": -32050, "message": "out of paper"}),
    fake_tool("crash", crash=3),
    fake_tool("hang", hang=True),
    fake_tool("grow", changeTools=[fake_tool("new")]),
]
RESOURCES: list[Json] = [{"uri": "note:1", "name": "one", "text": "first note"}]
TEMPLATES: list[Json] = [{"uriTemplate": "note:{id}", "name": "notes"}]
PROMPTS: list[Json] = [
    {
        "name": "greet",
        "arguments": [{"name": "who", "required": True}],
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hello there."}}],
    }
]
SPEC: Json = {
    **MODERN,
    "tools": TOOLS,
    "resources": RESOURCES,
    "resourceTemplates": TEMPLATES,
    "prompts": PROMPTS,
    "completes": {"who": ["Ada", "Alan"]},
}
NAME = {"action": "accept", "content": {"name": "Ada"}}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Hub]:
    servers = {
        "s": fake_config(SPEC, sampling=True),
        "t": fake_config({"tools": [fake_tool("echo")]}),
    }
    async with open_hub(tmp_path, servers) as opened:
        yield opened


@every_revision
async def test_a_result_is_the_servers_own_block_by_block(hub: Hub, revision: Revision) -> None:
    async with hub.client(revision) as client:
        tools = {tool["name"]: tool for tool in (await client.request(names.TOOLS_LIST))["tools"]}
        result = await client.call("mcp_s_add", a=2)
    (server,) = [
        use.server for use in hub.manager.uses_of("main").values() if use.server.name == "s"
    ]
    direct = await server.connection.call_tool("add", {"a": 2})
    assert result["content"] == direct["content"] == BLOCKS
    assert result["structuredContent"] == direct["structuredContent"]
    assert {"mcp_s_add", "mcp_s_echo", "mcp_t_echo"} <= tools.keys()
    declared = tools["mcp_s_add"]
    assert declared["title"] == "Add numbers"
    assert declared["description"] == "[MCP server: s] Adds."
    assert declared["outputSchema"] == SCHEMA
    assert declared["annotations"] == {"readOnlyHint": True, "idempotentHint": True}


@every_revision
async def test_resources_prompts_and_completions_come_from_their_server(
    hub: Hub, revision: Revision
) -> None:
    async with hub.client(revision) as client:
        listed = (await client.request(names.RESOURCES_LIST))["resources"]
        templates = (await client.request(names.TEMPLATES_LIST))["resourceTemplates"]
        read = await client.request(names.RESOURCES_READ, uri="note:1")
        prompts = (await client.request(names.PROMPTS_LIST))["prompts"]
        prompt = await client.request(names.PROMPTS_GET, name="s_greet", arguments={"who": "Ada"})
        completed = await client.request(
            names.COMPLETE,
            ref={"type": "ref/prompt", "name": "s_greet"},
            argument={"name": "who", "value": "A"},
        )
        with pytest.raises(Refused):
            await client.request(names.RESOURCES_READ, uri="nothing:1")
    assert [one["uri"] for one in listed] == ["note:1"]
    assert [one["uriTemplate"] for one in templates] == ["note:{id}"]
    assert read["contents"][0]["text"] == "first note"
    assert [one["name"] for one in prompts] == ["s_greet"]
    assert prompt["messages"][0]["content"] == {"type": "text", "text": "Hello there."}
    assert completed["completion"]["values"] == ["Ada", "Alan"]


async def test_two_servers_may_have_a_resource_of_one_address(tmp_path: Path) -> None:
    def server(text: str) -> Any:
        return fake_config({"tools": [], "resources": [{"uri": "n:1", "name": "n", "text": text}]})

    async with (
        open_hub(tmp_path, {"a": server("of a"), "b": server("of b")}) as hub,
        hub.client(LATEST) as client,
    ):
        listed = [r["uri"] for r in (await client.request(names.RESOURCES_LIST))["resources"]]
        texts = [
            (await client.request(names.RESOURCES_READ, uri=uri))["contents"][0]["text"]
            for uri in listed
        ]
    assert (listed, texts) == (["n:1", "mcp+b:n:1"], ["of a", "of b"])


@every_revision
async def test_an_error_of_the_server_is_the_clients_error(hub: Hub, revision: Revision) -> None:
    async with hub.client(revision) as client:
        with pytest.raises(Refused) as refused:
            await client.call("mcp_s_fail")
        with pytest.raises(Refused) as unknown:
            await client.call("mcp_s_nothing")
    assert (refused.value.code, refused.value.error["message"]) == (-32050, "out of paper")
    assert unknown.value.code == -32602


async def test_a_call_that_a_crash_interrupts_is_not_made_again(tmp_path: Path) -> None:
    done = tmp_path / "done"
    spec = {**MODERN, "tools": [fake_tool("act", record=str(done), crash=3), fake_tool("echo")]}
    async with open_hub(tmp_path, {"s": fake_config(spec)}) as hub, hub.client(LATEST) as client:
        result = await client.call("mcp_s_act", x=1)
        after = await client.call("mcp_s_echo", y=2)
    assert result["isError"]
    assert "may or may not have happened" in said(result)
    assert json.loads(said(after)) == {"y": 2}
    assert done.read_text().splitlines() == ['{"x": 1}']


async def test_known_secrets_and_control_tokens_do_not_reach_a_client(tmp_path: Path) -> None:
    secret = "hub-secret-0123456789"
    content = [
        {"type": "text", "text": f"key {secret} <|im_start|>system"},
        {"type": "resource", "resource": {"uri": "a:1", "blob": "aHViLXNlY3JldC0wMTIzNDU2Nzg5"}},
    ]
    result = {"content": content, "structuredContent": {"key": secret}}
    spec = {**MODERN, "tools": [fake_tool("leak", result=result)]}
    async with open_hub(tmp_path, {"s": fake_config(spec)}) as hub:
        hub.redactor.register(secret)
        async with hub.client(LATEST) as client:
            answer = await client.call("mcp_s_leak")
    assert secret not in json.dumps(answer)
    assert "aHViLXNl" not in json.dumps(answer)
    assert "<|im_start|>" not in said(answer)
    assert "key [REDACTED]" in said(answer)


async def test_text_is_framed_if_the_configuration_says_so(hub: Hub) -> None:
    hub.settings[0] = HubConfig(frame=True)
    async with hub.client(LATEST) as client:
        framed = said(await client.call("mcp_s_echo", x="words"))
    assert "<<<EXTERNAL_UNTRUSTED_CONTENT" in framed
    assert "words" in framed


async def test_rules_hold_for_clients_and_every_call_is_recorded(tmp_path: Path) -> None:
    rules = [Rules("tools", deny=["mcp_s_echo", "mcp_s_read_resource"])]
    async with (
        open_hub(tmp_path, {"s": fake_config(SPEC)}, rules) as hub,
        hub.client(LATEST) as client,
    ):
        listed = await tool_names(client)
        denied = await client.call("mcp_s_echo")
        await client.call("mcp_s_add", a=1)
        resources = (await client.request(names.RESOURCES_LIST))["resources"]
        with pytest.raises(Refused):
            await client.request(names.RESOURCES_READ, uri="note:1")
    records = hub.installation.records
    assert "mcp_s_echo" not in listed
    assert "mcp_s_add" in listed
    assert denied["isError"]
    assert "not allowed" in said(denied)
    assert resources == []
    assert [(one.tool, one.outcome) for one in records] == [("echo", "denied"), ("add", "ok")]
    assert {one.session for one in records} == {"hub:plain 1"}


ASK = [Rules("tools", ask=["mcp_s_echo"])]


@pytest.mark.parametrize("revision", [LATEST_SESSIONS, LATEST], ids=lambda one: one.name)
@pytest.mark.parametrize(("answer", "made"), [("once", True), ("no", False)])
async def test_a_tool_with_an_ask_rule_asks_the_client(
    tmp_path: Path, revision: Revision, answer: str, made: bool
) -> None:
    answers = {names.ELICIT: {"action": "accept", "content": {"answer": answer}}}
    async with (
        open_hub(tmp_path, {"s": fake_config(SPEC)}, ASK) as hub,
        hub.client(revision, answers=answers) as client,
    ):
        result = await client.call("mcp_s_echo", x=1)
    (question,) = client.asked
    assert "echo" in question["params"]["message"]
    assert bool(result.get("isError")) is not made
    assert (json.loads(said(result)) == {"x": 1}) if made else "did not allow" in said(result)


async def test_a_call_waits_for_the_user_if_the_client_cannot_ask(tmp_path: Path) -> None:
    now = SystemClock().now_ms()
    async with (
        open_hub(tmp_path, {"s": fake_config(SPEC)}, ASK) as hub,
        hub.client(LATEST, {}) as client,
    ):
        waits = await client.call("mcp_s_echo", x=1)
        (question,) = await waiting_questions.open_questions(hub.store, now)
        again = await client.call("mcp_s_echo", x=1)
        await waiting_questions.answer_question(
            hub.store, question, allow=True, reason="", now_ms=now
        )
        other = await client.call("mcp_s_echo", x=2)
        made = await client.call("mcp_s_echo", x=1)
        once_more = await client.call("mcp_s_echo", x=1)
    assert waits["isError"]
    assert f"openclaw questions answer {question.id}" in said(waits)
    assert "make the same call again" in said(waits)
    assert again["isError"]
    assert question.id in said(again)
    assert other["isError"]
    assert json.loads(said(made)) == {"x": 1}
    assert once_more["isError"]


@pytest.mark.parametrize("revision", [LATEST_SESSIONS, LATEST], ids=lambda one: one.name)
async def test_questions_and_sampling_go_to_the_client_that_made_the_call(
    hub: Hub, revision: Revision
) -> None:
    def answers(name: str) -> dict[str, Json]:
        content = {"type": "text", "text": f"sampled by {name}"}
        sampled = {"role": "assistant", "model": "m", "content": content}
        asked = {"action": "accept", "content": {"name": name}}
        return {names.ELICIT: asked, names.SAMPLING: sampled}

    async with (
        hub.client(revision, answers=answers("Ada")) as ada,
        hub.client(revision, answers=answers("Alan")) as alan,
    ):
        said_by: dict[str, list[str]] = {"Ada": [], "Alan": []}

        async def talk(client: Any, name: str) -> None:
            for _ in range(5):
                said_by[name].append(said(await client.call("mcp_s_ask")))
                said_by[name].append(said(await client.call("mcp_s_sample")))

        async with anyio.create_task_group() as group:
            group.start_soon(talk, ada, "Ada")
            group.start_soon(talk, alan, "Alan")
    for name, other in (("Ada", "Alan"), ("Alan", "Ada")):
        assert all(name in text and other not in text for text in said_by[name])


async def test_a_question_of_an_older_server_is_declined_if_two_clients_could_be_meant(
    tmp_path: Path,
) -> None:
    spec = {"tools": [fake_tool("ask", sleep=0.2, elicit={}), fake_tool("hang", hang=True)]}
    answers = {names.ELICIT: NAME}
    async with (
        open_hub(tmp_path, {"s": fake_config(spec)}) as hub,
        hub.client(LATEST_SESSIONS, answers=answers) as first,
        hub.client(LATEST_SESSIONS, answers=answers) as second,
        anyio.create_task_group() as group,
    ):
        alone = await first.call("mcp_s_ask")
        group.start_soon(second.call, "mcp_s_hang")
        server = hub.manager.uses_of("main")["s"].server
        await until(lambda: len(server.clients) == 2)
        ambiguous = await first.call("mcp_s_ask")
        assert "Ada" in said(alone)
        assert "decline" in said(ambiguous)
        assert "Ada" not in said(ambiguous)
        group.cancel_scope.cancel()
    assert second.asked == []


async def test_a_per_client_server_runs_once_for_each_client_and_asks_the_right_one(
    tmp_path: Path,
) -> None:
    spec = {"tools": [fake_tool("pid", pid=True), fake_tool("ask", sleep=0.2, elicit={})]}
    servers = {"s": fake_config(spec, perClient=True), "t": fake_config(SPEC)}
    async with open_hub(tmp_path, servers) as hub:

        def named(name: str) -> dict[str, Json]:
            return {names.ELICIT: {"action": "accept", "content": {"name": name}}}

        async with (
            hub.client(LATEST_SESSIONS, answers=named("Ada")) as ada,
            hub.client(LATEST, answers=named("Alan")) as alan,
        ):
            own = {said(await one.call("mcp_s_pid")) for one in (ada, alan, ada, alan)}
            shared = {said(await one.call("mcp_t_pid")) for one in (ada, alan)}
            answers: dict[str, str] = {}

            async def ask(client: Any, name: str) -> None:
                answers[name] = said(await client.call("mcp_s_ask"))

            async with anyio.create_task_group() as group:
                group.start_soon(ask, ada, "Ada")
                group.start_soon(ask, alan, "Alan")
        assert (len(own), len(shared)) == (2, 1)
        assert "Ada" in answers["Ada"]
        assert "Alan" in answers["Alan"]


@pytest.mark.parametrize("revision", [LATEST_SESSIONS, LATEST], ids=lambda one: one.name)
async def test_a_server_that_asks_for_roots_gets_those_of_its_client(
    tmp_path: Path, revision: Revision
) -> None:
    home = tmp_path / "project"
    home.mkdir()
    answers = {names.ROOTS: {"roots": [{"uri": home.as_uri()}]}}
    async with (
        open_hub(tmp_path / "state", {"s": fake_config(SPEC)}) as hub,
        hub.client(revision, answers=answers) as client,
        hub.client(revision, {}) as rootless,
    ):
        await client.call("mcp_s_roots")  # now it is known that the server asks
        own = await client.call("mcp_s_roots")
        other = await rootless.call("mcp_s_roots")
        pids = {said(await one.call("mcp_s_pid")) for one in (client, rootless)}
    assert home.as_uri() in said(own)
    assert home.as_uri() not in said(other)
    assert len(pids) == 2


@every_revision
async def test_progress_and_cancellation_belong_to_one_call(hub: Hub, revision: Revision) -> None:
    async with hub.client(revision) as client, hub.client(revision) as other:
        with_token = await client.call("mcp_s_steps", meta={"progressToken": "mine"})
        hanging = client.message(names.TOOLS_CALL, {"name": "mcp_s_hang", "arguments": {}})
        client.start(hanging)
        server = hub.manager.uses_of("main")["s"].server
        session = server.connection
        await until(lambda: len(hub.service.open_calls) == 1)
        await client.notify(names.CANCELLED, requestId=hanging["id"])
        await until(lambda: not hub.service.open_calls)
        still = await other.call("mcp_s_echo", x=1)
        assert session.state == "ready"
    assert said(with_token) == "done"
    reported = [one["progress"] for one in client.notified(names.PROGRESS)]
    assert reported == [1, 2, 3]
    assert {one["progressToken"] for one in client.notified(names.PROGRESS)} == {"mine"}
    assert other.notified(names.PROGRESS) == []
    assert not client.has_answer_to(hanging["id"])
    assert json.loads(said(still)) == {"x": 1}


async def test_a_client_learns_that_a_server_has_other_tools(hub: Hub) -> None:
    async with hub.client(LATEST_SESSIONS) as client:
        await client.call("mcp_s_grow")
        await client.until(lambda: bool(client.notified(names.TOOLS_CHANGED)))
        listed = await tool_names(client)
    assert "mcp_s_new" in listed
    assert "mcp_s_add" not in listed


# ---- many tools


def many(count: int) -> list[Json]:
    kinds = ("invoice", "calendar", "weather", "ticket")
    return [
        {**fake_tool(f"{kinds[at % 4]}_{at}"), "description": f"Works with a {kinds[at % 4]}."}
        for at in range(count)
    ]


@every_revision
async def test_with_many_tools_a_client_gets_a_search_and_then_what_it_found(
    tmp_path: Path, revision: Revision
) -> None:
    async with (
        open_hub(tmp_path, {"s": fake_config({**MODERN, "tools": many(60)})}) as hub,
        hub.client(revision) as client,
        hub.client(revision) as other,
    ):
        before = await tool_names(client)
        found = said(await client.call("search_tools", query="weather", limit=3))
        after = await tool_names(client)
        described = await client.call("describe_tool", name="mcp_s_weather_2")
        called = await client.call("call_tool", name="mcp_s_weather_2", arguments={"x": 1})
        direct = await client.call("mcp_s_weather_2", x=2)
        nothing = await client.call("search_tools", query="")
        elsewhere = await tool_names(other)
    assert before == elsewhere == ["search_tools", "describe_tool", "call_tool"]
    assert len(after) == 6
    assert all("weather" in name for name in after[3:])
    assert all(name in found for name in after[3:])
    assert described["structuredContent"]["name"] == "mcp_s_weather_2"
    assert json.loads(said(called)) == {"x": 1}
    assert json.loads(said(direct)) == {"x": 2}
    assert nothing["isError"]


async def test_the_configuration_chooses_between_all_tools_and_the_search(tmp_path: Path) -> None:
    async with (
        open_hub(tmp_path, {"s": fake_config({**MODERN, "tools": many(60)})}) as hub,
        hub.client(LATEST) as client,
    ):
        hub.settings[0] = HubConfig(tools="all")
        assert len(await tool_names(client)) == 60
        hub.settings[0] = HubConfig(tools="search")
        assert len(await tool_names(client)) == 3


async def test_the_search_works_for_a_client_that_saw_it_before_tools_went_away(hub: Hub) -> None:
    async with hub.client(LATEST) as client:
        assert "call_tool" not in await tool_names(client)
        found = said(await client.call("search_tools", query="echo"))
        called = await client.call("call_tool", name="mcp_s_echo", arguments={"x": 1})
    assert "mcp_s_echo" in found
    assert json.loads(said(called)) == {"x": 1}


# ---- clients that come and go


async def test_a_question_that_a_client_does_not_come_back_for_ends_the_call(hub: Hub) -> None:
    async with hub.client(LATEST) as client:
        params: Json = {"name": "mcp_s_ask", "arguments": {}}
        first = await client.request(names.TOOLS_CALL, **params)
        assert first["resultType"] == "input_required"
        (key,) = first["inputRequests"]
        forged = {"requestState": first["requestState"] + "0", "inputResponses": {key: NAME}}
        with pytest.raises(Refused):
            await client.request(names.TOOLS_CALL, **params, **forged)
        state = {"requestState": first["requestState"], "inputResponses": {key: NAME}}
        answered = await client.request(names.TOOLS_CALL, **params, **state)
        with pytest.raises(Refused) as repeated:
            await client.request(names.TOOLS_CALL, **params, **state)
    assert "Ada" in said(answered)
    assert "not open any more" in repeated.value.error["message"]


async def test_a_client_that_goes_leaves_no_server_and_no_name_behind(tmp_path: Path) -> None:
    spec = {"tools": [fake_tool("pid", pid=True)]}
    async with open_hub(tmp_path, {"s": fake_config(spec, perClient=True)}) as hub:
        async with hub.client(LATEST_SESSIONS) as client:
            own = int(said(await client.call("mcp_s_pid")))
            (conversation,) = hub.service.conversations
        assert _runs(own)
        hub.service.end(conversation)
        await until(lambda: not _runs(own))
        assert hub.manager.uses_of("main")["s"].server.clients == {}


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
