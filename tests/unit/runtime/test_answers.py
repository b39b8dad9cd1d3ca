"""An "always" updates the rules of the running program; nothing else is built again."""

import json
from pathlib import Path

from openclaw.config.load import load_config
from openclaw.runtime.runtime import open_runtime
from openclaw.secrets.redactor import Redactor


async def test_an_always_updates_the_running_rules_and_the_file(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(json.dumps({"tools": {"ask": ["write"]}}))
    environ = {"OPENCLAW_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)}
    async with open_runtime(load_config(path, environ), environ, Redactor()) as runtime:
        before, shares = runtime.generation, runtime.host.shared
        assert shares.approvals.write is not None
        await shares.approvals.write("main", "write")
        await runtime.apply(load_config(path, environ))
        assert runtime.generation is before
        assert [rules.approved for rules in runtime.generation.agent(None).tools][:2] == [
            (),
            ("write",),
        ]
        assert runtime.host.config.tools.approved == ("write",)
        path.write_text(json.dumps({"tools": {"ask": ["write", "edit"]}}))
        await runtime.apply(load_config(path, environ))
        assert runtime.generation is not before
