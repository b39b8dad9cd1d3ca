"""What stands before a conversation, in order and within its budget."""

import platform
from pathlib import Path
from typing import Any

import pytest

from openclaw.agent.budget import Budget, LimitReached, estimate
from openclaw.agent.prompt import (
    SYSTEM_PROMPT,
    assemble,
    cut_framed,
    read_context_files,
    surroundings,
)
from openclaw.config.agent_schema import TurnLimits
from openclaw.config.merge import EffectiveAgent, effective_agents
from openclaw.config.schema import Config
from openclaw.content.frame import frame

LARGE = 200_000


def agent(**defaults: Any) -> EffectiveAgent:
    config = Config.model_validate({"agents": {"defaults": defaults}})
    return effective_agents(config)["main"]


@pytest.mark.requirement("D-3")
def test_the_parts_stand_in_order() -> None:
    preamble = assemble(
        agent(),
        workspace=Path("/work"),
        resources=frame("news", sender="srv"),
        files=[("AGENTS.md", "Be kind."), ("NOTES.md", "Note.")],
        window=LARGE,
    )
    system, resources, files = preamble
    assert system.startswith(SYSTEM_PROMPT)
    assert "/work" in system
    assert "news" in resources
    assert files.index("Be kind.") < files.index("Note.")


def test_the_prompt_says_where_and_when_it_works_at_the_resolution_of_a_day() -> None:
    def system(now_ms: int, *, can_ask: bool = False) -> str:
        told = surroundings(now_ms, "Asia/Tokyo", can_ask=can_ask, searches=True)
        return assemble(
            agent(),
            workspace=Path("/work"),
            around=told,
            resources="",
            files=[],
            window=LARGE,
        )[0]

    evening = 1_794_841_200_000  # 2026-11-16 15:00 UTC, midnight in Tokyo
    assert "Tuesday, 2026-11-17 (time zone Asia/Tokyo)" in system(evening)
    assert "Monday, 2026-11-16" in system(evening - 1)
    assert system(evening) == system(evening + 86_399_999)
    assert f"The system is {platform.system()} " in system(evening)
    assert "Nobody can be asked" in system(evening)
    assert "is available for questions" in system(evening, can_ask=True)
    assert estimate(system(evening)) < 900


def test_without_memory_and_skills_nothing_stands_in_their_place() -> None:
    def parts(*notes: str) -> tuple[str, ...]:
        return assemble(agent(), workspace=None, notes=notes, resources="", files=[], window=LARGE)

    assert len(parts("", "")) == 1
    assert parts("a note", "", "another")[1] == "a note\n\nanother"


def test_an_agents_own_prompt_replaces_ours() -> None:
    preamble = assemble(
        agent(systemPrompt="You are a cook."), workspace=None, resources="", files=[], window=LARGE
    )
    assert preamble == ("You are a cook.",)


def test_a_small_model_gets_a_short_prompt() -> None:
    preamble = assemble(agent(), workspace=Path("/w"), resources="", files=[], window=2048)
    assert sum(map(estimate, preamble)) < 120
    assert "EXTERNAL_UNTRUSTED_CONTENT" in preamble[0]


def test_a_frame_that_does_not_fit_is_left_out_whole() -> None:
    small, large = frame("small", sender="a"), frame("x" * 5000, sender="b")
    text = cut_framed(f"{large}\n{small}\nunframed end", 200, 9000)
    assert "small" in text
    assert "unframed end" in text
    assert "xxx" not in text
    assert text.count("<<<EXTERNAL_UNTRUSTED_CONTENT") == text.count("<<<END_EXTERNAL")
    assert "left out" in text


def test_resources_over_their_limit_never_leave_a_frame_open() -> None:
    resources = "\n".join(frame("y" * 300, sender=str(number)) for number in range(20))
    preamble = assemble(
        agent(resourceContextChars=1000), workspace=None, resources=resources, files=[], window=9000
    )
    text = preamble[1]
    assert len(text) <= 1100
    assert text.count("<<<EXTERNAL_UNTRUSTED") == text.count("<<<END_EXTERNAL_UNTRUSTED")


def test_long_files_are_cut_to_their_share() -> None:
    files = [("A.md", "a" * 90_000), ("B.md", "b" * 90_000)]
    preamble = assemble(agent(), workspace=None, resources="", files=files, window=10_000)
    assert estimate(preamble[1]) <= 1700
    assert "left out" in preamble[1]


def test_files_are_read_from_the_workspace_and_nowhere_else(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (tmp_path / "secret").write_text("hush")
    (workspace / "AGENTS.md").write_text("mine")
    (workspace / "link.md").symlink_to(tmp_path / "secret")
    (workspace / "dir.md").mkdir()
    names = ["AGENTS.md", "link.md", "../secret", "dir.md", "missing.md", str(tmp_path / "secret")]
    assert read_context_files(workspace, names) == [("AGENTS.md", "mine")]


def test_a_file_that_cannot_be_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "AGENTS.md").write_text("x")

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError

    monkeypatch.setattr("openclaw.agent.tools.workspace.os.fdopen", refuse)
    assert read_context_files(tmp_path, ["AGENTS.md"]) == []


def test_calls_beyond_the_limit_are_refused_and_end_the_turn() -> None:
    budget = Budget(TurnLimits(max_tool_calls=1))
    assert budget.take_call()
    assert not budget.take_call()
    with pytest.raises(LimitReached, match="1 tool calls"):
        budget.before_request()
    assert budget.usage.tool_calls == 1
