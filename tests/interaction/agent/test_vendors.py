"""What an agent sends to strict vendors: odd tools, odd names, thoughts, fallbacks, overloads."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from tests.support.agent_kit import APIS, AgentKit, FakeTools, agent_kit, scripted_config
from tests.support.fake_http import QuietHandler, serving
from tests.support.vendors.server import Vendor, vendor
from tests.unit.models.test_tool_schema import ODD

from openclaw.agent.port import ClientResult, MessageContext, TurnListener
from openclaw.config.schema import Config
from openclaw.core.errors import ModelUnavailable
from openclaw.core.events import Event, Notice
from openclaw.models.choose import ClientTool, ModelOptions
from openclaw.testing.scripted_model import Request, Step

every_api = pytest.mark.parametrize("api", APIS)
GOOGLE = "google-generative-ai"
GPT = "gpt-5-mini"
CLAUDE = "claude-opus-4-5"  # thinks within a budget, and insists on its signatures


LARGE = {"contextWindow": 1_000_000}  # has room for all tools


def model_of(api: str) -> str:
    """A model that thinks."""
    return {"anthropic-messages": CLAUDE, "openai-responses": GPT}.get(api, "scripted")


def shown(request: Request) -> list[dict[str, Any]]:
    """The functions that a request offers, each with its name, description and schema."""
    listed: list[Any] = list(request.body.get("tools", ()))
    declared = [one for tool in listed for one in tool.get("functionDeclarations", [tool])]
    return [one.get("function", one) for one in declared]


def schema_of(function: dict[str, Any]) -> dict[str, Any]:
    names = ("parameters", "input_schema", "parameters_json_schema")
    return next(function[name] for name in names if name in function)


@every_api
async def test_odd_tools_of_servers_can_be_called(api: str) -> None:
    tools = FakeTools()
    for number, schema in enumerate(ODD.values()):
        tools.add(f"mcp_odd_{number}", description="long " * 240, schema=schema, server="odd")
    odd_keys = f"mcp_odd_{list(ODD).index('odd keys')}"
    script = Vendor([Step(text="Hi.")])
    async with (
        vendor(script) as server,
        agent_kit(scripted_config(server.url, api=api, model=LARGE), tools=tools) as kit,
    ):
        assert (await kit.say("Hello")).text == "Hi."
        (function,) = [one for one in shown(script.requests[0]) if one["name"] == odd_keys]
        sent = schema_of(function)["properties"]
        script.steps = [Step(calls=((odd_keys, dict.fromkeys(sent, "5")),)), Step(text="Done.")]
        assert (await kit.say("Call it")).text == "Done."
    assert tools.calls == [(odd_keys, dict.fromkeys(ODD["odd keys"]["properties"], "5"))]
    assert not script.refused


@pytest.mark.parametrize(
    ("api", "message"),
    [
        ("openai-completions", "Invalid schema for function 'mcp_a_bad': In context=(), no."),
        ("openai-responses", "Invalid schema for function 'mcp_a_bad': In context=(), no."),
        ("anthropic-messages", "tools.1.custom.input_schema: JSON schema is invalid."),
        (GOOGLE, "* GenerateContentRequest.tools[0].function_declarations[1].parameters: no."),
    ],
)
async def test_a_tool_that_a_vendor_still_refuses_is_left_out(api: str, message: str) -> None:
    tools = FakeTools()
    for name in ("mcp_a_good", "mcp_a_bad", "mcp_a_other"):
        tools.add(name, server="a")
    script = Vendor([Step(status=400, message=message), Step(text="Hi."), Step(text="Again.")])
    async with (
        vendor(script) as server,
        agent_kit(scripted_config(server.url, api=api), tools=tools) as kit,
    ):
        assert (await kit.say("Hello")).text == "Hi."
        assert (await kit.say("And again")).text == "Again."
    names = [[one["name"] for one in shown(request)] for request in script.requests]
    assert names[0] == ["mcp_a_good", "mcp_a_bad", "mcp_a_other"]
    assert names[1] == names[2] == ["mcp_a_good", "mcp_a_other"]
    assert "mcp_a_bad, which is left out" in "".join(notices(kit))


def notices(kit: AgentKit) -> list[str]:
    return [event.message for event in kit.events if isinstance(event, Notice)]


@every_api
async def test_invented_names_and_too_many_calls_do_not_end_a_session(api: str) -> None:
    tools = FakeTools()
    tools.add("look")
    names = ("fs.read", "read a file", "", "2fa", "x" * 200, "é")
    steps = [
        Step(calls=tuple((name, {"a": 1}) for name in names)),
        Step(calls=tuple(("look", {}) for _ in range(150))),
        Step(text="Done."),
        Step(text="And on."),
    ]
    script = Vendor(steps)
    async with (
        vendor(script) as server,
        agent_kit(scripted_config(server.url, api=api), tools=tools) as kit,
    ):
        assert (await kit.say("Look around")).text == "Done."
        assert (await kit.say("Go on")).text == "And on."
    assert not script.refused
    assert len(tools.calls) == 128
    assert "Only its first 128 were made" in str(script.requests[2].body)


THINKING = {"id": CLAUDE, "reasoning": True}


@pytest.mark.parametrize("effort", ["minimal", "medium", "xhigh", "on"])
@pytest.mark.parametrize("most", [None, 1000, 4096, 8192, 64_000])
async def test_a_budget_for_thinking_fits_into_the_answer(effort: str, most: int | None) -> None:
    model = {**THINKING, **({"maxTokens": most} if most else {})}
    script = Vendor([Step(text="Hi.", thinking="Hm.")])
    async with vendor(script) as server:
        config = scripted_config(server.url, api="anthropic-messages", model=model, ref=CLAUDE)
        async with agent_kit(config) as kit:
            assert (await kit.say("Hello", thinking=effort)).text == "Hi."
    assert not script.refused
    thinks = "thinking" in script.requests[0].body
    assert thinks == (most != 1000)


@every_api
async def test_thoughts_come_back_with_a_clients_results_and_after_a_tool(api: str) -> None:
    name = model_of(api)
    model = {**THINKING, "id": name}
    call = Step(thinking="Let me see.", text="I look.", calls=(("look", {}),))
    script = Vendor([call, call, Step(text="Done.")])
    own = ModelOptions(tools=(ClientTool("look", "Looks.", {"type": "object"}),))
    async with (
        vendor(script) as server,
        agent_kit(scripted_config(server.url, api=api, model=model, ref=name)) as kit,
    ):
        reply = await kit.say("Look", thinking="medium", options=own)
        for _ in range(2):
            results = tuple(ClientResult(call.id, "seen") for call in reply.calls)
            assert results
            context = MessageContext("", "s", results=results, options=own, thinking="medium")
            reply = await kit.reply(context)
    assert reply.text == "Done."
    assert not script.refused
    if api != "openai-completions":
        signatures = [one for one in script.issued if one in str(script.requests[2].body)]
        assert len(signatures) >= 2


PAIRS = [(one, other) for one in APIS for other in APIS]


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_a_turn_goes_on_with_another_vendor_or_account(first: str, second: str) -> None:
    """One vendor thinks and calls, then is down; the other goes on, with the same conversation."""
    tools = FakeTools()
    tools.add("look")
    call = Step(thinking="A secret thought.", text="I look.", calls=(("look", {}),))
    down = Step(status=503)
    one = Vendor([call, call], default=down, account="one")
    other = Vendor([call, Step(text="Done.")], account="other")
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(vendor(script)) for script in (one, other)]
        config = two_vendors([(servers[0].url, first), (servers[1].url, second)])
        kit = await stack.enter_async_context(agent_kit(config, tools=tools))
        assert (await kit.say("Look", thinking="medium")).text == "Done."
        other.default = Step(text="Still here.")
        assert (await kit.say("Go on", thinking="medium")).text == "Still here."
    assert not one.refused
    assert not other.refused
    assert "A secret thought." not in str(other.requests[0].body)
    assert "rs_answer" not in str(other.requests[0].body)
    assert len(tools.calls) == 3


def two_vendors(places: Sequence[tuple[str, str]], **model: Any) -> Config:
    providers: dict[str, Any] = {}
    for number, (url, api) in enumerate(places):
        name = model_of(api)
        path = "/v1" if api.startswith("openai") else ""
        entry = {"id": name, "reasoning": True, "input": ["text", "image"], "maxTokens": 8192}
        entry |= model
        providers[f"v{number}"] = {
            "apiKey": "key", "api": api, "baseUrl": f"{url}{path}", "models": [entry],
        }  # fmt: skip
    refs = [f"{name}/{provider['models'][0]['id']}" for name, provider in providers.items()]
    choice = {"primary": refs[0], "fallbacks": refs[1:]}
    return Config.model_validate(
        {"models": {"providers": providers}, "agents": {"defaults": {"model": choice}}}
    )


@every_api
async def test_signatures_of_another_account_are_forgotten(api: str) -> None:
    """The key in the configuration now belongs to another account, which refuses what is stored."""
    call = Step(thinking="Let me see.", calls=(("look", {}),))
    name = model_of(api)
    script = Vendor([call, call, Step(text="Done.")])
    own = ModelOptions(tools=(ClientTool("look", "Looks.", {"type": "object"}),))
    async with (
        vendor(script) as server,
        agent_kit(
            scripted_config(server.url, api=api, model={**THINKING, "id": name}, ref=name)
        ) as kit,
    ):
        reply = await kit.say("Look", thinking="medium", options=own)
        script.issued.clear()
        for _ in range(2):
            results = tuple(ClientResult(call.id, "seen") for call in reply.calls)
            context = MessageContext("", "s", results=results, options=own, thinking="medium")
            reply = await kit.reply(context)
    assert reply.text == "Done."


@pytest.mark.parametrize("status", [429, 503, 529])
async def test_a_turn_that_has_done_something_waits_for_an_overloaded_vendor(status: int) -> None:
    tools = FakeTools()
    tools.add("look")
    busy = [Step(status=status) for _ in range(9)]
    script = Vendor([Step(calls=(("look", {}),)), *busy, Step(text="Done.")])
    async with vendor(script) as server, agent_kit(scripted_config(server.url), tools=tools) as kit:
        assert (await kit.say("Look")).text == "Done."
    assert any("waiting" in one for one in notices(kit))


async def test_a_vendor_that_asks_for_minutes_gets_them_and_the_wait_can_be_stopped() -> None:
    tools = FakeTools()
    tools.add("look")
    busy = Step(status=429, retry_after=300)
    script = Vendor([Step(calls=(("look", {}),)), busy, Step(text="Done.")], default=busy)
    async with (
        vendor(script) as server,
        agent_kit(scripted_config(server.url), tools=tools, no_delay=False) as kit,
    ):
        waits, scope = anyio.Event(), anyio.CancelScope()

        def hear(event: Event) -> None:
            if isinstance(event, Notice) and "waiting 300 s" in event.message:
                waits.set()

        async def run() -> None:
            with scope:
                await kit.reply(MessageContext("Look", "s"), TurnListener(on_event=hear))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await waits.wait()
            scope.cancel()
    assert scope.cancelled_caught


@every_api
async def test_an_answer_without_end_is_cut(api: str) -> None:
    script = Vendor([Step(text="word " * 10_000_000)])
    async with vendor(script) as server, agent_kit(scripted_config(server.url, api=api)) as kit:
        reply = await kit.say("Go on for ever")
    assert reply.finish_reason == "length"
    assert len(reply.text) < 6_000_000
    assert "cut off" in reply.text[-100:]


@every_api
@pytest.mark.parametrize("kind", ["text", "arguments"])
async def test_an_answer_is_cut_at_the_size_that_is_configured(api: str, kind: str) -> None:
    words = "word " * 20_000
    calls = (("look", {"q": words}),) if kind == "arguments" else ()
    script = Vendor([Step(text=words if kind == "text" else "", calls=calls), Step(text="Done.")])
    async with vendor(script) as server:
        config = scripted_config(server.url, api=api, limits={"maxAnswerBytes": 50_000})
        tools = FakeTools()
        tools.add("look", schema={"type": "object", "properties": {"q": {"type": "string"}}})
        async with agent_kit(config, tools=tools) as kit:
            reply = await kit.say("Go on for ever")
    if api != "google-generative-ai":  # whose calls come in one piece
        assert not tools.calls
    if kind == "text":
        assert len(reply.text) < 60_000
        assert "cut off" in reply.text[-100:]


class Page(QuietHandler):
    """A proxy's page in place of an answer, with the status 200."""

    asked = 0

    def do_POST(self) -> None:
        type(self).asked += 1
        self.reply(b"<html><body>Please sign in.</body></html>", kind="text/html")


@every_api
async def test_a_page_in_place_of_an_answer_is_asked_for_again_and_is_none(api: str) -> None:
    Page.asked = 0
    with serving(Page) as url:
        async with agent_kit(scripted_config(url, api=api)) as kit:
            with pytest.raises(ModelUnavailable):
                await kit.say("Hello")
    assert Page.asked == 4
