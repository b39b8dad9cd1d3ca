"""No parser of what strangers write raises what it does not promise, or reads what is not there."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.parser_targets import SEEDS, TARGETS, Disagreement, read_line_as_client
from tests.support.pattern_growth import growth_of

from openclaw.config.json5 import parse
from openclaw.core.errors import InvalidConfig

PIECES = [
    *(b"{ } [ ] < > , : \" ' \\ \\u0041 \\ud800 // /* */ null true 1e999 0x .5 NaN = ? # & %25 &#65;".split()),
    *(b"${ secret://env/ <| |> [INST] base64 \xff \xc3\xa9 \xe2\x80\x8b".split()),
    b" ",
    b"\n",
    b"\0",
]  # fmt: skip


def with_piece(seed: bytes, at: int, piece: bytes) -> bytes:
    at %= len(seed)
    return seed[:at] + piece + seed[at:]


def inputs(name: str) -> st.SearchStrategy[bytes]:
    piece = st.one_of(st.sampled_from(PIECES), st.binary(max_size=8))
    cut = st.builds(with_piece, st.sampled_from(SEEDS[name]), st.integers(0, 500), piece)
    return st.one_of(
        st.binary(max_size=200),
        st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join),
        cut,
    )


@pytest.mark.usefixtures("soaking")
@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_raises_only_what_it_promises_whatever_the_bytes(name: str) -> None:
    @given(inputs(name))
    def holds(data: bytes) -> None:
        TARGETS[name](data)

    holds()


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_of_a_parser_and_their_halves_are_read(name: str) -> None:
    rng = random.Random(3)
    for seed in SEEDS[name]:
        TARGETS[name](seed)
        for _ in range(10):
            TARGETS[name](seed[: rng.randrange(len(seed))])


@pytest.mark.parametrize("name", TARGETS)
def test_no_parser_takes_longer_than_in_proportion(name: str) -> None:
    def read(text: str) -> None:
        TARGETS[name](text.encode("latin-1"))

    pumps = [piece.decode("latin-1") for piece in (b"a", b"a=", b"a(", b" a", b"\n a", *PIECES)]
    assert growth_of(read, pumps, seconds=1) is None


def test_a_disagreement_between_parsers_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never_right(line: bytes) -> dict[str, int]:
        return {"id": 2}

    monkeypatch.setattr("tests.support.parser_targets.loads", never_right)
    with pytest.raises(Disagreement):
        read_line_as_client(b'{"id": 1}')


def test_a_comment_that_is_never_closed_is_refused_at_once() -> None:
    started = time.process_time()
    with pytest.raises(InvalidConfig) as refused:
        parse("{} /* " + "a comment that goes on and on " * 2000)
    assert "not closed" in refused.value.problems[0].message
    assert time.process_time() - started < 5


def test_half_a_character_in_a_bare_key_is_refused() -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse(r"{mcp\ud800: {}}")
    assert "unpaired surrogate" in refused.value.problems[0].message


def test_a_request_whose_id_is_half_a_character_does_not_end_the_server() -> None:
    TARGETS["json-rpc, server"](rb'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}')
