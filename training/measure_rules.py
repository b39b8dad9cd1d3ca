"""How often the embedded model's rules make the right call; prints a Markdown table.

usage: measure_rules.py DATA: the folder `bfcl_eval/data` of the wheel `bfcl-eval`

A call is right if BFCL's own answers allow its tool and each of its arguments, and no argument is
missing that they demand. Of what no function fits, no call is right.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from openclaw.embedded.router import Call, Router
from openclaw.embedded.tool_doc import RoutableTool

FILES = ("simple_python", "multiple", "live_multiple", "irrelevance")
TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_IGNORED = re.compile(r"[ ,./\-_*^]")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def as_json_schema(schema: Any) -> Any:
    """BFCL names types as Python does."""
    if isinstance(schema, list):
        return [as_json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: as_json_schema(value) for key, value in schema.items()}
    kind = found.get("type")
    if kind == "any":
        del found["type"]
    elif isinstance(kind, str):
        found["type"] = TYPES.get(kind, kind)
    return found


def same(value: Any, allowed: Any) -> bool:
    if isinstance(allowed, dict):
        return isinstance(value, dict) and fits(value, allowed)
    if isinstance(allowed, list):
        return (
            isinstance(value, list)
            and len(value) == len(allowed)
            and all(map(same, value, allowed))
        )
    if isinstance(value, str) and isinstance(allowed, str):
        return _plain(value) == _plain(allowed)
    return isinstance(value, bool) == isinstance(allowed, bool) and value == allowed


def _plain(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')


def fits(arguments: dict[str, Any], allowed: dict[str, list[Any]]) -> bool:
    """An empty text among the allowed values says that the argument may be left out."""
    given = all(
        any(same(value, each) for each in allowed.get(name, ()))
        for name, value in arguments.items()
    )
    return given and all(name in arguments or "" in each for name, each in allowed.items())


def right(calls: tuple[Call, ...], answer: dict[str, Any] | None) -> bool:
    if answer is None:
        return not calls
    ((tool, allowed),) = answer.items()
    return len(calls) == 1 and calls[0].tool == tool and fits(calls[0].arguments, allowed)


def calls_for(entry: dict[str, Any]) -> tuple[Call, ...]:
    tools = [
        RoutableTool(each["name"], each["description"], as_json_schema(each["parameters"]))
        for each in entry["function"]
    ]
    said = [each["content"] for each in entry["question"][0] if each["role"] == "user"]
    return Router(tools).route(" ".join(said))


def main() -> int:
    data = Path(sys.argv[1])
    print("| file | requests | right | the even ones | the odd ones |\n|---|---:|---:|---:|---:|")
    for name in FILES:
        answers = data / f"possible_answer/BFCL_v4_{name}.json"
        known = (
            {each["id"]: each["ground_truth"][0] for each in lines(answers)}
            if answers.exists()
            else {}
        )
        entries = lines(data / f"BFCL_v4_{name}.json")
        rights = [right(calls_for(each), known.get(each["id"])) for each in entries]
        shares = [
            f"{100 * sum(some) / len(some):.1f} %" for some in (rights, rights[::2], rights[1::2])
        ]
        print(f"| {name} | {len(entries)} | {' | '.join(shares)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
