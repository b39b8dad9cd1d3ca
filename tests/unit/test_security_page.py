"""The promises in SECURITY.md name tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_test_that_is_named_exists() -> None:
    named = NAMED.findall((ROOT / "SECURITY.md").read_text())
    assert len(named) > 40
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]
    assert missing == []


def test_the_threat_model_says_of_every_promise_what_it_does_not_cover() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    promised = text[text.index("## What is promised") : text.index("## What is not promised")]
    titles = re.findall(r"^### (.+)$", promised, re.MULTILINE)
    model = (ROOT / "docs" / "explanation" / "threat-model.md").read_text()
    rows = {
        row.split("|")[1].strip(): row.split("|")[4].strip()
        for row in model.splitlines()
        if row.count("|") == 5
    }
    assert len(titles) > 10
    assert [title for title in titles if not rows.get(title)] == []
