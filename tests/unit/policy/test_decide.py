"""Which tools may be used, and which rule said so."""

import time
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.policy.decide import (
    Policy,
    PolicyOutcome,
    Rules,
    decide,
    glob_matches,
    server_wholly_denied,
)


def policy(*layers: Rules) -> Policy:
    return layers


@pytest.mark.requirement("D-5")
@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("exec", "exec", True),
        ("exec", "EXEC", True),
        ("Mcp_FS_*", "mcp_fs_read", True),
        ("mcp_fs_*", "mcp_fs_", True),
        ("mcp_fs_*", "mcp_fs", False),
        ("*", "", True),
        ("**", "anything", True),
        ("", "", True),
        ("", "x", False),
        ("?", "a", True),
        ("?", "ab", False),
        ("a*b*c", "a__b__c", True),
        ("a*b*c", "a__c__b", False),
        ("[ab]x", "ax", True),
        ("[!ab]x", "ax", False),
        ("[^ab]x", "cx", True),
        ("[a-c]x", "bx", True),
        ("[a-c]x", "dx", False),
        ("[]]", "]", True),
        ("[a-]", "-", True),
        ("[abc", "[abc", True),
        (" exec ", "exec", True),
        ("a.c", "abc", False),
        ("straße", "STRASSE", True),
    ],
)
def test_a_glob_matches_as_in_a_shell_but_for_case(pattern: str, name: str, matches: bool) -> None:
    assert glob_matches(pattern, name) is matches


def test_a_hostile_glob_costs_no_more_than_the_product_of_the_lengths() -> None:
    started = time.process_time()
    assert not glob_matches("*a" * 60 + "b", "a" * 2000)
    assert time.process_time() - started < 2


@given(st.text(alphabet="ab*?[]!-", max_size=12), st.text(alphabet="ab", max_size=12))
def test_any_glob_is_read_without_an_error(pattern: str, name: str) -> None:
    assert glob_matches(pattern, name) in {True, False}
    assert glob_matches("*" + pattern + "*", name) or not glob_matches(pattern, name)


def test_without_rules_everything_is_allowed() -> None:
    assert decide(policy(), "exec").allowed
    assert decide(policy(Rules("tools")), "exec").allowed


@pytest.mark.requirement("US-5.4")
def test_deny_wins_over_allow_and_the_decision_names_the_rule() -> None:
    decision = decide(policy(Rules("tools", allow=["exec"], deny=["ex*"])), "exec")
    assert decision.outcome is PolicyOutcome.DENY
    assert decision.reason == "tools.deny has 'ex*'"


def test_an_allow_list_denies_the_rest() -> None:
    rules = policy(Rules("gateway.tools", allow=["mcp_docs_*"]))
    assert decide(rules, "mcp_docs_search").allowed
    assert decide(rules, "exec").reason == "gateway.tools.allow does not have it"


def test_a_tool_must_pass_every_layer() -> None:
    rules = policy(
        Rules("gateway.tools", allow=["a", "b"]),
        Rules("tools", deny=["b"]),
        Rules("agents.defaults.tools", allow=["a", "b", "c"]),
    )
    assert [decide(rules, name).allowed for name in "abc"] == [True, False, False]
    assert decide(rules, "b").reason.startswith("tools.")
    assert decide(rules, "c").reason.startswith("gateway.tools.")


@given(st.sampled_from(["exec", "mcp_fs_write", "web_fetch"]), st.integers(0, 2**12))
def test_no_change_of_case_gets_past_a_deny(name: str, bits: int) -> None:
    changed = "".join(c.upper() if bits >> i & 1 else c for i, c in enumerate(name))
    assert not decide(policy(Rules("tools", deny=[name])), changed).allowed


