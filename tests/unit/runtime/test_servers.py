import json
import os
from contextlib import suppress
from pathlib import Path

from openclaw.agent.toolpath.audit import CallRecord
from openclaw.config.load import load_config
from openclaw.config.schema import AuditConfig
from openclaw.config.secret_store import SecretStore
from openclaw.core.content import Text
from openclaw.runtime.host import audited
from openclaw.runtime.settings import register_known_secrets
from openclaw.secrets.redactor import Redactor


def test_a_stored_secret_is_known_before_anything_refers_to_it(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    SecretStore(environ).set("UNUSED", "correct-horse-battery", keyring=False)
    redactor = Redactor()
    register_known_secrets(load_config(None, environ), environ, redactor)
    assert redactor.redact("it is correct-horse-battery") == "it is [REDACTED]"


_SETTINGS = AuditConfig(enabled=True, bodies=True)

_CALL = CallRecord(
    at_ms=0,
    agent="main",
    session="s\udce9",
    call_id="1",
    server="time",
    tool="now",
    arguments={"zone": "caf\udce9", "n": 2**80},
    outcome="ok",
    duration_ms=1.0,
    blocks=(Text("half \ud800"),),
)


def test_a_call_with_half_a_character_or_a_huge_number_is_written_down(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with audited(path, Redactor(), _SETTINGS) as calls:
        calls.record(_CALL)
    line = json.loads(path.read_text())
    assert json.loads(line["arguments"]) == {"zone": "caf\udce9", "n": 2**80}
    assert (line["session"], line["result"]) == ("s\udce9", "half \ud800")


def _descriptors(path: Path) -> list[int]:
    found: list[int] = []
    for number in range(1024):
        with suppress(OSError):
            if os.path.samestat(os.fstat(number), path.stat()):
                found.append(number)
    return found


def test_the_audit_log_does_not_stay_open(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with audited(path, Redactor(), _SETTINGS) as calls:
        calls.record(_CALL)
    assert _descriptors(path) == []
