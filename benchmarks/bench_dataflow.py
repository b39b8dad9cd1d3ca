"""What a megabyte of results in the conversation adds to one call, by asking where its values came from."""

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence

import anyio
from harness import Contender, compare, report
from tests.support.agent_kit import FakeTools

from openclaw.agent.toolpath.dataflow import SessionFlow
from openclaw.agent.toolpath.toolbox import Toolbox, ToolPathDeps, tool_path
from openclaw.agent.transcript import ResultItem, UserItem
from openclaw.core.clock import SystemClock
from openclaw.core.tools import CallContext, JsonObject
from openclaw.policy.dataflow.rules import FlowRules
from openclaw.secrets.redactor import Redactor

STRING = {"type": "string"}
SCHEMA = {"type": "object", "properties": {"to": STRING, "subject": STRING, "body": STRING}}
REQUEST = "Summarise my unread mail and send the summary to anna@work.example."
WORDS = [
    "alpha",
    "beta",
    "gamma",
    "invoice",
    "meeting",
    "project",
    "https://a.example/x",
    "bob@firma.example",
]
CALLS = 20


def results() -> Mapping[str, Sequence[str]]:
    chance = random.Random(1)
    words = (f"{chance.choice(WORDS)}{chance.randint(0, 99999)}" for _ in range(90_000))
    prose = " ".join(words)[:1_000_000]
    mails = [
        {
            "id": f"m{n}",
            "from": f"u{n}@firma.example",
            "body": " ".join(chance.choices(WORDS, k=20)),
        }
        for n in range(4_700)
    ]
    return {
        "no result": [],
        "1 MB of prose": [prose],
        "1 MB in 20 results": [prose[at : at + 50_000] for at in range(0, 1_000_000, 50_000)],
        "1 MB of records": [json.dumps(mails)],
    }


def path_after(texts: Sequence[str], *, checked: bool = True) -> Toolbox:
    tools = FakeTools()
    tools.add("send_email", "sent", schema=SCHEMA, server="mail")
    flow = SessionFlow(FlowRules()) if checked else None
    path = tool_path([tools], (), ToolPathDeps(Redactor(), SystemClock()), flow=flow)
    path.index_items([UserItem(REQUEST, seq=1)])
    for at, text in enumerate(texts):
        origin = {"kind": "server", "name": "mail", "tool": "list_emails"}
        path.index_items([ResultItem(f"c{at}", "list_emails", text, seq=at + 2, origin=origin)])
    return path


def per_call(texts: Sequence[str], to: str, *, checked: bool = True) -> Callable[[], float]:
    """Make the call; the figure is for one. Without a person, one that is in doubt is refused."""
    body = "Nothing special happened. " * 40
    arguments: JsonObject = {"to": to, "subject": "Summary of the day", "body": body}

    async def run() -> float:
        path = path_after(texts, checked=checked)
        started = time.perf_counter()
        for _ in range(CALLS):
            await path.call("send_email", arguments, CallContext("main", "s", "c"))
        return (time.perf_counter() - started) / CALLS

    return lambda: anyio.run(run)


def main() -> None:
    given = results()
    for what, to in {"passes": "anna@work.example", "is refused": "x@evil.example"}.items():
        contenders = [Contender("not checked", per_call([], to, checked=False))]
        contenders += [Contender(name, per_call(texts, to)) for name, texts in given.items()]
        report([compare(f"a call that {what} (goal: a megabyte adds 5 ms at most)", contenders)])


if __name__ == "__main__":
    main()
