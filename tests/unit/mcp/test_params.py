"""What the parameters of a request have to be: whatever the SDK takes is taken."""

from typing import Any

import mcp_types.methods
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.mcp import names, params
from openclaw.mcp.revisions import REVISIONS

META: dict[str, Any] = {names.META_VERSION: "2026-07-28", names.META_CAPABILITIES: {}}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
TEXTS = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
LIKELY = {
    "name": st.text(max_size=3) | VALUES,
    "uri": st.text(max_size=3) | VALUES,
    "cursor": st.text(max_size=3) | VALUES,
    "arguments": TEXTS | VALUES,
    "level": st.sampled_from([*names.LOG_LEVELS, "loud"]) | VALUES,
    "ref": st.sampled_from(
        [{"type": "ref/prompt", "name": "p"}, {"type": "ref/resource", "uri": "u"}, {"type": "x"}]
    )
    | VALUES,
    "argument": st.just({"name": "a", "value": "v"}) | VALUES,
    "context": st.fixed_dictionaries({}, optional={"arguments": TEXTS | VALUES}) | VALUES,
    "notifications": st.fixed_dictionaries(
        {},
        optional={
            "toolsListChanged": st.booleans() | VALUES,
            "resourceSubscriptions": st.lists(st.text(max_size=3), max_size=2) | VALUES,
        },
    ),
    "inputResponses": st.just(dict[str, Any]()) | VALUES,
    "requestState": st.text(max_size=3) | VALUES,
    "_meta": st.fixed_dictionaries({}, optional={"progressToken": st.integers() | VALUES}),
}
# Ours is laxer: the SDK knows what an answer to each question looks like.
JUDGED_BY_THE_SERVICE = ("inputResponses",)


def sdk_takes(method: str, version: str, given: dict[str, Any]) -> bool:
    try:
        mcp_types.methods.validate_client_request(method, version, given)
    except ValueError:
        return False
    return True


def test_what_continues_a_round_counts_only_for_requests_that_have_rounds() -> None:
    given: dict[str, Any] = {"requestState": []}
    assert params.problem_with(names.PROMPTS_LIST, given, REVISIONS["2026-07-28"]) is None
    problem = params.problem_with(names.TOOLS_CALL, {"name": "t", **given}, REVISIONS["2026-07-28"])
    assert problem is not None
    assert "requestState" in problem


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda one: one.name)
@given(data=st.data(), given=st.fixed_dictionaries({}, optional=LIKELY))
def test_parameters_are_taken_if_and_only_if_the_sdk_takes_them(
    revision: Any, data: st.DataObject, given: dict[str, Any]
):
    known = [m for m, v in mcp_types.methods.CLIENT_REQUESTS if v == revision.name]
    known = [method for method in known if method not in (names.INITIALIZE, names.DISCOVER)]
    method = data.draw(st.sampled_from(known))
    if revision.stateless:
        given = {**given, "_meta": {**META, **given.get("_meta", {})}}
    ours, theirs = (
        params.problem_with(method, given, revision),
        sdk_takes(method, revision.name, given),
    )
    if theirs:
        assert ours is None
    elif ours is None:
        assert _is_laxer_on_purpose(method, given), (method, given)


def _is_laxer_on_purpose(method: str, given: dict[str, Any]) -> bool:
    token = given.get("_meta", {}).get("progressToken", 0)
    if any(given.get(key) is not None for key in JUDGED_BY_THE_SERVICE):
        return True
    if isinstance(given.get("task"), dict):
        return True
    return token is None or method == names.PING


HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}


@pytest.mark.parametrize(
    "change",
    [
        {"protocolVersion": None},
        {"protocolVersion": 7},
        {"capabilities": []},
        {"clientInfo": None},
        {"clientInfo": {"name": "c"}},
        {"clientInfo": {"name": 1, "version": "1"}},
    ],
)
def test_a_client_that_does_not_say_who_it_is_is_refused(change: dict[str, Any]):
    revision = REVISIONS["2025-11-25"]
    assert params.problem_with(names.INITIALIZE, HELLO, revision) is None
    assert params.problem_with(names.INITIALIZE, HELLO | change, revision)
    assert not sdk_takes(names.INITIALIZE, revision.name, HELLO | change)


@pytest.mark.parametrize(
    "change",
    [
        {names.META_VERSION: None},
        {names.META_VERSION: 7},
        {names.META_CAPABILITIES: None},
        {names.META_CAPABILITIES: []},
        {names.META_CLIENT: {"name": "x"}},
        {names.META_LOG_LEVEL: "loud"},
    ],
)
def test_a_stateless_request_that_does_not_say_what_it_is_is_refused(change: dict[str, Any]):
    assert params.problem_with_envelope({"_meta": META}) is None
    assert params.problem_with_envelope({"_meta": META | change})
    assert not sdk_takes(names.TOOLS_LIST, "2026-07-28", {"_meta": META | change})


@pytest.mark.parametrize("given", [None, {}, {"_meta": None}, {"_meta": 7}])
def test_a_request_without_meta_is_no_stateless_request(given: Any):
    assert params.problem_with_envelope(given)
