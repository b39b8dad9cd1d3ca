"""The file behind `secret://store/NAME`: every name, with its value unless the keyring has it."""

import json
from pathlib import Path
from typing import Any, cast

from openclaw.secrets.refs import BackendFailure

FILE = "secrets.json"
SERVICE = "openclaw-store"  # the service of our entries in the keyring


def read_store(path: Path) -> dict[str, str | None]:
    """Every name with its value, or None if the keyring has it."""
    try:
        content: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BackendFailure(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise BackendFailure(f"{path} is not JSON") from None
    entries = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    return {name: one if isinstance(one, str) else None for name, one in entries.items()}
