"""What MCP has at which revision, and the test that shows that we do it: docs/reference/protocol.md.

A row names tests. Those that are parametrised by `revision` say themselves for which revisions they run;
for the others the row says it.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from openclaw.mcp.revisions import REVISIONS, Revision, TaskSupport

CONTRACT = "tests/interaction/mcp/test_server_contract.py"
HTTP = "tests/interaction/mcp/test_streamable_http.py"
UNIT = "tests/unit/mcp"
SUITE = "tests/e2e/test_conformance.py"
ORDERS_OVER_HTTP = "tests/interaction/gateway/test_mcp.py"
MALFORMED = "tests/interaction/mcp_server/test_malformed.py"

ABSENT = "\N{EN DASH}"

At = Callable[[Revision], bool]


def always(revision: Revision) -> bool:
    return True


def sessions(revision: Revision) -> bool:
    return revision.has_sessions


@dataclass(frozen=True)
class Feature:
    """`orders` says whether `order_openclaw` uses it: yes, or why not. `instead` is what a revision
    without it has."""

    name: str
    path: str
    tests: Sequence[str]
    orders: str = "yes"
    at: At | None = None
    instead: dict[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def covered(self) -> dict[str, str]:
        """The test that runs for each revision."""
        found: dict[str, str] = {}
        for name in self.tests:
            for revision in self._revisions(name):
                found.setdefault(revision, name)
        return found

    def _revisions(self, name: str) -> Iterator[str]:
        test = _test(self.path, name)
        marked = _parametrised(test)
        at = self.at or always
        for revision in REVISIONS.values():
            if at(revision) and (marked is None or revision in marked):
                yield revision.name


def _test(path: str, name: str) -> Any:
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    return getattr(module, name)


def _parametrised(test: Any) -> list[Revision] | None:
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize" and mark.args[0] == "revision":
            values = list(mark.args[1])
            return [REVISIONS[one] if isinstance(one, str) else one for one in values]
    return None


NO_RESOURCES = "an order is a tool"
SECTIONS: dict[str, tuple[Feature, ...]] = {
    "Messages": (
        Feature(
            "requests that are wrong are refused with the specified code, and cost only themselves",
            CONTRACT,
            ("test_a_request_that_is_wrong_is_refused_and_the_next_is_served",),
        ),
        Feature(
            "text with half a surrogate pair",
            CONTRACT,
            ("test_half_a_surrogate_pair_costs_a_character_and_not_the_call",),
        ),
        Feature(
            "lines that are no messages",
            MALFORMED,
            ("test_every_malformed_line_is_answered_and_no_order_is_lost",),
        ),
        Feature("batches", CONTRACT, ("test_a_batch_is_answered_by_a_batch",)),
        Feature(
            "batches are refused",
            CONTRACT,
            ("test_a_batch_is_refused_where_there_are_none",),
            instead={"2025-03-26": "has them"},
        ),
        Feature("calls side by side", CONTRACT, ("test_calls_are_carried_out_side_by_side",)),
        Feature("ids are unique", CONTRACT, ("test_an_id_that_is_still_in_use_is_refused",)),
        Feature(
            "cancellation", CONTRACT, ("test_a_call_that_its_client_cancelled_is_not_answered",)
        ),
        Feature(
            "progress",
            CONTRACT,
            ("test_progress_arrives_before_the_result_and_only_if_it_is_wanted",),
        ),
    ),
    "Getting to know each other": (
        Feature(
            "capabilities, instructions, version negotiation",
            CONTRACT,
            ("test_a_client_learns_what_the_server_offers_at_its_revision",),
        ),
        Feature(
            "`initialize`, `ping`",
            CONTRACT,
            ("test_a_ping_is_answered_and_a_second_handshake_refused",),
            instead={"2026-07-28": "`server/discover`"},
        ),
        Feature(
            "requests that stand alone (`_meta`), unknown revisions",
            CONTRACT,
            (
                "test_a_revision_that_is_not_known_is_refused_with_those_that_are",
                "test_what_belongs_to_sessions_is_gone",
            ),
        ),
        Feature(
            "both on one pipe",
            CONTRACT,
            ("test_requests_of_both_kinds_are_served_on_one_pipe",),
            instead={"2026-07-28": "has no handshake"},
        ),
        Feature(
            "`resultType`, `ttlMs`, `cacheScope`, `serverInfo` in results",
            CONTRACT,
            ("test_results_carry_what_their_revision_has",),
            at=lambda revision: revision.result_types,
        ),
    ),
    "What a server has": (
        Feature("tools", CONTRACT, ("test_tools_are_listed_and_called",)),
        Feature("tools that fail", CONTRACT, ("test_a_tool_that_fails_says_so_in_its_result",)),
        Feature("prompts", CONTRACT, ("test_prompts_are_listed_and_filled_in",), NO_RESOURCES),
        Feature(
            "resources and templates",
            CONTRACT,
            (
                "test_resources_are_listed_and_read",
                "test_a_resource_that_is_not_there_is_refused_with_the_code_of_the_revision",
            ),
            NO_RESOURCES,
        ),
        Feature("completion", CONTRACT, ("test_arguments_are_completed",), NO_RESOURCES),
        Feature(
            "`logging/setLevel`",
            CONTRACT,
            ("test_a_client_sets_the_level_of_what_is_logged",),
            "logs go to stderr",
            instead={"2026-07-28": "a level per request"},
        ),
        Feature(
            "a log level per request",
            CONTRACT,
            ("test_a_request_says_what_may_be_logged_for_it",),
            "logs go to stderr",
        ),
        Feature(
            "list changes, `resources/subscribe`",
            CONTRACT,
            ("test_a_change_of_a_list_is_announced_to_every_client",),
            "the one tool never changes",
            instead={"2026-07-28": "`subscriptions/listen`"},
        ),
        Feature(
            "`subscriptions/listen`",
            CONTRACT,
            ("test_a_change_of_a_list_is_announced_to_those_who_listen_for_it",),
        ),
    ),
    "Questions to the client": (
        Feature(
            "elicitation by request",
            CONTRACT,
            ("test_a_server_asks_the_user_by_a_request",),
            instead={"2026-07-28": "by result"},
        ),
        Feature(
            "sampling and roots by request",
            CONTRACT,
            ("test_a_server_asks_the_model_by_a_request",),
            "roots only: the agent has a model",
            instead={"2026-07-28": "by result"},
        ),
        Feature(
            "elicitation, sampling and roots by result (`input_required`)",
            CONTRACT,
            ("test_a_server_asks_in_its_result",),
            "elicitation only: the agent has a model, and works where it was told to",
        ),
        Feature(
            "signed `requestState`",
            CONTRACT,
            ("test_what_a_client_carries_to_the_next_round_cannot_be_changed",),
        ),
        Feature(
            "clients are asked only what they declare",
            CONTRACT,
            (
                "test_a_client_that_cannot_answer_is_not_asked",
                "test_what_a_client_does_not_declare_is_refused_by_name",
                "test_a_client_whose_revision_has_no_questions_is_not_asked",
            ),
        ),
    ),
    "Tasks": (
        Feature(
            "at the client's request",
            CONTRACT,
            ("test_the_client_asks_for_a_task_and_fetches_its_result",),
            "orders are tasks only in the extension's form",
            instead={"2026-07-28": "the extension"},
        ),
        Feature(
            "at the server's discretion (the extension)",
            CONTRACT,
            (
                "test_the_server_makes_a_task_of_a_call_and_asks_in_it",
                "test_tasks_need_a_client_that_declares_them",
                "test_a_tasks_question_is_read_by_a_client_that_cannot_answer_it",
            ),
        ),
        Feature("cancelling a task", CONTRACT, ("test_a_task_is_cancelled",)),
        Feature("no tasks", CONTRACT, ("test_a_revision_without_tasks_has_none_of_their_methods",)),
    ),
    "Streamable HTTP": (
        Feature(
            "JSON or a stream, as the answer needs",
            HTTP,
            ("test_an_answer_that_is_there_at_once_is_json_and_others_are_streams",),
        ),
        Feature(
            "sessions, ended by their client",
            HTTP,
            (
                "test_a_session_ends_when_its_client_says_so",
                "test_a_request_without_a_session_is_refused",
                "test_every_session_has_an_id_of_its_own_in_visible_ascii",
            ),
            at=lambda revision: not revision.stateless,
            instead={"2026-07-28": "none"},
        ),
        Feature(
            "sessions belong to whoever opened them",
            ORDERS_OVER_HTTP,
            ("test_a_session_belongs_to_the_token_that_opened_it",),
            at=lambda revision: not revision.stateless,
            instead={"2026-07-28": "no sessions"},
        ),
        Feature(
            "streams are resumed, each by itself",
            HTTP,
            (
                "test_a_stream_that_broke_is_read_on_where_it_broke",
                "test_two_streams_of_a_session_are_resumed_apart",
                "test_an_event_that_is_not_known_is_refused",
            ),
            at=sessions,
            instead={"2026-07-28": "no sessions"},
        ),
        Feature(
            "a stream of the session's own",
            HTTP,
            (
                "test_what_belongs_to_no_request_waits_for_the_sessions_own_stream",
                "test_the_newest_of_a_sessions_own_streams_is_the_one_that_is_written",
            ),
            at=sessions,
            instead={"2026-07-28": "`subscriptions/listen`"},
        ),
        Feature(
            "priming events, `retry:`, streams that are let go",
            HTTP,
            ("test_a_client_that_is_let_go_is_told_when_to_come_back",),
            "streams stay open",
            at=lambda revision: revision.priming_events,
        ),
        Feature(
            "streams without priming events",
            HTTP,
            ("test_clients_of_revisions_without_priming_events_get_none",),
        ),
        Feature(
            "statuses of wrong headers, bodies and methods",
            HTTP,
            (
                "test_headers_that_are_wrong_are_refused_with_their_status",
                "test_a_body_that_is_no_message_is_a_bad_request",
                "test_a_body_above_the_limit_is_refused",
                "test_a_client_that_takes_only_json_gets_only_the_answer",
            ),
        ),
        Feature(
            "no sessions; closing a stream cancels",
            HTTP,
            (
                "test_the_latest_revision_has_no_sessions",
                "test_closing_the_stream_of_a_call_cancels_it_at_the_latest_revision",
            ),
            at=lambda revision: revision.stateless,
        ),
        Feature(
            "`Mcp-Method`, `Mcp-Name`",
            f"{UNIT}/test_http.py",
            ("test_headers_that_differ_from_the_body_are_refused_as_by_the_sdk",),
            at=lambda revision: revision.routing_headers,
        ),
        Feature(
            "`Mcp-Param-*`",
            f"{UNIT}/test_http.py",
            ("test_headers_that_differ_from_the_arguments_are_refused_as_by_the_sdk",),
            "no argument is named as a header",
            at=lambda revision: revision.routing_headers,
        ),
    ),
    "The official suite": (
        Feature(
            "every scenario that a revision has",
            SUITE,
            ("test_our_protocol_layer_passes_what_a_revision_has",),
            "[those that apply](order-openclaw.md)",
            instead={"2024-11-05": "the suite does not know it"},
        ),
    ),
}
NOT_SERVED = {
    "HTTP+SSE, the transport of 2024-11-05": "clients of that revision use stdio, or Streamable HTTP",
    "skills (SEP-2640), as a server": "the suite's skills pass on the protocol layer; an order is a tool",
}


def features() -> Iterator[Feature]:
    for rows in SECTIONS.values():
        yield from rows


def _cell(feature: Feature, revision: Revision) -> str:
    test = feature.covered.get(revision.name)
    if test is not None:
        return f"[✓][{test.removeprefix('test_')}]"
    return feature.instead.get(revision.name, ABSENT)


def _targets() -> Iterator[str]:
    links = {test: one.path for one in features() for test in one.covered.values()}
    for test, path in sorted(links.items()):
        yield f'[{test.removeprefix("test_")}]: ../../{path} "{test}"'


def page() -> str:
    """The page, without its first line."""
    names = list(REVISIONS)
    assert {one.tasks for one in REVISIONS.values()} == set(TaskSupport)
    parts = [
        "# Protocol\n",
        "What of MCP our servers do, at each revision. A ✓ links to the test that shows it (hover to see its",
        f"name), {ABSENT} means that the revision does not have it. The protocol layer (`openclaw.mcp`) is the same for",
        "stdio and HTTP; the last column says whether [orders](order-openclaw.md) use it.",
    ]
    for title, rows in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        parts.append(f"| | {' | '.join(names)} | orders |")
        parts.append("|---|" + ":---:|" * len(names) + "---|")
        for row in rows:
            cells = " | ".join(_cell(row, revision) for revision in REVISIONS.values())
            parts.append(f"| {row.name} | {cells} | {row.orders} |")
    parts.append("\n## Not served\n\n| | why |\n|---|---|")
    parts += [f"| {what} | {why} |" for what, why in NOT_SERVED.items()]
    return "\n".join([*parts, "", *_targets()]) + "\n"
