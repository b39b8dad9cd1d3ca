"""The files for containers and workflows are valid, and hold together: configuration loads, parts fit."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from openclaw.config.load import parse_config
from openclaw.gateway.auth import OPEN_PATHS
from openclaw.secrets.refs import Secret, find
from openclaw.sessions.postgres.address import parsed, resolved

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
IMAGE = (DEPLOY / "Dockerfile").read_text()
BIN = Path(sys.executable).parent
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES: dict[str, Any] = {
    part["kind"]: part for part in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
}
POD: dict[str, Any] = KUBERNETES["Deployment"]["spec"]["template"]["spec"]
CONTAINER: dict[str, Any] = POD["containers"][0]

CONFIGS: dict[str, str] = {
    "compose": COMPOSE["configs"]["openclaw"]["content"].replace("$$", "$"),
    "kubernetes": KUBERNETES["ConfigMap"]["data"]["openclaw.json"],
}


async def resolve(text: str) -> Secret:
    return Secret("p@ss word")


@pytest.mark.parametrize("name", CONFIGS)
async def test_the_configuration_loads_and_names_a_server(name: str) -> None:
    loaded = parse_config(CONFIGS[name], {}, source=Path("openclaw.json"))
    assert (loaded.warnings, loaded.plaintext) == ((), ())
    assert loaded.config.gateway.bind == "lan"
    assert loaded.config.gateway.auth.token
    address = await resolved(loaded.config.sessions.store, resolve)
    assert parsed(address.url.reveal()).place.endswith("database 'openclaw'")


def references(name: str) -> set[tuple[str, str]]:
    config = parse_config(CONFIGS[name], {}, source=Path("openclaw.json")).config
    texts = (config.sessions.store, config.gateway.auth.token or "")
    return {(ref.scheme, ref.name) for text in texts for ref in find(text)}


def test_every_secret_that_the_configuration_names_is_given_to_the_container() -> None:
    given = {("file", f"run/secrets/{name}") for name in COMPOSE["services"]["gateway"]["secrets"]}
    assert references("compose") == given
    assert set(COMPOSE["services"]["gateway"]["secrets"]) == set(COMPOSE["secrets"])
    variables = {("env", variable["name"]) for variable in CONTAINER["env"]}
    assert references("kubernetes") <= variables


def test_turns_get_their_grace_before_the_container_is_killed() -> None:
    for name, seconds in (
        ("compose", 60 * int(COMPOSE["services"]["gateway"]["stop_grace_period"].rstrip("m"))),
        ("kubernetes", POD["terminationGracePeriodSeconds"]),
    ):
        config = parse_config(CONFIGS[name], {}, source=Path("openclaw.json")).config
        assert config.gateway.shutdown_grace_ms / 1000 < seconds


def test_monitors_ask_for_what_needs_no_token_at_the_gateways_port() -> None:
    port = parse_config(CONFIGS["compose"], {}, source=Path("openclaw.json")).config.gateway.port
    probes = ("startupProbe", "readinessProbe", "livenessProbe")
    assert {CONTAINER[probe]["httpGet"]["path"] for probe in probes} <= OPEN_PATHS
    assert CONTAINER["ports"][0]["containerPort"] == port
    asked = COMPOSE["services"]["gateway"]["healthcheck"]["test"][-1]
    found = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", asked)
    assert found is not None
    assert (int(found[1]), found[2] in OPEN_PATHS) == (port, True)
    assert KUBERNETES["Service"]["spec"]["ports"][0]["port"] == port
    assert f"EXPOSE {port}" in IMAGE
    in_image = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", IMAGE.partition("HEALTHCHECK")[2])
    assert in_image is not None
    assert (int(in_image[1]), in_image[2] in OPEN_PATHS) == (port, True)


def test_what_is_mounted_is_there_and_where_the_environment_says() -> None:
    volumes = {volume["name"] for volume in POD["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert set(mounts) == volumes
    environment = {variable["name"]: variable.get("value") for variable in CONTAINER["env"]}
    state = environment["OPENCLAW_STATE_DIR"]
    assert state == f"{mounts['state']}/state"  # a volume itself cannot be made private
    assert environment["OPENCLAW_CONFIG_PATH"] == f"{mounts['config']}/openclaw.json"
    assert f"sslrootcert={mounts['secrets']}/" in CONFIGS["kubernetes"]
    assert f"OPENCLAW_STATE_DIR={state} " in IMAGE
    assert f"OPENCLAW_CONFIG_PATH={mounts['config']}/openclaw.json" in IMAGE


def test_labels_select_the_pods() -> None:
    labels = KUBERNETES["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert KUBERNETES["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert KUBERNETES["Service"]["spec"]["selector"] == labels
    assert KUBERNETES["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels


# ---- validity, as the tools that read these files see it


@pytest.mark.subprocess
def test_kubernetes_takes_the_manifests() -> None:
    command = [BIN / "kubernetes-validate", "--strict", DEPLOY / "kubernetes.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("compose-spec", "deploy/compose.yaml"),
        ("github-workflows", ".github/workflows/*.yml"),
        ("dependabot", ".github/dependabot.yml"),
    ],
)
def test_a_file_is_what_its_schema_wants(schema: str, files: str) -> None:
    found = sorted(ROOT.glob(files))
    command = [BIN / "check-jsonschema", "--builtin-schema", f"vendor.{schema}", *found]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found
    assert done.returncode == 0, done.stdout


@pytest.mark.subprocess
@pytest.mark.skipif(sys.platform != "linux", reason="hadolint is installed on Linux only")
def test_the_image_is_built_as_the_linter_wants() -> None:
    command = [BIN / "hadolint", DEPLOY / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_image_has_the_locked_versions_and_runs_without_privileges() -> None:
    first, _, last = IMAGE.partition("\nFROM ")[2].partition("\nFROM ")
    assert "--constraint requirements.lock" in first
    assert "touch /opt/openclaw/openclaw-image" in first
    assert f"\nUSER {POD['securityContext']['runAsUser']}\n" in last
    assert POD["securityContext"]["runAsNonRoot"] is True


def test_docker_is_given_what_the_image_copies_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    given = {line[1:] for line in lines if line.startswith("!")}
    steps = re.findall(r"^COPY (?!--from)(.*) \S+$", IMAGE, re.MULTILINE)
    assert given == {source for step in steps for source in step.split()}
    assert all((ROOT / source).exists() for source in given)
    build = COMPOSE["services"]["gateway"]["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
