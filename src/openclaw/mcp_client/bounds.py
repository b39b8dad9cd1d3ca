"""How much of anything a server may send us, and how fast."""

MAX_PAGES = 100
MAX_TOOLS = 2000
MAX_RESOURCES = 5000
MAX_PROMPTS = 1000
MAX_ENTRY_BYTES = 256 * 1024
MAX_INSTRUCTIONS = 64 * 1024
LOG_LINES_PER_SECOND, LOG_BURST = 20.0, 100.0
MAX_LOG_CHARS = 4096


def printable(text: str, limit: int = MAX_LOG_CHARS) -> str:
    """One line of at most `limit` characters without control characters, for a log."""
    cut = text[:limit]
    clean = "".join(char if char.isprintable() else " " for char in cut).rstrip()
    return clean + "…" if len(text) > limit else clean
