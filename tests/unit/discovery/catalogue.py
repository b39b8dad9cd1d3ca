"""A small catalogue of made-up tools, and small word vectors."""

from pathlib import Path

import numpy as np
import orjson

from openclaw.discovery import ToolDocument
from openclaw.discovery.vectors import TOKENIZER, WEIGHTS


def tool(server: str, name: str, description: str, **parameters: str) -> ToolDocument:
    properties: dict[str, object] = {
        key: {"type": "string", "description": text} for key, text in parameters.items()
    }
    schema: dict[str, object] = {"type": "object", "properties": properties}
    return ToolDocument(f"mcp_{server}_{name}", server, name, description, schema)


TOOLS = (
    tool("github", "create_issue", "Create a new issue in a repository", title="The title"),
    tool("github", "list_issues", "List the issues of a repository", state="open or closed"),
    tool("github", "mergePullRequest", "Merge a pull request", number="Which one"),
    tool("files", "read_file", "Read the contents of a file", path="Where the file is"),
    tool("files", "delete_file", "Delete a file from disk", path="Where the file is"),
    tool("mail", "send_message", "Send an email to someone", recipient="Who gets it"),
    tool("sky", "get_forecast", "Weather for the next days", city="The city"),
    tool("time", "convert_time", "Convert a time between time zones", zone="IANA time zone"),
    tool("shop", "find_product", "Find items to buy", budget="At most this much money"),
)


def write_vectors(directory: Path, words: dict[str, list[float]]) -> Path:
    """In wordllama's format; each word is one piece, and so is each of its letters."""
    letters = sorted({letter for word in words for letter in word} | {"\u2581"})
    vocabulary = dict.fromkeys(letters)
    for word in words:
        for end in range(1, len(word) + 1):
            vocabulary["\u2581" + word[:end]] = None
    pieces = {piece: place for place, piece in enumerate(vocabulary)}
    rows = np.zeros((len(pieces), len(next(iter(words.values())))), dtype="<f2")
    for word, values in words.items():
        rows[pieces["\u2581" + word]] = values
    for path, data in ((WEIGHTS, _safetensors(rows)), (TOKENIZER, _tokenizer(pieces))):
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(data)
    return directory


def _safetensors(rows: "np.ndarray[tuple[int, int], np.dtype[np.float16]]") -> bytes:
    data = rows.tobytes()
    tensor = {"dtype": "F16", "shape": list(rows.shape), "data_offsets": [0, len(data)]}
    header = orjson.dumps({"embedding.weight": tensor})
    return len(header).to_bytes(8, "little") + header + data


def _tokenizer(pieces: dict[str, int]) -> bytes:
    return orjson.dumps({"model": {"type": "BPE", "vocab": pieces, "merges": []}})
