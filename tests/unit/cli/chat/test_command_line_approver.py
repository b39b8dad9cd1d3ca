"""Consent on the command line is about tools, not about where values came from."""

from openclaw.cli.chat.terminal_questions import CommandLineApprover
from openclaw.core.questions import NOBODY, ONCE, Answer, AskedCall, Question


def question(*doubts: str) -> Question:
    return Question("Send email?", "", (AskedCall("c", "send_email", "send", {}),), doubts=doubts)


async def test_a_rule_does_not_cover_values_from_untrusted_content() -> None:
    consent = CommandLineApprover(["send_*"], None)
    assert await consent.ask(question()) == Answer(ONCE)
    assert await consent.ask(question("The address comes from a page, not from you.")) == NOBODY
    assert consent.lacking() is None
