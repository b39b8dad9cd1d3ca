"""What the configuration means for each agent."""

from pathlib import Path

import pytest

from openclaw.config.agent_schema import ModelChoice
from openclaw.config.load import parse_config
from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.config.schema import Config


def config(text: str) -> Config:
    return parse_config(text, {}, source=Path("openclaw.json")).config


def agents(text: str) -> dict[str, EffectiveAgent]:
    return effective_agents(config(text))


def test_with_no_agents_listed_there_is_one_called_main() -> None:
    everyone = effective_agents(Config())
    assert list(everyone) == ["main"]
    assert everyone["main"].model is None
    assert everyone["main"].servers == {}
    assert everyone["main"].name == "main"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "main"),
        ("{ agents: { list: [{ id: 'a' }, { id: 'b' }] } }", "a"),
        ("{ agents: { list: [{ id: 'a' }, { id: 'main' }] } }", "main"),
        ("{ agents: { list: [{ id: 'main' }, { id: 'b', default: true }] } }", "b"),
    ],
)
def test_the_default_agent_is_the_marked_one_else_main_else_the_first(
    text: str, expected: str
) -> None:
    assert default_agent_id(config(text)) == expected


@pytest.mark.requirement("US-4.2")
def test_an_agents_server_is_laid_over_the_default_key_by_key() -> None:
    everyone = agents("""{ agents: {
      defaults: { mcp: { servers: {
        time: { command: "uvx", args: ["time"], env: { A: "1", B: "2" }, sandbox: { mode: "auto", read: ["/x"] } },
      } } },
      list: [
        { id: "plain" },
        { id: "own", mcp: { servers: { time: { toolTimeout: 5, env: { B: "3", C: 4 }, sandbox: "strict" } } } },
      ],
    } }""")
    assert everyone["plain"].servers["time"].tool_timeout == 60_000
    own = everyone["own"].servers["time"]
    assert (own.command, own.args, own.tool_timeout) == ("uvx", ("time",), 5)
    assert own.env == {"A": "1", "B": "3", "C": "4"}
    assert (own.sandbox.mode, own.sandbox.read) == ("strict", ("/x",))


@pytest.mark.requirement("US-4.2")
def test_switching_a_server_off_removes_it_for_that_agent_alone() -> None:
    everyone = agents("""{ agents: {
      defaults: { mcp: { servers: { time: { command: "uvx" }, off: { command: "x", enabled: false } } } },
      list: [
        { id: "a", mcp: { servers: { time: { enabled: false } } } },
        { id: "b", mcp: { servers: { off: { enabled: true }, never: { enabled: false } } } },
      ],
    } }""")
    assert list(everyone["a"].servers) == []
    assert sorted(everyone["b"].servers) == ["off", "time"]


@pytest.mark.requirement("US-4.1")
def test_top_level_servers_are_servers_of_every_agent() -> None:
    everyone = agents("""{
      mcp: { servers: { one: { command: "x", lazy: true }, two: { command: "y" } } },
      agents: { defaults: { mcp: { servers: { one: { toolTimeout: 7 } } } }, list: [{ id: "a" }] },
    }""")
    servers = everyone["a"].servers
    assert sorted(servers) == ["one", "two"]
    assert (servers["one"].command, servers["one"].lazy, servers["one"].tool_timeout) == (
        "x",
        True,
        7,
    )


def test_headers_are_merged_without_regard_to_case() -> None:
    everyone = agents("""{ agents: {
      defaults: { mcp: { servers: { d: { url: "http://a", headers: { Authorization: "old", X: "1" } } } } },
      list: [{ id: "a", mcp: { servers: { d: { headers: { authorization: "new" } } } } }],
    } }""")
    assert everyone["a"].servers["d"].headers == {"X": "1", "authorization": "new"}


def test_an_agent_may_reach_a_default_server_in_another_way() -> None:
    everyone = agents("""{ agents: {
      defaults: { mcp: { servers: {
        local: { command: "uvx", args: ["x"], timeout: 9 },
        remote: { url: "https://a/mcp", transport: "sse", headers: { X: "1" } },
      } } },
      list: [{ id: "a", mcp: { servers: {
        local: { url: "http://127.0.0.1:1/mcp" },
        remote: { command: "npx" },
      } } }],
    } }""")
    local, remote = everyone["a"].servers["local"], everyone["a"].servers["remote"]
    assert (local.kind, local.command, local.args, local.timeout) == ("http", None, (), 9)
    assert (remote.kind, remote.url, remote.headers) == ("stdio", None, {})


def test_a_model_given_as_text_keeps_the_default_fallbacks_and_a_list_replaces_them() -> None:
    everyone = agents("""{ agents: {
      defaults: { model: { primary: "openai/a", fallbacks: ["openai/b"] } },
      list: [
        { id: "same" },
        { id: "other", model: "anthropic/c" },
        { id: "alone", model: { primary: "anthropic/c", fallbacks: [] } },
        { id: "more", model: { fallbacks: ["google/d"] } },
      ],
    } }""")
    assert {name: agent.model for name, agent in everyone.items()} == {
        "same": ModelChoice(primary="openai/a", fallbacks=("openai/b",)),
        "other": ModelChoice(primary="anthropic/c", fallbacks=("openai/b",)),
        "alone": ModelChoice(primary="anthropic/c"),
        "more": ModelChoice(primary="openai/a", fallbacks=("google/d",)),
    }


def test_defaults_may_give_fallbacks_for_agents_that_name_their_own_model() -> None:
    everyone = agents("""{ agents: {
      defaults: { model: { fallbacks: ["openai/b"] } }, list: [{ id: "a", model: "openai/a" }],
    } }""")
    assert everyone["a"].model == ModelChoice(primary="openai/a", fallbacks=("openai/b",))


@pytest.mark.requirement("D-4")
def test_everything_else_is_the_agents_own_or_the_defaults() -> None:
    everyone = agents("""{ agents: {
      defaults: { workspace: "~/w", systemPrompt: "p", limits: { maxSteps: 3, timeoutMs: 9 },
                  contextFiles: ["A.md"], toolSearchLimit: 5, temperature: 0.5 },
      list: [{ id: "a", name: "Ann", workspace: "/b", limits: { maxSteps: 4 }, systemPrompt: null }],
    } }""")
    agent = everyone["a"]
    assert (agent.name, agent.workspace, agent.system_prompt) == ("Ann", "/b", None)
    assert (agent.limits.max_steps, agent.limits.timeout_ms) == (4, 9)
    assert (agent.context_files, agent.tool_search_limit, agent.temperature) == (("A.md",), 5, 0.5)


def test_tool_policies_come_in_the_order_in_which_they_apply() -> None:
    everyone = agents("""{
      gateway: { tools: { deny: ["g"] } }, tools: { deny: ["t"] },
      agents: { defaults: { tools: { deny: ["d"] } }, list: [{ id: "a", tools: { allow: ["o"] } }] },
    }""")
    assert [(rules.allow, rules.deny) for rules in everyone["a"].tools] == [
        ((), ("g",)),
        ((), ("t",)),
        ((), ("d",)),
        (("o",), ()),
    ]
