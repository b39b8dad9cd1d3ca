"""Credentials that commands get from the environment."""

from pathlib import Path

from openclaw.config.load import load_config
from openclaw.runtime.settings import register_known_secrets
from openclaw.secrets.redactor import Redactor


def test_a_token_that_is_passed_on_to_commands_is_redacted(home: Path) -> None:
    environ = {"HOME": str(home), "GH_TOKEN": "ghp-0123456789abcdef", "SSH_AUTH_SOCK": "/run/agent"}
    (home / ".openclaw").mkdir(mode=0o700)
    text = '{tools: {exec: {inheritEnv: ["GH_TOKEN", "SSH_AUTH_SOCK"]}}}'
    (home / ".openclaw" / "openclaw.json").write_text(text)
    redactor = Redactor()
    register_known_secrets(load_config(None, environ), environ, redactor)
    assert "0123456789" not in redactor.redact("it is ghp-0123456789abcdef")
    assert redactor.redact("at /run/agent") == "at /run/agent"
