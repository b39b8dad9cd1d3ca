import re

from openclaw.embedded.weights import CATALOGUE, DEFAULT_WEIGHTS, find_weights


def test_the_default_is_found_by_every_name_it_has() -> None:
    for name in (DEFAULT_WEIGHTS, "smollm2-135m", "SmolLM2"):
        found = find_weights(name)
        assert found is not None
        assert found.name == DEFAULT_WEIGHTS
    assert find_weights("gpt-9") is None


def test_every_entry_is_pinned_by_hash_and_says_what_it_is_good_for() -> None:
    for weights in CATALOGUE:
        assert re.fullmatch(r"[0-9a-f]{64}", weights.sha256)
        assert weights.size
        assert weights.good_for
        if weights.wheel is None:
            assert re.search(r"/resolve/[0-9a-f]{40}/[^/]+\.gguf$", weights.url)
    assert len({weights.name for weights in CATALOGUE}) == len(CATALOGUE)


def test_only_the_smallest_needs_the_router() -> None:
    routed = [w.name for w in CATALOGUE if w.tool_use == "router"]
    assert routed == [DEFAULT_WEIGHTS]
