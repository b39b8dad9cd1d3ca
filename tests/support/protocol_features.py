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
CLIENT = "tests/interaction/mcp/test_client_contract.py"
HTTP = "tests/interaction/mcp/test_streamable_http.py"
UNIT = "tests/unit/mcp"
SUITE = "tests/e2e/test_conformance.py"
ORDERS_OVER_HTTP = "tests/interaction/gateway/test_mcp.py"
MALFORMED = "tests/interaction/mcp_server/test_malformed.py"
CALLS = "tests/process/mcp_client/test_calls.py"
REMOTE = "tests/process/mcp_client/test_http.py"
EDGES = "tests/process/mcp_client/test_http_edges.py"
TRAFFIC = "tests/process/mcp_client/test_traffic.py"
PEERS = "tests/process/mcp_client/test_sdk_peers.py"
SESSION = "tests/unit/mcp_client/session/test_server_session.py"
TASKS = "tests/interaction/mcp_client/test_tasks.py"
LOGINS = "tests/interaction/mcp_client/test_oauth.py"
SKILLS = "tests/interaction/gateway/test_served_skills.py"
CLIENT_SUITE = "tests/e2e/test_conformance_client.py"

ABSENT = "\N{EN DASH}"

At = Callable[[Revision], bool]


def always(revision: Revision) -> bool:
    return True


def sessions(revision: Revision) -> bool:
    return revision.has_sessions


def only(*names: str) -> At:
    """For tests that aren't parametrised by `revision`, but run at these."""
    return lambda revision: revision.name in names


