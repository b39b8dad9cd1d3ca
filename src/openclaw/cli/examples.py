"""Examples for `--help` and the manual, by command. Every one is a command line that parses."""

from typing import Final

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "acp": ("acp", "acp --agent research"),
    "agent": (
        'agent "What is in my workspace?"',
        'agent --image photo.png "What is this?"',
        "agent --session-key trip --json - < question.txt",
    ),
    "chat": ("chat", "chat --session-key trip"),
    "completion": (
        "completion bash > ~/.local/share/bash-completion/completions/openclaw",
        "completion zsh > ~/.zfunc/_openclaw   # ~/.zfunc in fpath",
        "completion fish > ~/.config/fish/completions/openclaw.fish",
    ),
    "config": ("config validate", "config schema > openclaw.schema.json"),
    "config path": ("config path",),
    "config show": ("config show",),
    "config validate": ("config validate", "config validate --config other.json --json"),
    "config schema": ("config schema > openclaw.schema.json",),
    "doctor": ("doctor", "doctor --fix"),
    "gateway": ("gateway run", "gateway status --json"),
    "gateway run": ("gateway run", "gateway run --port 9000"),
    "gateway install": ("gateway install",),
    "gateway reload": ("gateway reload",),
    "gateway status": ("gateway status",),
    "gateway stop": ("gateway stop",),
    "init": (
        "init",
        "init --yes --register claude-code,cursor",
        "init --yes --model anthropic/claude-sonnet-5-5 --import none",
        "init --dry-run",
        "init --unregister all",
    ),
    "man": ("man | man -l -",),
    "mcp": ("mcp add time -- uvx mcp-server-time", "mcp probe", "mcp import"),
    "mcp list": ("mcp list",),
    "mcp add": (
        "mcp add time -- uvx mcp-server-time",
        "mcp add docs --url https://a.example --header 'X-Key: secret://env/K'",
    ),
    "mcp remove": ("mcp remove time",),
    "mcp import": ("mcp import --dry-run", "mcp import cursor github"),
    "mcp tools": ("mcp tools", "mcp tools time --json"),
    "mcp call": ("mcp call time get_current_time timezone=Asia/Tokyo",),
    "mcp probe": ("mcp probe", "mcp probe time"),
    "mcp restart": ("mcp restart time",),
    "mcp prompt": ("mcp prompt", "mcp prompt docs:summarise page=intro"),
    "mcp pins": ("mcp pins", "mcp pins show time", "mcp pins accept time"),
    "mcp login": ("mcp login docs",),
    "mcp logout": ("mcp logout docs",),
    "mcp-server": ("mcp-server", "mcp-server --agent research"),
    "models": ("models status", "models pull"),
    "models list": ("models list",),
    "models status": ("models status",),
    "models pull": ("models pull", "models pull qwen2.5-0.5b-instruct"),
    "secrets": ("secrets check",),
    "secrets check": ("secrets check", "secrets check secret://env/DOCS_TOKEN"),
    "sessions": ("sessions", "sessions show main", 'sessions search "train tickets"'),
    "sessions list": ("sessions list --search trip",),
    "sessions show": ("sessions show main", "sessions show main --raw --limit 5"),
    "sessions export": ("sessions export main > main.jsonl",),
    "sessions delete": ("sessions delete main", "sessions delete main --yes"),
    "sessions copy": ("sessions copy file postgresql://db.example/openclaw",),
    "sessions search": ('sessions search "train tickets"',),
    "status": ("status", "status --probe"),
}


def epilog(prog: str) -> str | None:
    """The examples for a parser that is called so, as the end of its help."""
    program, _, command = prog.partition(" ")
    lines = EXAMPLES.get(command, ())
    if not lines:
        return None
    return "\n".join(["examples:", *(f"  {program} {line}" for line in lines)])
