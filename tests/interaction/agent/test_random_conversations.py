"""Random conversations, none of whose requests a vendor refuses."""

import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio
from tests.interaction.agent.test_media import picture
from tests.interaction.agent.test_vendors import two_vendors
from tests.support.agent_kit import APIS, AgentKit, FakeTools, agent_kit
from tests.support.vendors.server import Vendor, vendor
from tests.unit.models.test_tool_schema import ODD

from openclaw.agent.port import ClientResult, MessageContext
from openclaw.core.content import InboundMedia, Media, Text
from openclaw.core.errors import OpenClawError
from openclaw.core.tools import CallContext, JsonObject, ToolResult
from openclaw.models.choose import ClientTool, ModelOptions
from openclaw.testing.scripted_model import Request, Step

CONVERSATIONS, OF_A_SOAK = 24, 1000
OWN_TOOL = ClientTool("choose_colour", "Asks the user.", {"type": "object"})


@dataclass
class RandomVendor(Vendor):
    """A model that says anything, at a vendor that is not always well."""

    dice: random.Random = field(default_factory=random.Random)

    def step_for(self, request: Request) -> Step:
        self.requests.append(request)
        dice = self.dice
        if dice.random() < 0.08:
            return dice.choice(
                [
                    Step(status=500),
                    Step(status=503),
                    Step(status=429, retry_after=0),
                    Step(status=400, message="could not process image"),
                    Step(status=413, message="request too large"),
                    Step(overflow=True),
                    Step(text="word " * 30, cut_after=4),
                    Step(text="word " * 30, end_after=4),
                ]
            )
        thinking = dice.choice(["", "", "I wonder what that is. " * dice.randrange(1, 9)])
        if dice.random() < 0.5 and request.tools:
            text = dice.choice(["", "\n", "I will look."])
            return Step(text=text, thinking=thinking, calls=self._calls(request))
        text = dice.choice(["Fine. " + "y" * dice.randrange(900), "", " \n"])
        return Step(text=text, thinking=thinking)

    def _calls(self, request: Request) -> tuple[tuple[str, JsonObject | str], ...]:
        dice = self.dice
        broken = [] if request.api == "google" else ['{"a": "', "[1]", ""]
        arguments = [{}, {"path": "a.txt"}, {"text": "x" * dice.randrange(2_000)}, *broken]
        invented = ["fs.read", "a tool", "2fa", "x" * 99, ""]
        names = [*request.tools, "look", "shoot", OWN_TOOL.name, dice.choice(invented)]
        return tuple(
            (dice.choice(names), dice.choice(arguments)) for _ in range(dice.randrange(1, 6))
        )


def some_tools(dice: random.Random) -> FakeTools:
    async def look(arguments: JsonObject, context: CallContext) -> ToolResult:
        return ToolResult(blocks=(Text("z" * dice.randrange(3_000)),))

    async def shoot(arguments: JsonObject, context: CallContext) -> ToolResult:
        return ToolResult(blocks=(Media("image/png", data=picture(dice.randrange(50))),))

    async def fail(arguments: JsonObject, context: CallContext) -> ToolResult:
        raise RuntimeError("no")

    tools = FakeTools()
    for name, does in (("look", look), ("shoot", shoot), ("fail", fail)):
        tools.add(name, does)
    tools.add("update_plan", "noted")
    for name in dice.sample(list(ODD), 3):
        tools.add(f"mcp_odd_{list(ODD).index(name)}", schema=ODD[name], server="odd")
    return tools


async def test_no_request_of_random_conversations_is_refused(soaking: bool) -> None:
    sent = 0
    for seed in range(OF_A_SOAK if soaking else CONVERSATIONS):
        dice = random.Random(seed)
        first, second = PAIRS[seed % len(PAIRS)]
        vendors = [RandomVendor(account=f"account {n}", dice=dice) for n in (1, 2)]
        async with AsyncExitStack() as stack:
            urls = [(await stack.enter_async_context(vendor(one))).url for one in vendors]
            window = {"contextWindow": dice.choice([6_000, 20_000])}
            config = two_vendors(
                list(zip(urls, (first, second), strict=True)), maxTokens=4096, **window
            )
            kit = await stack.enter_async_context(agent_kit(config, tools=some_tools(dice)))
            for _ in range(dice.randrange(1, 6)):
                await say_something(kit, dice)
        refused = [one.message for script in vendors for one in script.refused]
        assert (seed, first, second, refused) == (seed, first, second, [])
        sent += sum(len(script.requests) for script in vendors)
    assert sent > CONVERSATIONS


PAIRS = [(one, other) for one in APIS for other in APIS]


async def say_something(kit: AgentKit, dice: random.Random) -> None:
    media = tuple(
        InboundMedia(Media("image/png", data=picture(dice.randrange(99))))
        for _ in range(dice.choice([0, 0, 0, 1, 3]))
    )
    more: dict[str, Any] = {"thinking": dice.choice([None, "low", "medium", "high"])}
    if dice.random() < 0.3:
        more["options"] = ModelOptions(tools=(OWN_TOOL,))
    text = dice.choice(["hello", "go on " * dice.randrange(1, 200), "/compact"])
    context = MessageContext(text, "s", media=media, prompt_calls=True, **more)
    with anyio.move_on_after(dice.choice([0.02, 60, 60, 60, 60])):
        try:
            reply = await kit.reply(context)
            if reply.calls and dice.random() < 0.8:
                results = tuple(ClientResult(call.id, "blue") for call in reply.calls)
                await kit.reply(MessageContext("", "s", results=results, **more))
        except OpenClawError:
            return
