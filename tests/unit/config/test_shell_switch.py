"""`tools.exec` is a switch of its own, whatever the lists beside it say."""

from typing import Any

import pytest

from openclaw.config.merge import effective_agents
from openclaw.config.schema import Config
from openclaw.policy.decide import PolicyOutcome, decide
from openclaw.runtime.host import policy_of


def outcomes(config: dict[str, Any], agent: str = "main") -> dict[str, str]:
    policy = policy_of(effective_agents(Config.model_validate(config))[agent])
    words = {PolicyOutcome.ALLOW: "allow", PolicyOutcome.ASK: "ask", PolicyOutcome.DENY: "deny"}
    return {name: words[decide(policy, name).outcome] for name in ("exec", "jobs", "read")}


def said(exec: str, jobs: str = "allow", read: str = "allow") -> dict[str, str]:
    return {"exec": exec, "jobs": jobs, "read": read}


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ({}, said("ask")),
        ({"exec": "off"}, said("deny", "deny")),
        ({"exec": "ask"}, said("ask")),
        ({"exec": "allow"}, said("allow")),
        ({"exec": {"security": "deny"}}, said("deny", "deny")),
        ({"exec": {"security": "allowlist", "ask": "on-miss"}}, said("ask")),
        ({"exec": {"security": "full", "ask": "always"}}, said("ask")),
        ({"exec": {"security": "full"}}, said("allow")),
        ({"exec": {"ask": "off"}}, said("ask")),
        ({"exec": {"timeoutSec": 5}}, said("ask")),
        # a list that names it is a switch as well, and forbids nothing else
        ({"allow": ["exec"]}, said("allow")),
        ({"allow": ["EXEC ", "read"]}, said("allow")),
        ({"ask": ["exec"]}, said("ask")),
        ({"allow": ["exec"], "ask": ["exec"]}, said("ask")),
        ({"allow": ["exec"], "exec": "ask"}, said("ask")),
        # a list that does not name it leaves it out, unless it is switched on beside it
        ({"allow": ["read"]}, said("deny", "deny")),
        ({"allow": ["read"], "exec": "ask"}, said("ask")),
        ({"allow": ["list"], "exec": "allow"}, said("allow", "allow", "deny")),
        # deny wins
        ({"exec": "allow", "deny": ["exec"]}, said("deny", "deny")),
        ({"exec": "allow", "deny": ["*"]}, said("deny", "deny", "deny")),
    ],
)
def test_the_switch_says_what_commands_need(
    tools: dict[str, Any], expected: dict[str, str]
) -> None:
    assert outcomes({"tools": tools}) == expected
    assert outcomes({"agents": {"defaults": {"tools": tools}}}) == expected
    assert outcomes({"agents": {"list": [{"id": "main", "tools": tools}]}}) == expected


def test_an_agents_own_list_narrows_what_all_have() -> None:
    agents = {"list": [{"id": "main"}, {"id": "reader", "tools": {"allow": ["read"]}}]}
    config = {"tools": {"exec": "allow"}, "agents": agents}
    assert outcomes(config) == said("allow")
    assert outcomes(config, "reader") == said("deny", "deny")


def test_an_agents_own_switch_stands_over_that_of_all() -> None:
    agents = {"list": [{"id": "main", "tools": {"exec": "off"}}, {"id": "other"}]}
    config = {"tools": {"exec": "allow"}, "agents": agents}
    assert outcomes(config) == said("deny", "deny")
    assert outcomes(config, "other") == said("allow")


def test_details_are_merged_key_by_key() -> None:
    config = Config.model_validate(
        {
            "tools": {"exec": {"timeoutSec": 5, "inheritEnv": ["A"]}},
            "agents": {"list": [{"id": "main", "tools": {"exec": {"sandbox": "off"}}}]},
        }
    )
    shell = effective_agents(config)["main"].exec
    assert (shell.timeout_ms, shell.inherit_env, shell.sandbox.mode) == (5000, ("A",), "off")


@pytest.mark.parametrize("wrong", ["sometimes", True, 3, {"security": "none"}])
def test_what_means_nothing_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="exec"):
        Config.model_validate({"tools": {"exec": wrong}})
