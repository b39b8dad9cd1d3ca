"""What the configuration says about data flow, and how "always" gets there."""

import json
from pathlib import Path

from openclaw.config.load import parse_config
from openclaw.config.merge import effective_agents
from openclaw.policy.dataflow.rules import Allowance
from openclaw.runtime.host import Shared, flow_rules

CONFIG = {
    "mcp": {
        "servers": {
            "mail": {"command": "x", "trust": "full", "effects": {"poke": "read"}},
            "web": {"command": "y"},
        }
    },
    "dataflow": {"mode": "refuse", "modes": {"web": "log", "mail/poke": "off"}},
}


async def test_modes_effects_trust_and_answers_come_from_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(json.dumps(CONFIG))
    always = Allowance("mail/send_email", "to", "", "crm/get", "email", "email")
    where = await Shared(tmp_path, path, {}).allow_fields([always])
    assert where == f"dataflow.allow in {path}"
    config = parse_config(path.read_text(), {}, source=path).config
    rules = flow_rules(config.dataflow, effective_agents(config)["main"])
    assert rules.mode == "refuse"
    assert rules.mode_of("web", "search") == "log"
    assert rules.mode_of("mail", "poke") == "off"
    assert rules.effects == {"mail/poke": "read"}
    assert rules.trusted_servers == {"mail"}
    assert rules.allowed == {always}
