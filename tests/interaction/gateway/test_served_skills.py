"""Skills over MCP (SEP-2640): listed in a frame, read when needed, and only as they were listed."""

import base64
import hashlib
import json
from typing import Any

import pytest
from tests.interaction.gateway.conftest import Open
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation

from openclaw.mcp_client.bridge.skills import mismatch, owner, served_skills
from openclaw.testing.scripted_model import Step, scripted_model


def text_of(name: str, body: str) -> str:
    return f"---\nname: {name}\ndescription: How to {name}.\n---\n{body}\n"


TEXT = text_of("git-workflow", "Branch from main.")
OLD, NEW, DAILY = text_of("changed", "old"), text_of("changed", "new"), text_of("daily", "today's")
FORGED = text_of("other", "not what was listed")
ROOT = "skill://acme/git-workflow"


def listed(uri: str, text: str) -> dict[str, Any]:
    data = text.encode()
    return {"uri": uri, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}


def entry(name: str, root: str, *resources: dict[str, Any]) -> dict[str, Any]:
    matter = {"name": name, "description": f"How to {name}."}
    return {"uri": f"{root}/SKILL.md", "frontmatter": matter, "resources": [*resources]}


SKILLS = [
    entry("git-workflow", ROOT, listed(f"{ROOT}/SKILL.md", TEXT), listed(f"{ROOT}/refs/A.md", "A")),
    entry("changed", "skill://changed", listed("skill://changed/SKILL.md", OLD)),
    {**entry("daily", "skill://daily"), "resources": "dynamic"},
    entry("gone", "skill://gone", listed("skill://gone/SKILL.md", text_of("gone", "old"))),
    entry("forged", "skill://forged", listed("skill://forged/SKILL.md", FORGED)),
]
SERVER = {
    "resources": [
        {"uri": f"{ROOT}/SKILL.md", "name": "SKILL.md", "text": TEXT},
        {"uri": f"{ROOT}/refs/A.md", "name": "A", "text": "B"},
        {"uri": f"{ROOT}/hidden.md", "name": "H", "text": "H"},
        {"uri": "skill://changed/SKILL.md", "name": "C", "text": NEW},
        {"uri": "skill://daily/SKILL.md", "name": "D", "text": DAILY},
        {"uri": "skill://gone/SKILL.md", "name": "G", "text": text_of("gone", "tampered")},
        {"uri": "skill://forged/SKILL.md", "name": "F", "text": FORGED},
        {"uri": "notes://plain", "name": "plain", "text": "an ordinary note"},
    ],
    "skills": SKILLS,
    "updatedSkills": [
        {"uri": "skill://gone/SKILL.md"},  # no longer a valid entry
        entry("changed", "skill://changed", listed("skill://changed/SKILL.md", NEW)),
    ],
}


async def test_skills_of_servers_are_named_read_and_checked(
    installation: Installation, opened: Open
) -> None:
    wanted = (
        f"{ROOT}/SKILL.md",
        f"{ROOT}/refs/A.md",
        f"{ROOT}/hidden.md",
        "skill://changed/SKILL.md",
        "skill://daily/SKILL.md",
        "skill://forged/SKILL.md",
        "skill://gone/SKILL.md",
    )
    calls = tuple(("mcp_fake_read_resource", {"uri": uri}) for uri in wanted)
    async with scripted_model([Step(text="Hi."), Step(calls=calls), Step(text="Done.")]) as model:
        installation.configure(model.url, {"fake": server_entry(SERVER)})
        async with opened() as client:
            for text in ("hello", "go"):
                body = {"text": text, "sessionKey": "k", "stream": False}
                await client.post("/api/messages", json=body)
    prompt = json.dumps(model.requests[1].body["messages"])
    assert "MCP Skills: fake, to be read with mcp_fake_read_resource" in prompt
    assert "- git-workflow: How to git-workflow." in prompt
    assert "an ordinary note" in prompt
    assert "Branch from main." not in prompt  # nothing is read ahead of need
    results = [m["content"] for m in model.requests[2].body["messages"] if m["role"] == "tool"]
    first, tampered, hidden, updated, dynamic, forged, gone = map(str, results)
    assert "Branch from main." in first
    assert "UNTRUSTED" in first
    assert "its digest is not the one that the skill 'git-workflow' lists" in tampered
    assert "does not list this file" in hidden
    assert "new" in updated
    assert "today's" in dynamic
    assert "its front matter is not the one that the skill 'forged' lists" in forged
    assert "not what was listed" not in forged
    assert "its size is not the one that the skill 'gone' lists" in gone
    assert "tampered" not in gone


@pytest.mark.parametrize(
    "change",
    [
        {"uri": "skill://acme/other/SKILL.md"},
        {"uri": 3},
        {"frontmatter": {"name": "git-workflow"}},
        {"frontmatter": {"name": "Git Workflow", "description": "x"}},
        {"resources": None},
        {"resources": []},
        {"resources": [listed("skill://elsewhere/SKILL.md", "x")]},
        {"resources": [{**listed(f"{ROOT}/SKILL.md", TEXT), "digest": "md5:1"}]},
        {"resources": [{**listed(f"{ROOT}/SKILL.md", TEXT), "size": 2**30}]},
    ],
)
def test_an_entry_that_is_not_as_it_should_be_is_left_out(change: dict[str, Any]) -> None:
    assert served_skills([{**SKILLS[0], **change}, "odd"]) == []


def test_a_file_belongs_to_the_innermost_skill_and_may_be_binary() -> None:
    text = text_of("deep", "x")
    blob = base64.b64encode(text.encode()).decode()
    inner = entry("deep", f"{ROOT}/deep", listed(f"{ROOT}/deep/SKILL.md", text))
    skills = served_skills([SKILLS[0], inner])
    found = owner(skills, f"{ROOT}/deep/SKILL.md")
    assert found is not None
    assert found.name == "deep"
    assert mismatch(skills, f"{ROOT}/deep/SKILL.md", [{"blob": blob}]) is None
    assert mismatch(skills, f"{ROOT}/deep/SKILL.md", [{"blob": "?"}]) is not None
    assert mismatch(skills, f"{ROOT}/deep/SKILL.md", [{"text": text}, {"text": ""}]) is not None
    assert mismatch(skills, "notes://plain", [{"text": "x"}]) is None
    assert served_skills(None) == []