@dataclass(frozen=True)
class Feature:
    """`use` says whether `order_openclaw`, or the agent, uses it: yes, or why not. `instead` is what a
    revision without it has."""

    name: str
    path: str
    tests: Sequence[str]
    use: str = "yes"
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
            "no: that form was an experiment, and the extension replaced it",
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
LEGACY, LATEST = "2025-11-25", "2026-07-28"
BOTH_ERAS = only(LEGACY, LATEST)
EARLIER = list(REVISIONS)[:3]
AS_LEGACY = dict.fromkeys(EARLIER, "as 2025-11-25")
# Over HTTP: the oldest revision has another transport.
HTTP_AS_LEGACY = dict.fromkeys(EARLIER[1:], "as 2025-11-25")
CLIENT_SECTIONS: dict[str, tuple[Feature, ...]] = {
    "Our client: messages": (
        Feature(
            "version negotiation, instructions",
            CLIENT,
            ("test_a_revision_is_agreed_on_and_the_server_introduces_itself",),
        ),
        Feature(
            "requests that say who asks (`_meta`)", CLIENT, ("test_each_request_says_who_asks",)
        ),
        Feature(
            "an older or newer server is recognised again, and after it has changed",
            TRAFFIC,
            (
                "test_a_remembered_old_server_that_became_new_is_greeted_anew",
                "test_a_server_that_ignores_the_question_stalls_once_in_its_life",
            ),
            at=BOTH_ERAS,
            instead=AS_LEGACY,
        ),
        Feature(
            "half a surrogate pair in a result",
            CLIENT,
            ("test_half_a_surrogate_pair_costs_a_character_and_not_the_result",),
        ),
        Feature(
            "calls side by side, cancellation",
            CLIENT,
            ("test_calls_run_side_by_side_and_one_that_is_given_up_ends_alone",),
        ),
        Feature(
            "servers learn that a call is cancelled",
            f"{UNIT}/test_client.py",
            ("test_how_the_server_learns_that_nobody_waits",),
            use="yes; over HTTP the latest revision closes the stream",
            at=BOTH_ERAS,
            instead=AS_LEGACY,
        ),
        Feature("progress", CLIENT, ("test_progress_arrives_while_a_call_runs",)),
        Feature(
            "servers' log messages",
            TRAFFIC,
            ("test_a_servers_log_goes_to_ours_redacted_and_nowhere_else",),
            "in our log, never in the prompt",
            at=only(LEGACY),
            instead={**AS_LEGACY, LATEST: "a level per request"},
        ),
    ),
    "Our client: what servers offer": (
        Feature("tools, in pages", CLIENT, ("test_tools_are_listed_to_the_last_page_and_called",)),
        Feature(
            "tools that fail, and requests that are refused",
            CLIENT,
            ("test_a_tool_that_fails_is_told_from_a_request_that_is_refused",),
        ),
        Feature(
            "structured content, and blocks of every kind",
            CLIENT,
            ("test_structured_content_and_blocks_of_every_kind_arrive_as_they_were_sent",),
        ),
        Feature(
            "resources and templates",
            CLIENT,
            ("test_resources_and_their_templates_are_listed_and_read",),
        ),
        Feature("prompts", CLIENT, ("test_prompts_are_listed_and_filled_in",)),
        Feature(
            "completion",
            CLIENT,
            ("test_values_for_an_argument_are_suggested",),
        ),
        Feature("list changes", CLIENT, ("test_a_changed_list_is_read_again",)),
        Feature(
            "subscriptions to resources",
            CLIENT,
            ("test_an_updated_resource_is_told_to_whoever_subscribed",),
        ),
        Feature(
            "a refused or broken `subscriptions/listen` is made again",
            "tests/unit/mcp_client/session/test_change_subscription.py",
            ("test_a_refused_or_broken_subscription_is_made_again",),
            at=only(LATEST),
        ),
        Feature(
            "`ttlMs`: lists are read again when they are out of date",
            "tests/unit/mcp_client/session/test_change_subscription.py",
            ("test_a_catalogue_is_asked_for_again_when_its_time_is_over",),
            at=lambda revision: revision.cache_hints,
        ),
    ),
    "Our client: servers' questions": (
        Feature(
            "elicitation, by request or by result",
            CLIENT,
            ("test_the_user_answers_a_servers_question",),
        ),
        Feature(
            "URL elicitation, also as an error (`-32042`)",
            SESSION,
            (
                "test_a_call_is_made_again_once_the_user_has_visited_the_page_that_it_needs",
                "test_a_call_is_refused_if_the_user_does_not_want_to",
            ),
            at=lambda revision: revision.url_elicitation,
        ),
        Feature(
            "sampling, by request or by result",
            CLIENT,
            ("test_a_server_may_ask_the_model_where_that_is_allowed",),
            "if `sampling` allows it",
        ),
        Feature("roots, by request or by result", CLIENT, ("test_a_server_learns_the_roots",)),
    ),
    "Our client: tasks": (
        Feature(
            "a call becomes a task whose result is fetched",
            TASKS,
            ("test_a_call_becomes_a_task_whose_result_is_fetched",),
            at=BOTH_ERAS,
        ),
        Feature(
            "questions in a task",
            TASKS,
            ("test_a_task_asks_the_person_on_whose_behalf_it_works",),
            at=BOTH_ERAS,
        ),
        Feature(
            "cancelling a task",
            TASKS,
            ("test_a_task_is_cancelled_with_the_call",),
            at=BOTH_ERAS,
        ),
        Feature(
            "tasks survive our own end",
            TASKS,
            ("test_after_kill_9_the_result_is_fetched_and_the_call_is_not_repeated",),
            at=BOTH_ERAS,
        ),
    ),
    "Our client: HTTP": (
        Feature(
            "HTTP+SSE",
            CLIENT,
            ("test_tools_are_listed_to_the_last_page_and_called",),
            at=only("2024-11-05"),
            instead={name: "Streamable HTTP" for name in REVISIONS if name != "2024-11-05"},
        ),
        Feature(
            "a session that a server forgot is opened anew (404)",
            REMOTE,
            ("test_a_forgotten_session_is_opened_anew",),
            at=only(LEGACY),
            instead={**HTTP_AS_LEGACY, LATEST: "no sessions"},
        ),
        Feature(
            "a session is ended (`DELETE`)",
            EDGES,
            ("test_the_session_is_ended_when_the_server_is_stopped",),
            at=only(LEGACY),
            instead={**HTTP_AS_LEGACY, LATEST: "no sessions"},
        ),
        Feature(
            "streams are resumed, with `retry:`",
            EDGES,
            (
                "test_a_stream_that_breaks_off_is_resumed_where_it_was_and_the_call_is_sent_once",
                "test_a_stream_is_asked_for_again_if_the_connection_breaks_off_meanwhile",
            ),
            at=only(LEGACY),
            instead={**HTTP_AS_LEGACY, LATEST: "no sessions"},
        ),
        Feature(
            "`Mcp-Method`, `Mcp-Name`",
            REMOTE,
            ("test_the_newest_revision_carries_its_headers",),
            at=lambda revision: revision.routing_headers,
        ),
        Feature(
            "`Mcp-Param-*`; tools whose header names are invalid are left out",
            f"{UNIT}/test_client.py",
            ("test_headers_repeat_what_the_revision_wants_repeated",),
            at=lambda revision: revision.routing_headers,
        ),
        Feature(
            "`Retry-After`",
            EDGES,
            ("test_a_busy_server_says_when_to_try_again",),
            at=only(LEGACY),
            instead={**HTTP_AS_LEGACY, LATEST: "as 2025-11-25"},
        ),
        Feature(
            "answers to other requests, malformed answers, byte order marks",
            EDGES,
            (
                "test_an_answer_to_another_request_is_not_taken_for_ours",
                "test_a_malformed_answer_is_said_plainly_and_prints_nothing",
                "test_half_a_character_and_a_byte_order_mark_cost_nothing_else",
            ),
            at=only(LEGACY),
            instead={**HTTP_AS_LEGACY, LATEST: "as 2025-11-25"},
        ),
    ),
    "Our client: servers made with the official SDK": (
        Feature(
            "over stdio, Streamable HTTP and HTTP+SSE",
            PEERS,
            ("test_the_sdks_server_is_used_whole",),
            at=BOTH_ERAS,
            instead=dict.fromkeys(EARLIER, "the SDK negotiates 2025-11-25"),
        ),
    ),
}


