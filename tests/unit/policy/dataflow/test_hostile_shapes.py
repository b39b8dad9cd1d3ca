"""Texts built to make a pattern run for ever. A pattern that backtracks badly hangs here."""

import pytest
from tests.unit.policy.dataflow.kit import call

from openclaw.policy.dataflow.answers import AnswerStream
from openclaw.policy.dataflow.check import check
from openclaw.policy.dataflow.rules import FlowRules
from openclaw.policy.dataflow.text_index import PERSON, Index, SeenText, TextOrigin

SIZE = 100_000
SHAPES = {
    "one word": "a" * SIZE,
    "digits": "1" * SIZE,
    "dashes": "a-" * (SIZE // 2),
    "slashes": "a/" * (SIZE // 2),
    "dots": "a." * (SIZE // 2),
    "brackets": "[" * SIZE,
    "links": "[x](a " * (SIZE // 6),
    "labels": "[" + "[a]" * (SIZE // 3),
    "titles": '](a "' * (SIZE // 5),
    "fences in a list": "- a\n" + "  ```\n  x\n  ```\n  b\n" * (SIZE // 22),
    "code in a list": f"- {'a ' * 2_000}\n  ```\n" + "  x = 1\n" * (SIZE // 8),
    "quotes": "> " * (SIZE // 4) + "\n" + "> ```\n" * (SIZE // 12),
    "html and fences": "<div>\n" + "```\nx\n" * (SIZE // 6),
    "tags": "<a " * (SIZE // 3),
    "ticks": "`a``b```" * (SIZE // 8),
    "spaces": "password" + " " * SIZE,
    "hex": "ab " * (SIZE // 3),
    "at signs": "a@" * (SIZE // 2),
    "mixed token": "aB3/" * (SIZE // 4),
    "numbers": "1 2, " * (SIZE // 5),
    "nesting": "[" * 2_000 + "1" + "]" * 2_000,
    "json depth": '{"a":' * 5_000 + "1" + "}" * 5_000,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_text_keeps_the_check_busy(shape: str) -> None:
    index = Index()
    index.add(SeenText(PERSON, "Send anna@work.example a summary."))
    index.add(SeenText(TextOrigin("server", "s", "t"), SHAPES[shape]))
    sent = call("mail.send_email", to=["anna@work.example"], subject="x", body=SHAPES[shape])
    assert check(sent, index, FlowRules()) is not None


@pytest.mark.parametrize("shape", SHAPES)
def test_no_answer_keeps_the_neutraliser_busy(shape: str) -> None:
    assert AnswerStream(()).whole(SHAPES[shape])
