"""Rules about single calls."""

import pytest

from openclaw.policy.command_forms import FORMS
from openclaw.policy.decide import covers, problem_of_rule, rule_for, what_it_covers


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git status --short", "exec(git status *)"),
        ("pytest tests/unit -k 'parser and not slow'", "exec(pytest *)"),
        ("npm test", "exec(npm test)"),
        ("uv pip list", "exec(uv pip list)"),
        ("docker container ls", "exec(docker container ls)"),
        ("make", "exec(make)"),
        ("git status; rm -rf ~", "exec(git status; rm -rf ~)"),
        ("git status | tee x", "exec(git status | tee x)"),
        ("A=1 git status", "exec(A=1 git status)"),
        ("git log --output=x", "exec(git log --output=x)"),
        ("echo 'half", "exec(echo 'half)"),
        ("rm *", None),  # as a rule, its end would mean something else
    ],
)
def test_a_longer_yes_covers_a_reviewed_form_or_exactly_this_command(
    command: str, rule: str | None
) -> None:
    assert rule_for("exec", {"command": command}) == rule
    if rule is not None:
        assert problem_of_rule(rule) is None
        assert covers(rule, "exec", {"command": command})


@pytest.mark.parametrize(
    ("rule", "command", "covered"),
    [
        ("exec(git status *)", "git status", True),
        ("exec(git status *)", "git  status -s", True),
        ("EXEC( git status * )", "git status", True),
        ("exec(git status *)", "git statusx", False),
        ("exec(git status *)", "git stash", False),
        ("exec(git status *)", "git log", False),
        ("exec(ls -la)", "ls -la", True),
        ("exec(ls -la)", "ls -la /etc", False),
        ("exec(make test *)", "make test", False),
        ("exec( *)", "ls", False),
        ("exec(*)", "ls", False),
        ("exec", "anything; at all", True),
    ],
)
def test_a_rule_for_commands_covers_what_it_says(rule: str, command: str, covered: bool) -> None:
    assert covers(rule, "exec", {"command": command}) is covered


def test_a_rule_for_commands_is_about_no_other_tool() -> None:
    assert not covers("exec(ls)", "mcp_shell_exec", {"command": "ls"})
    assert not covers("exec(ls)", "exec", {"command": ["ls"]})


def test_rules_for_tools_are_names_and_globs() -> None:
    assert rule_for("mcp_mail_send", {"to": "ann"}) == "mcp_mail_send"
    assert covers("mcp_mail_*", "mcp_mail_send", {})
    assert not covers("mcp_mail_send", "mcp_mail_send_all", {})


def test_a_rule_can_be_said_in_words() -> None:
    assert what_it_covers("write") == "every call of write"
    assert what_it_covers("exec(npm test)") == "exactly this command, in any directory here"
    said = {what_it_covers(f"exec({form.rule})") for form in FORMS}
    assert len(said) == len(FORMS)
    assert all(f"`{form.words}`" in form.does for form in FORMS)


@pytest.mark.parametrize("rule", ["", "exec()", "exec(make test *)", "exec(*)", "mail(x)"])
def test_a_rule_that_covers_nothing_has_a_problem(rule: str) -> None:
    assert problem_of_rule(rule)
