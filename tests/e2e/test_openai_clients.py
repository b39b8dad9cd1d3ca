"""Programs of other makers that speak OpenAI's interfaces, at our gateway."""

import json
import os
from pathlib import Path

import anyio
import pytest
from tests.e2e.conftest import NodePackages
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

SCRIPT = Path(__file__).parent / "node" / "openai_clients.mjs"
CITY = {"city": "Paris", "location": "Paris"}
RULES = (
    Step(when="a person", text='{"name": "Ann"}'),
    Step(when="a long story", text="Once upon a time", finish="length"),
    Step(when="weather in Paris", role="user", calls=(("weather", CITY),)),
    Step(when="weather in San Francisco", role="user", calls=(("get_weather", CITY),)),
    Step(when="degrees", role="tool", text="It is warm."),
)


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    (tmp_path / "state").mkdir(mode=0o700)
    return Installation(tmp_path / "state")


async def test_the_ai_sdk_and_openais_own_library_hold_conversations(
    installation: Installation, node_packages: NodePackages
) -> None:
    # It is run beside the packages: that is where Node looks for what it imports.
    script = node_packages.modules.parent / f"openai_clients.{os.getpid()}.mjs"
    script.write_text(SCRIPT.read_text())
    try:
        async with scripted_model(rules=RULES, default=Step(text="Hello.")) as model:
            installation.configure(model.url)
            async with installation.here() as info:
                command = [str(node_packages.node), str(script), f"{info.url}/v1"]
                with anyio.fail_after(240):
                    ran = await anyio.run_process([*command, installation.token], check=False)
    finally:
        script.unlink()
    assert ran.returncode == 0, ran.stderr.decode()
    said = json.loads(ran.stdout)
    for name in ("responses", "chat"):
        for store in ("true", "false"):
            assert said[f"{name} {store}"] == "Hello."
            assert said[f"{name} {store} tools"] == ["It is warm.", "It is warm."]
        assert said[f"{name} object"] == {"name": "Ann"}
    assert said["cut"] == ["incomplete", "max_output_tokens", "Once upon a time"]


@pytest.mark.parametrize(("form", "tests"), [("openai-chat", 8), ("open-responses", 12)])
async def test_llm_comply_passes(
    installation: Installation, programs: Path, form: str, tests: int
) -> None:
    """All but one, which it skips unless a model's name is known to it as one that thinks."""
    async with scripted_model(rules=RULES, default=Step(text="Hello.")) as model:
        installation.configure(model.url)
        async with installation.here() as info:
            command = [str(programs / "llm-comply"), "-u", f"{info.url}/v1", "-m", "openclaw"]
            options = [f"--api-key={installation.token}", "--format", form, "--json"]
            with anyio.fail_after(240):
                ran = await anyio.run_process([*command, *options], check=False)
    told = json.loads(ran.stdout)
    assert told["summary"]["failed"] == 0, ran.stdout.decode()
    assert told["summary"]["passed"] == tests
