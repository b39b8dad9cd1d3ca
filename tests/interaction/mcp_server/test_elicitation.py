"""What the agent's MCP servers ask is handed on to the client's person, where the client can ask."""

from typing import Any

import mcp_types as types
import pytest
from mcp.client.session import ClientRequestContext
from tests.interaction.mcp_server.conftest import Connect, Setup
from tests.support import disguised_call
from tests.support.fake_server import server_entry
from tests.support.mcp_server_kit import fake_tool

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"colour": {"type": "string"}}}
SERVER = {
    "tools": [
        fake_tool("ask", elicit={"message": "Which one?", "requestedSchema": SCHEMA}),
        fake_tool(
            "visit",
            elicit={
                "mode": "url",
                "message": "Log in.",
                "url": "https://example.com/login",
                "elicitationId": "e1",
            },
        ),
    ]
}
RULES = [
    Step(when="visit", role="user", calls=(("mcp_fake_visit", {}),)),
    Step(role="user", calls=(("mcp_fake_ask", {}),)),
    Step(role="tool", text="It said {last}"),
]
ORDER = "order_openclaw"


class Person:
    """Says red, and yes."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        self.asked.append(params.message)
        if isinstance(params, types.ElicitRequestURLParams):
            self.asked.append(params.url)
            return types.ElicitResult(action="accept")
        return types.ElicitResult(action="accept", content={"colour": "red"})


def said(result: Any) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_servers_question_reaches_the_clients_person(
    setup: Setup, connect: Connect, mode: str
) -> None:
    person = Person()
    async with scripted_model(rules=RULES) as model:
        setup.configure(model.url, {"fake": server_entry(SERVER)})
        async with connect(elicitation_callback=person, mode=mode) as client:
            form = await client.call_tool(ORDER, {"message": "go"})
            visit = await client.call_tool(ORDER, {"message": "visit"})
    assert '"colour": "red"' in said(form)
    assert '"action": "accept"' in said(visit)
    assert person.asked == [
        "MCP server 'fake' asks: Which one?",
        "MCP server 'fake' asks: Log in.",
        "https://example.com/login",
    ]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_where_the_client_cannot_ask_a_question_is_declined(
    setup: Setup, connect: Connect, mode: str
) -> None:
    async with scripted_model(rules=RULES) as model:
        setup.configure(model.url, {"fake": server_entry(SERVER)})
        async with connect(mode=mode) as client:
            answer = await client.call_tool(ORDER, {"message": "go"})
    assert '"decline"' in said(answer)


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        (types.ElicitResult(action="accept", content={"answer": "once"}), True),
        (types.ElicitResult(action="accept", content={"answer": "session"}), True),
        (types.ElicitResult(action="accept", content={"answer": "no", "reason": "late"}), False),
        (types.ElicitResult(action="accept", content={"answer": "sure"}), False),
        (types.ElicitResult(action="accept"), False),
        (types.ElicitResult(action="decline"), False),
    ],
)
async def test_the_clients_person_agrees_to_a_tool_or_does_not(
    setup: Setup, connect: Connect, answer: types.ElicitResult, allowed: bool
) -> None:
    asked: list[str] = []

    async def person(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        asked.append(params.message)
        return answer

    rules = [
        Step(role="user", calls=(("mcp_fake_echo", {"x": "a"}),)),
        Step(role="tool", text="It said {last}"),
    ]
    async with scripted_model(rules=rules) as model:
        servers = {"fake": server_entry({"tools": [fake_tool("echo")]})}
        setup.configure(model.url, servers, tools={"ask": ["mcp_fake_*"]})
        async with connect(elicitation_callback=person, mode="legacy") as client:
            reply = said(await client.call_tool(ORDER, {"message": "go"}))
    assert asked == ["Echo (fake/echo)?\n\nx: a"]
    assert ("EXTERNAL" in reply, "did not allow" in reply) == (allowed, not allowed)
    assert ("They say: late" in reply) is bool(answer.content and answer.content.get("reason"))


async def test_the_clients_person_is_shown_the_call_that_runs(
    setup: Setup, connect: Connect
) -> None:
    asked: list[str] = []

    async def person(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="decline")

    rules = [
        Step(role="user", calls=(("write", disguised_call.ARGUMENTS),)),
        Step(role="tool", text="It said {last}"),
    ]
    async with scripted_model(rules=rules) as model:
        setup.configure(model.url, {}, tools={"ask": ["write"]})
        async with connect(elicitation_callback=person, mode="legacy") as client:
            await client.call_tool(ORDER, {"message": "go"})
    assert asked == [f"{disguised_call.TITLE}\n\n{disguised_call.BODY}"]
