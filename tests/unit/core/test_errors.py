import pytest

from openclaw.core.errors import (
    Busy,
    Cancelled,
    DeveloperFacing,
    InvalidConfig,
    InvalidRequest,
    MissingExtra,
    ModelUnavailable,
    NotFound,
    Problem,
    SecretUnavailable,
    ServerUnavailable,
    ToolFailure,
    describe,
    exit_code,
    http_status,
    jsonrpc_code,
    sentence,
)
from openclaw.core.installed import install_command


@pytest.mark.parametrize(
    ("error", "exits", "status", "rpc"),
    [
        (InvalidRequest("is empty", field="message"), 2, 400, -32602),
        (NotFound("no session 'x'"), 1, 404, -32602),
        (Busy("too much to do", retry_after=3), 1, 429, -32602),
        (Cancelled("stopped"), 1, 499, -32602),
        (InvalidConfig([Problem("a", "b")]), 2, 503, -32603),
        (SecretUnavailable("secret://env/X", "is not set"), 1, 503, -32603),
        (ServerUnavailable("time", "it exited"), 1, 503, -32603),
        (ModelUnavailable("no model answers"), 1, 503, -32603),
        (ToolFailure("no such file"), 1, 500, -32603),
        (DeveloperFacing("impossible"), 1, 500, -32603),
        (RuntimeError("boom"), 1, 500, -32603),
    ],
)
def test_an_error_has_one_code_on_each_wire(
    error: BaseException, exits: int, status: int, rpc: int
) -> None:
    assert (exit_code(error), http_status(error), jsonrpc_code(error)) == (exits, status, rpc)


def test_a_refused_request_names_the_field() -> None:
    assert describe(InvalidRequest("is empty", field="message")) == "message: is empty"


def test_a_refused_configuration_is_described_with_every_problem_and_its_place() -> None:
    error = InvalidConfig(
        [Problem("a.b", "must be a number", 3, 5), Problem("", "is not JSON5")], source="x.json"
    )
    assert describe(error) == (
        "2 problems in x.json:\n  a.b: must be a number (line 3, column 5)\n  (file): is not JSON5"
    )


def test_a_missing_extra_says_how_to_install_it_from_our_own_distribution() -> None:
    assert describe(MissingExtra("secret://aws", "aws")) == (
        "secret://aws needs an optional part that is not installed "
        f"(install it with: {install_command('aws')})"
    )


def test_what_we_did_not_foresee_is_described_by_its_type() -> None:
    assert describe(KeyError("x")) == "unexpected KeyError: 'x'"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("there is no agent 'x'", "There is no agent 'x'"),
        ("try: openclaw init", "Try: openclaw init"),
        ("openclaw sessions lists them", "openclaw sessions lists them"),
        ("stdin: is not UTF-8 text", "stdin: is not UTF-8 text"),
        ("acme/m: it refused the key", "acme/m: it refused the key"),
        ("", ""),
    ],
)
def test_a_message_begins_with_a_capital_unless_it_begins_with_a_name(
    text: str, shown: str
) -> None:
    assert sentence(text) == shown