@dataclass(frozen=True)
class Part:
    """A part of MCP that isn't tied to a revision: authorization, and extensions."""

    name: str
    path: str
    test: str
    source: str = ""


OAUTH = f"{UNIT}/test_oauth.py"
PARTS: dict[str, tuple[Part, ...]] = {
    "Our client: authorization": (
        Part(
            "metadata of the server, in order",
            OAUTH,
            "test_the_servers_metadata_is_looked_for_in_order",
            "RFC 9728",
        ),
        Part(
            "metadata of the authorization server, in order",
            OAUTH,
            "test_the_authorization_servers_metadata_is_looked_for_in_order",
            "RFC 8414, OpenID Connect",
        ),
        Part(
            "servers without metadata",
            OAUTH,
            "test_a_server_without_metadata_is_logged_in_to_as_in_2025_03_26",
            "2025-03-26",
        ),
        Part(
            "PKCE, `resource`, a login from the challenge to the tokens",
            OAUTH,
            "test_a_login_discovers_registers_asks_the_user_and_gets_tokens",
            "RFC 7636, RFC 8707",
        ),
        Part(
            "a client that is preset, described by a document, or registered",
            OAUTH,
            "test_a_client_is_preset_described_or_registered",
            "CIMD, RFC 7591",
        ),
        Part(
            "`iss`, `state`: answers that are not to be trusted",
            OAUTH,
            "test_an_answer_that_is_not_to_be_trusted_is_refused",
            "RFC 9207",
        ),
        Part("scopes", OAUTH, "test_scopes_are_chosen_as_mcp_says"),
        Part(
            "scope step-up, once",
            OAUTH,
            "test_a_step_up_asks_for_what_was_granted_and_for_what_is_missing_once",
        ),
        Part(
            "refresh: only a definite refusal needs a login",
            OAUTH,
            "test_a_refresh_is_tried_again_unless_it_is_definitely_refused",
        ),
        Part(
            "migration to another authorization server",
            OAUTH,
            "test_another_authorization_server_sees_nothing_of_the_last_one",
        ),
        Part(
            "client credentials: a secret or a JWT",
            OAUTH,
            "test_a_client_without_a_user_proves_who_it_is",
            "extension",
        ),
        Part(
            "enterprise-managed authorization",
            OAUTH,
            "test_an_enterprise_login_exchanges_the_users_token",
            "extension (ID-JAG)",
        ),
        Part("workload identity", OAUTH, "test_a_workload_shows_its_assertion_once", "RFC 7523"),
        Part(
            "DPoP",
            OAUTH,
            "test_tokens_are_bound_to_a_key_where_the_server_offers_it",
            "RFC 9449",
        ),
        Part("DPoP nonces", OAUTH, "test_a_servers_nonce_is_used_once_it_is_known", "RFC 9449"),
        Part("device grant", OAUTH, "test_a_device_login_shows_a_code_and_waits", "RFC 8628"),
        Part(
            "pasting the address that a browser elsewhere ended at",
            LOGINS,
            "test_the_address_that_a_browser_elsewhere_ended_at_can_be_pasted",
        ),
        Part("revocation at logout", OAUTH, "test_logging_out_revokes_both_tokens", "RFC 7009"),
    ),
    "Our client: extensions and the official suite": (
        Part(
            "skills, verified by digest, size and front matter",
            SKILLS,
            "test_skills_of_servers_are_named_read_and_checked",
            "SEP-2640",
        ),
        Part(
            "tasks (`io.modelcontextprotocol/tasks`)",
            TASKS,
            "test_a_call_becomes_a_task_whose_result_is_fetched",
            "SEP-2663",
        ),
        Part(
            "all 48 client scenarios of the official suite",
            CLIENT_SUITE,
            "test_the_suite_says_of_every_scenario_what_we_say",
            "conformance",
        ),
    ),
}
NOT_SUPPORTED = {
    "HTTP+SSE, the transport of 2024-11-05, as a server": "2025-03-26 replaced it, and clients that know "
    "nothing newer start servers over stdio; our client does use such servers",
    "`authorization_servers` in the metadata of the gateway's `/mcp`": "there is none: whoever runs the gateway "
    "hands out its tokens, and RFC 9728 lets a resource without one leave it out",
    "skills (SEP-2640), as a server": "the suite's skills pass on the protocol layer; an order is a tool",
    "`resources/directory/read` of skills (SEP-2640), as a client": "a skill's entry lists its "
    "files, and those that are made on demand are read by their names",
    "pages of servers' apps (`ui://`), as a client": "there is no page to show them on; tools only for "
    "such pages are left out",
}


