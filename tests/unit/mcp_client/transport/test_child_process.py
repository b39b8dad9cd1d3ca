"""What a child process sees of our environment."""

import pytest

from openclaw.mcp_client.transport.environment import child_environment

HOST = {
    "PATH": "/bin",
    "HOME": "/home/ann",
    "LANG": "C",
    "LC_ALL": "C",
    "ANTHROPIC_API_KEY": "sk",
    "BASH_FUNC_x%%": "() { evil; }",
    "TERM": "() { evil; }",
}


def test_only_what_every_program_needs_and_what_is_named():
    assert child_environment(HOST, {"TOKEN": "t"}, inherit=False) == {
        "PATH": "/bin",
        "HOME": "/home/ann",
        "LANG": "C",
        "LC_ALL": "C",
        "TOKEN": "t",
    }


def test_named_variables_are_passed_on():
    passed = child_environment(HOST, {}, inherit=["ANTHROPIC_API_KEY", "MISSING"])
    assert passed["ANTHROPIC_API_KEY"] == "sk"
    assert "MISSING" not in passed


def test_everything_is_passed_on_where_that_is_asked_for_except_code():
    passed = child_environment(HOST, {}, inherit=True)
    assert set(passed) == set(HOST) - {"BASH_FUNC_x%%", "TERM"}


@pytest.mark.requirement("FR-1.5")
def test_what_is_named_stands_over_the_hosts():
    assert child_environment(HOST, {"PATH": "/own"}, inherit=True)["PATH"] == "/own"


@pytest.mark.parametrize("name", ["Path", "SystemRoot"])
def test_names_on_windows_have_no_case(name: str):
    host = {name: "C:\\", "Secret": "x"}
    assert child_environment(host, {}, inherit=False, windows=True) == {name: "C:\\"}
    assert child_environment(host, {}, inherit=["SECRET"], windows=True) == host


def test_certificates_and_proxies_are_passed_on_unless_a_password_is_in_them() -> None:
    host = {
        "SSL_CERT_FILE": "/etc/ca.pem",
        "HTTPS_PROXY": "http://proxy.example:3128",
        "http_proxy": "http://me:pw@proxy.example",
        "OTHER": "x",
    }
    assert set(child_environment(host, {}, inherit=False)) == {"SSL_CERT_FILE", "HTTPS_PROXY"}
