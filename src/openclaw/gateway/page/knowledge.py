"""What an agent knows besides its instructions: its memory and its skills."""

from pathlib import Path

import anyio.to_thread

from openclaw.agent.tools.memory import Memory
from openclaw.agent.tools.skills import plugin_skills, read_skill
from openclaw.core.errors import NotFound, ToolFailure
from openclaw.core.file_names import FileName
from openclaw.gateway.api.openapi import Json, operation
from openclaw.gateway.gateway import Gateway
from openclaw.gateway.owners import ALL


async def _memory(gateway: Gateway, agent: str | None) -> Memory:
    settings = await gateway.backend.agent.settings(agent)
    return Memory(gateway.paths.memory / FileName(settings.id))


@operation("GET /api/memory", ALL, {"directory": str, "lines": list[dict[str, str]]}, needs="admin")
async def show_memory(gateway: Gateway, agent: str | None = None) -> Json:
    """What an agent remembers, line by line."""
    memory = await _memory(gateway, agent)
    found = await anyio.to_thread.run_sync(lambda: [*memory.lines()])
    lines = [{"file": name, "text": gateway.redact(line)} for name, line in found]
    return {"directory": str(memory.directory), "lines": lines}


@operation("POST /api/memory/forget", ALL, {"forgotten": bool})
async def forget(gateway: Gateway, agent: str | None = None, *, file: str, text: str) -> Json:
    """Remove a line from an agent's memory."""
    memory = await _memory(gateway, agent)
    if not await anyio.to_thread.run_sync(memory.forget, file, text, gateway.redact):
        raise NotFound("this is not remembered any more")
    return {"forgotten": True}


@operation(
    "GET /api/skills", ALL, {"skills": list[dict[str, str]], "problems": list[str]}, needs="admin"
)
async def list_skills(gateway: Gateway, agent: str | None = None) -> Json:
    """The skills on this computer, with their folders."""
    settings = await gateway.backend.agent.settings(agent)
    places = [*(one / "skills" for one in settings.directories), gateway.paths.skills]
    return await anyio.to_thread.run_sync(_skills_in, [*places, *plugin_skills()])


def _skills_in(places: list[Path]) -> Json:
    skills: list[dict[str, str]] = []
    problems: list[str] = []
    for place in places:
        for folder in sorted(place.iterdir()) if place.is_dir() else ():
            try:
                one = read_skill(folder)
            except ToolFailure as wrong:
                problems.append(wrong.message)
            else:
                about = {"name": one.name, "description": one.description}
                skills.append({**about, "path": str(one.folder)})
    return {"skills": skills, "problems": problems}
