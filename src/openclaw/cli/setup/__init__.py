"""`openclaw init` and `doctor`: what is found, planned, written and checked."""

# The programs whose MCP servers can be imported; here, since nothing else is imported with it.
SOURCES = (
    *("claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "windsurf", "zed"),
)
