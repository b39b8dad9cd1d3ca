"""Consent on the command line is about tools, not about where values came from."""

from openclaw.cli.chat.terminal_questions import CommandLineApprover
from openclaw.core.tools import NO, ONCE, ApprovalAnswer, PermissionRequest


def request(*, doubt: bool) -> PermissionRequest:
    return PermissionRequest("c", "send_email", "send", {}, "send", "", doubt=doubt)


async def test_a_rule_does_not_cover_values_from_untrusted_content() -> None:
    consent = CommandLineApprover(["send_*"], None)
    assert await consent.permit(request(doubt=False)) == ApprovalAnswer(ONCE)
    refused = await consent.permit(request(doubt=True))
    assert refused.choice == NO
    assert "nobody could be asked" in refused.reason
    assert consent.lacking() is None
