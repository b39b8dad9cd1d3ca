"""What tools cost the context, how long a search takes, and whether the list stays the same.

usage: bench_tools.py [TOOLS ...] [--json]

For each number of made-up tools, of one server per seven. The list of tools is taken from the
requests that a scripted model recorded over several steps and turns. Tokens are reckoned from the
JSON that was sent. `build_ms` and `reopen_ms` are the first search of a process, without and with
the index in a file; both hash the catalogue and read the word vectors.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
from tests.support.agent_kit import FakeTools, agent_kit, scripted_config

from openclaw.agent.budget import estimate
from openclaw.agent.toolpath.search import ToolSearch
from openclaw.discovery.vectors import load_vectors
from openclaw.testing.scripted_model import Request, Step, scripted_model

VERBS = [
    "list",
    "get",
    "create",
    "update",
    "delete",
    "search",
    "send",
    "export",
    "import",
    "archive",
    "merge",
    "convert",
]
THINGS = [
    "issue",
    "invoice",
    "customer",
    "file",
    "message",
    "event",
    "repository",
    "branch",
    "ticket",
    "page",
    "order",
    "parcel",
    "recording",
    "picture",
    "contact",
    "calendar",
    "document",
    "table",
    "report",
    "forecast",
    "route",
    "payment",
]
SERVERS = [
    "github",
    "files",
    "mail",
    "sky",
    "shop",
    "desk",
    "bank",
    "maps",
    "music",
    "notes",
    "crm",
    "wiki",
    "ship",
    "photo",
]
QUERIES = [f"{verb} a {thing}" for verb in VERBS for thing in THINGS]
CONTEXT = 200_000
SEARCHES = 200


@dataclass
class Figures:
    tools: int
    all_tokens: int
    first_tokens: int
    shown: int
    lists_in_7_requests: int
    build_ms: float
    reopen_ms: float
    search_ms: float
    slowest_ms: float


def catalogue(count: int) -> FakeTools:
    tools, chance = FakeTools(), random.Random(7)
    tools.add("read", description="Read a file.")
    for number in range(count):
        server = f"{SERVERS[number // 7 % len(SERVERS)]}{number // 7 // len(SERVERS) or ''}"
        verb, thing = chance.choice(VERBS), chance.choice(THINGS)
        names = chance.sample(THINGS, 3)
        schema = {
            "type": "object",
            "properties": {
                f"{name}_id": {"type": "string", "description": f"Which {name} it is about."}
                for name in names
            },
            "required": [f"{names[0]}_id"],
        }
        tools.add(
            f"mcp_{server}_{verb}_{thing}_{number}",
            description=f"{verb.capitalize()} a {thing} of the account, by its {names[0]}. "
            f"Returns the {thing} as JSON with its {names[1]} and {names[2]}.",
            schema=schema,
            server=server,
        )
    return tools


def sent(request: Request) -> str:
    return json.dumps(request.body["tools"])


async def requests_of(tools: FakeTools) -> Sequence[Request]:
    """Four turns of seven requests, without a search."""
    steps = [
        Step(calls=(("read", {}),)),
        Step(calls=(("read", {}),)),
        Step(text="one"),
        Step(text="two"),
        Step(calls=(("read", {}),)),
        Step(text="three"),
        Step(text="four"),
    ]
    model_entry = {"contextWindow": CONTEXT}
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url, model=model_entry), tools=tools) as kit,
    ):
        for text in ("Send the invoice to the customer", "Where is the parcel?", "go on", "thanks"):
            await kit.say(text)
    return model.requests


def measured(milliseconds: Sequence[float]) -> tuple[float, float]:
    return statistics.median(milliseconds), max(milliseconds)


async def figures(count: int) -> Figures:
    tools = catalogue(count)
    specs = tools.specs()
    requests = await requests_of(tools)
    lists = {sent(request) for request in requests}
    whole = [
        {"name": spec.name, "description": spec.description, "parameters": spec.input_schema}
        for spec in specs
    ]
    with tempfile.TemporaryDirectory() as directory:
        times: list[float] = []
        finder = ToolSearch()
        for _ in range(2):  # the second finds the file of the first
            load_vectors.cache_clear()
            finder = ToolSearch(Path(directory))
            started = time.perf_counter()
            await finder.find(specs, ["send an invoice"], 5)
            times.append((time.perf_counter() - started) * 1000)
        took: list[float] = []
        for query in random.Random(1).sample(QUERIES, min(SEARCHES, len(QUERIES))):
            started = time.perf_counter()
            await finder.find(specs, [query], 5)
            took.append((time.perf_counter() - started) * 1000)
    median, slowest = measured(took)
    return Figures(
        tools=count,
        all_tokens=estimate(json.dumps(whole)),
        first_tokens=estimate(sent(requests[0])),
        shown=len(requests[0].tools),
        lists_in_7_requests=len(lists),
        build_ms=round(times[0], 1),
        reopen_ms=round(times[1], 1),
        search_ms=round(median, 2),
        slowest_ms=round(slowest, 2),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="*", type=int, default=[50, 500, 5000])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for count in options.tools:
        found = asdict(anyio.run(lambda n=count: figures(n)))
        if options.json:
            print(json.dumps(found))
        else:
            print("  ".join(f"{name} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