def features() -> Iterator[Feature]:
    for rows in (*SECTIONS.values(), *CLIENT_SECTIONS.values()):
        yield from rows


def parts() -> Iterator[Part]:
    for rows in PARTS.values():
        yield from rows


def _cell(feature: Feature, revision: Revision) -> str:
    test = feature.covered.get(revision.name)
    if test is not None:
        return f"[✓][{_label(feature.path, test)}]"
    return feature.instead.get(revision.name, ABSENT)


def _targets() -> Iterator[str]:
    links = {
        (_label(one.path, test), one.path, test)
        for one in features()
        for test in one.covered.values()
    }
    links |= {(_label(part.path, part.test), part.path, part.test) for part in parts()}
    for label, path, test in sorted(links):
        yield f'[{label}]: ../../{path} "{test}"'


def _label(path: str, test: str) -> str:
    """The contracts of both sides have tests of the same name."""
    return ("client_" if path == CLIENT else "") + test.removeprefix("test_")


def _sections(sections: dict[str, tuple[Feature, ...]], user: str) -> Iterator[str]:
    for title, rows in sections.items():
        yield f"\n## {title}\n"
        yield f"| | {' | '.join(REVISIONS)} | {user} |"
        yield "|---|" + ":---:|" * len(REVISIONS) + "---|"
        for row in rows:
            cells = " | ".join(_cell(row, revision) for revision in REVISIONS.values())
            yield f"| {row.name} | {cells} | {row.use} |"


def page() -> str:
    """The page, without its first line."""
    assert {one.tasks for one in REVISIONS.values()} == set(TaskSupport)
    lines = [
        "# Protocol\n",
        "What of MCP our servers and our client do, at each revision. A ✓ links to the test that shows it (hover to",
        f"see its name), {ABSENT} means that the revision does not have it. The protocol layer (`openclaw.mcp`) is the",
        "same for stdio and HTTP, and for both directions. The last column of the first tables says whether",
        "[orders](order-openclaw.md) use it, that of the tables of our client whether the agent does.",
        *_sections(SECTIONS, "orders"),
        *_sections(CLIENT_SECTIONS, "agent"),
    ]
    for title, rows in PARTS.items():
        lines.append(f"\n## {title}\n\n| | | specified by |\n|---|:---:|---|")
        lines += [
            f"| {row.name} | [✓][{_label(row.path, row.test)}] | {row.source} |" for row in rows
        ]
    lines.append("\n## Not supported\n\n| | why |\n|---|---|")
    lines += [f"| {what} | {why} |" for what, why in NOT_SUPPORTED.items()]
    return "\n".join([*lines, "", *_targets()]) + "\n"
