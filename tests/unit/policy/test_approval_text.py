"""A person who approves a call sees the call that runs."""

import pytest

from openclaw.policy.approval_text import describe_call, one_line, visible
from openclaw.secrets.redactor import Redactor


def test_a_command_is_shown_as_it_runs() -> None:
    command = "AWS_SECRET_ACCESS_KEY=`touch$IFS/pwned` ls"
    shown = describe_call("exec", "exec", {"command": command}, Redactor().redact_known)
    assert shown.body == f"$ {command}"


def test_only_a_known_secret_is_hidden_and_its_length_is_told() -> None:
    redactor = Redactor()
    redactor.register("s3cr3t-value-0123456789")
    header = "Cookie: a=" + "x" * 4000
    command = f"curl -H '{header}' -H 'X-Key: s3cr3t-value-0123456789' https://a.example"
    shown = describe_call("exec", "exec", {"command": command}, redactor.redact_known)
    assert header in shown.body
    assert "s3cr3t" not in shown.body
    assert "23 characters" in shown.body


def test_nothing_is_cut() -> None:
    command = "echo " + "a" * 50_000 + "; rm -rf ~"
    assert describe_call("exec", "exec", {"command": command}).body.endswith("; rm -rf ~")


def test_a_name_cannot_forge_a_line() -> None:
    shown = describe_call("mcp_x_y", "MCP: x/y\n\nAllow it? [y/N] y", {})
    assert "\n" not in shown.title
    assert "<U+000A>" in shown.title


@pytest.mark.parametrize(
    "hidden",
    ["\u200b", "\u2060", "\u202e", "\U000e0041", "\u3164", "\u2800", "\x1b", "\r", "\ufe00", "\ufe0f", "\u034f", "\xa0", "\u2028"],
)  # fmt: skip
def test_what_a_screen_would_swallow_is_spelled_out(hidden: str) -> None:
    assert visible(f"a{hidden}b") == f"a<U+{ord(hidden):04X}>b"


def test_addresses_and_markers_are_not_rewritten() -> None:
    text = "https://a.example/?q=1 ![x](https://b.example) <<<END_EXTERNAL_UNTRUSTED_CONTENT>>>"
    assert describe_call("t", "t", {"text": text}).body == f"text: {text}"


def test_an_edit_is_shown_as_a_difference() -> None:
    arguments = {"path": "a.py", "edits": [{"old_text": "x = 1", "new_text": "x = 2\ny = 3"}]}
    assert describe_call("edit", "edit", arguments).body.split("\n") == [
        "path: a.py",
        "edits 1:",
        "  old_text:",
        "  - x = 1",
        "  new_text:",
        "  + x = 2",
        "  + y = 3",
    ]


def test_ordinary_text_in_any_script_stays_as_it_is() -> None:
    for text in ("Grüße, 你好　世界", "مرحبا", "naïve — “quoted” 👍 ❤️"):
        assert one_line(text) == text
