"""Checks the emulated vendors' rules against recorded traffic (VCR cassettes).

    python -m tests.support.vendors.recordings DIRECTORY

Every request that a vendor accepted has to pass, and every one that it refused has to be refused.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from openclaw.testing.scripted_wire import Api
from tests.support.vendors.rules import Conversation
from tests.support.vendors.server import refusal

_HOSTS = re.compile(r"api\.openai\.com|api\.anthropic\.com|generativelanguage\.googleapis\.com")
_PATHS: tuple[tuple[str, Api], ...] = (
    (r"//api\.openai\.com/v1/chat/completions$", "chat"),
    (r"//api\.openai\.com/v1/responses$", "responses"),
    (r"//api\.anthropic\.com/v1/messages$", "anthropic"),
    (r"//generativelanguage\.googleapis\.com/.*:(stream)?[gG]enerateContent$", "google"),
)


@dataclass(frozen=True, slots=True)
class Exchange:
    source: str
    api: Api
    request: Conversation
    accepted: bool


def exchanges(directory: Path) -> Iterator[Exchange]:
    for file in sorted(directory.rglob("*.yaml")):
        text = file.read_text(errors="replace")
        if _HOSTS.search(text) is None:
            continue
        loaded: Any = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for number, recorded in enumerate(loaded.get("interactions", ())):
            asked = recorded["request"]
            path = str(asked["uri"]).partition("?")[0]
            api: Api | None = next(
                (api for pattern, api in _PATHS if re.search(pattern, path)), None
            )
            if api is None or asked["method"] != "POST":
                continue
            body = asked.get("parsed_body") or json.loads(asked["body"])
            model = body.get("model") or path.rpartition("/models/")[2].partition(":")[0]
            accepted = recorded["response"]["status"]["code"] == 200
            yield Exchange(f"{file.name}#{number}", api, Conversation(body, model), accepted)


def main(directory: Path) -> int:
    counts: Counter[str] = Counter()
    wrong = 0
    for one in exchanges(directory):
        refused = refusal(one.api, one.request)
        counts[f"{one.api}: {'accepted' if one.accepted else 'refused'}"] += 1
        if (refused is None) != one.accepted:
            wrong += 1
            said = refused.message if refused is not None else "(accepted)"
            sys.stdout.write(f"{one.api} {one.source}: {said[:200]}\n")
    sys.stdout.writelines(f"{name}: {count}\n" for name, count in sorted(counts.items()))
    sys.stdout.write(f"{wrong} judged otherwise than by the vendor\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
