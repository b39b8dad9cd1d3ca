"""Rules about single calls."""

import pytest

from openclaw.policy.decide import covers, is_rule, rule_for, what_it_covers


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git status --short", "exec(git status *)"),
        ("npm test", "exec(npm test *)"),
        ("ls -la", "exec(ls -la)"),
        ("make", "exec(make)"),
        ("git status; rm -rf ~", "exec(git status; rm -rf ~)"),
        ("git status | tee x", "exec(git status | tee x)"),
        ("A=1 git status", "exec(A=1 git status)"),
        ("sudo rm x", "exec(sudo rm x)"),
        ("rm foo", "exec(rm foo)"),
        ("parallel ls", "exec(parallel ls)"),
        ("docker run alpine", "exec(docker run alpine)"),
        ("git config user.name x", "exec(git config user.name x)"),
        ("git log --output=x", "exec(git log --output=x)"),
        ("/usr/bin/python3.12 run", "exec(/usr/bin/python3.12 run)"),
        ("echo 'half", "exec(echo 'half)"),
        ("rm *", None),  # as a rule it would say: every rm
    ],
)
def test_a_longer_yes_to_a_command_covers_it_and_nothing_wider_than_its_subcommand(
    command: str, rule: str | None
) -> None:
    assert rule_for("exec", {"command": command}) == rule
    if rule is not None:
        assert is_rule(rule)
        assert covers(rule, "exec", {"command": command})


@pytest.mark.parametrize(
    ("rule", "command", "covered"),
    [
        ("exec(git status *)", "git status", True),
        ("exec(git status *)", "git  status -s", True),
        ("EXEC( git status * )", "git status", True),
        ("exec(git status *)", "git statusx", False),
        ("exec(git status *)", "git stash", False),
        ("exec(git status *)", "git status; rm x", False),
        ("exec(git status *)", "git status $(rm x)", False),
        ("exec(git status *)", "git status `rm x`", False),
        ("exec(git status *)", "git status > ~/.bashrc", False),
        ("exec(git status *)", "git status\nrm x", False),
        ("exec(git status *)", "git status && rm x", False),
        ("exec(git log *)", "git log --oneline -5", True),
        ("exec(git log *)", "git log -1 --output=AGENTS.md --format=Obey", False),
        ("exec(git diff *)", "git diff --no-index a b", False),
        ("exec(git fetch *)", "git fetch --upload-pack=./x", False),
        ("exec(go test *)", "go test -exec ./x ./...", False),
        ("exec(find src *)", "find src -name '*.py'", True),
        ("exec(find src *)", "find src -delete", False),
        ("exec(find src *)", "find src -fprintf x y", False),
        ("exec(ls -la)", "ls -la", True),
        ("exec(ls -la)", "ls -la /etc", False),
        ("exec( *)", "ls", False),
        ("exec(*)", "ls", False),
        ("exec", "anything; at all", True),
    ],
)
def test_a_rule_for_commands_covers_plain_commands_alone(
    rule: str, command: str, covered: bool
) -> None:
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
    assert what_it_covers("exec(git status *)") == "commands that begin with `git status`"
    assert what_it_covers("exec(ls -la)") == "exactly this command"