@pytest.mark.parametrize(
    ("rules", "denied"),
    [
        (Rules("t", deny=["*"]), True),
        (Rules("t", deny=["mcp_*"]), True),
        (Rules("t", deny=["MCP_fs_*"]), True),
        (Rules("t", deny=["mcp_f?_*"]), True),
        (Rules("t", deny=["mcp_[a-f]s*"]), True),
        (Rules("t", deny=["mcp_fs_read*"]), False),
        (Rules("t", deny=["mcp_fs"]), False),
        (Rules("t", deny=["mcp_fs_?*"]), False),
        (Rules("t", deny=["*_write"]), False),
        (Rules("t", allow=["mcp_docs_*", "exec"]), True),
        (Rules("t", allow=["mcp_fs_read"]), False),
        (Rules("t", allow=["*read"]), False),
        (Rules("t", allow=["mcp_fs"]), True),
        (Rules("t", allow=["mcp_fs_"]), True),
        (Rules("t", allow=["mcp_fs_*"]), False),
        (Rules("t", allow=["mcp_d?cs_*"]), True),
        (Rules("t", allow=["[!m]*"]), True),
        (Rules("t", allow=["[]m]*"]), False),
        (Rules("t", allow=["[^]m]*", "?xec"]), True),
        (Rules("t", allow=["?cp_fs_"]), True),
        (Rules("t", allow=["?cp_fs_?"]), False),
        (Rules("t", allow=["*docs_*x"]), False),
        (Rules("t", allow=["mcp[_]fs[_]"]), True),
        (Rules("t", allow=["mcp_f[s"]), True),
        (Rules("t"), False),
    ],
)
def test_a_server_is_wholly_denied_only_where_the_globs_prove_it(
    rules: Rules, denied: bool
) -> None:
    assert server_wholly_denied(policy(rules), "fs") is denied


@given(
    st.lists(st.sampled_from(["*", "mcp_*", "mcp_fs_*", "mcp_f?_*", "*_x", "mcp_fs_r*", "exec"])),
    st.lists(
        st.one_of(
            st.sampled_from(["*", "mcp_docs_*", "mcp_fs_read", "exec"]),
            st.text(alphabet="mcp_fsa*?[]!", max_size=9),
        )
    ),
    st.text(alphabet="abrx_", min_size=1, max_size=6),
)
def test_what_is_proved_denied_is_denied(deny: list[str], allow: list[str], tool: str) -> None:
    rules = policy(Rules("t", allow=allow, deny=deny))
    if server_wholly_denied(rules, "fs"):
        assert not decide(rules, f"mcp_fs_{tool}").allowed


def test_a_tool_to_ask_about_is_not_allowed_without_more_ado_and_says_why() -> None:
    decision = decide(policy(Rules("tools", ask=["mcp_mail_*"])), "mcp_mail_send")
    assert (decision.outcome, decision.allowed, decision.asks) == (PolicyOutcome.ASK, False, True)
    assert decision.reason == "tools.ask has 'mcp_mail_*'"


def test_a_tool_that_no_ask_rule_names_is_not_asked_about() -> None:
    assert decide(policy(Rules("tools", ask=["mcp_mail_*"])), "read").allowed


def test_any_layers_denial_wins_over_asking() -> None:
    rules = policy(Rules("a", ask=["*"]), Rules("b", deny=["exec"]), Rules("c", ask=["*"]))
    assert decide(rules, "exec").outcome is PolicyOutcome.DENY
    assert decide(rules, "read").reason.startswith("a.ask")


def test_what_an_allow_list_leaves_out_is_denied_also_where_it_would_be_asked_about() -> None:
    rules = policy(Rules("tools", allow=["read"], ask=["exec"]))
    assert decide(rules, "exec").outcome is PolicyOutcome.DENY


def test_a_server_whose_tools_are_asked_about_is_not_wholly_denied() -> None:
    rules = policy(Rules("tools", ask=["mcp_mail_*"]))
    assert not server_wholly_denied(rules, "mail")


@pytest.mark.parametrize("rule", ["mcp_fs_write_file", "MCP_FS_WRITE_FILE", "mcp_fs_write_????"])
@pytest.mark.parametrize("kind", ["deny", "ask"])
def test_a_rule_for_the_natural_name_holds_for_a_tool_that_was_renamed(
    kind: Literal["deny", "ask"], rule: str
) -> None:
    lists: dict[str, list[str]] = {kind: [rule]}
    decided = decide(policy(Rules("tools", **lists)), "mcp_fs_write_file_1a2b", "mcp_fs_write_file")
    assert decided.outcome is PolicyOutcome(kind)


def test_deny_wins_whichever_of_the_two_names_it_has() -> None:
    rules = policy(Rules("tools", allow=["mcp_fs_write_file_1a2b"], deny=["mcp_fs_write_file"]))
    assert not decide(rules, "mcp_fs_write_file_1a2b", "mcp_fs_write_file").allowed


def test_the_natural_name_allows_unless_somebody_else_has_a_claim_to_it() -> None:
    rules = policy(Rules("tools", allow=["mcp_git_hub_search"]))
    assert decide(rules, "mcp_git_hub_search_1a2b", "mcp_git_hub_search").allowed
    stranger = decide(rules, "mcp_git_hub_search_1a2b", "mcp_git_hub_search", contested=True)
    assert not stranger.allowed
