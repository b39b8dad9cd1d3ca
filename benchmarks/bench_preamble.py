"""What stands before a conversation, in tokens: the first request of a session and the second.

    python benchmarks/bench_preamble.py

prints the table of docs/reference/tools.md. Tokens are by our own estimate, which is
rather too high.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import anyio

from openclaw.agent.budget import estimate
from openclaw.testing.scripted_model import Step, scripted_model

NOTES = 20
SKILLS = 5


def prepare(home: Path, url: str) -> dict[str, str]:
    state = home / ".openclaw"
    (state / "memory" / "main").mkdir(parents=True, mode=0o700)
    notes = (f"- 2026-01-{n + 1:02}: The person likes fact number {n}.\n" for n in range(NOTES))
    (state / "memory" / "main" / "MEMORY.md").write_text("".join(notes))
    for number in range(SKILLS):
        folder = state / "skills" / f"skill-{number}"
        folder.mkdir(parents=True)
        what = f"How this team does task number {number}, step by step."
        (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: {what}\n---\nX\n")
    provider = {"baseUrl": f"{url}/v1", "apiKey": "k", "models": [{"id": "m"}]}
    entry = {**provider, "models": [{"id": "m", "contextWindow": 200_000}]}
    (state / "openclaw.json").write_text(json.dumps({"models": {"providers": {"acme": entry}}}))
    (state / "openclaw.json").chmod(0o600)
    return {**os.environ, "HOME": str(home), "OPENCLAW_STATE_DIR": str(state)}


def parts(body: Any) -> dict[str, str]:
    """The request, cut into what it is made of."""
    messages = body["messages"]
    system = "\n\n".join(m["content"] for m in messages if m["role"] in ("system", "developer"))
    prompt, _, rest = system.partition("# Memory:")
    memory, _, skills = rest.partition("# Skills")
    said = [m for m in messages if m["role"] not in ("system", "developer")]
    return {
        "system prompt": prompt,
        "tools": json.dumps(body["tools"], separators=(",", ":")),
        f"memory ({NOTES} notes)": memory,
        f"skills ({SKILLS})": skills,
        "conversation": json.dumps(said),
    }


async def requests() -> list[Any]:
    async with scripted_model(default=Step(text="Hello.")) as model:
        with tempfile.TemporaryDirectory() as place:
            home = Path(place)
            environ = prepare(home, model.url)
            (home / "project").mkdir()
            for text in ("Hello.", "And again."):
                command = [sys.executable, "-m", "openclaw", "agent", "--session-key", "k", text]
                await anyio.run_process(
                    command, env=environ, cwd=home / "project", stderr=subprocess.PIPE
                )
        return [request.body for request in model.requests]


def table(bodies: list[Any], count: Callable[[str], int] = estimate) -> str:
    cold, warm = map(parts, bodies)
    rows = ["| | first request | second | of it as before |", "|---|---|---|---|"]
    totals = [0, 0, 0]
    for name, text in cold.items():
        again = warm[name]
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(text, again, strict=False))))
        figures = (count(text), count(again), count(again[:same]))
        totals = [a + b for a, b in zip(totals, figures, strict=True)]
        rows.append(f"| {name} | {' | '.join(f'{one:,}' for one in figures)} |")
    rows.append(f"| all | {' | '.join(f'{one:,}' for one in totals)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(table(anyio.run(requests)) + "\n")
