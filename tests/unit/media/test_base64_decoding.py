import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import InvalidRequest
from openclaw.media.intake import decode

MIB = 1024 * 1024


def decoded(data: str, limit: int = 64 * MIB) -> bytes:
    return b"".join(decode(data, field="images[2].data", limit=limit))


@pytest.mark.parametrize("size", [1, 2, 3, 57, 3 * MIB - 1, 3 * MIB, 3 * MIB + 1, 7 * MIB + 5])
@pytest.mark.parametrize("every", [None, 76, 1_000_003])
def test_base64_is_decoded_with_and_without_line_breaks(size: int, every: int | None) -> None:
    raw = random.Random(size).randbytes(size)
    data = base64.b64encode(raw).decode()
    if every is not None:
        data = "\r\n".join(data[at : at + every] for at in range(0, len(data), every)) + "\n"
    assert decoded(data) == raw


@pytest.mark.requirement("M-7")
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("data:image/png;base64,AAAA", "is a data: URL; give only the base64"),
        ("AAA", "is not valid base64 (in the standard alphabet, with its padding)"),
        ("AA-_", "is not valid base64"),
        ("AA==AA==", "is not valid base64"),
        ("A\u00e9AA", "is not valid base64"),
        ("AAAA!AAA", "is not valid base64"),
    ],
)
def test_what_is_not_base64_is_refused_with_the_reason_and_the_item(
    data: str, problem: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decoded(data)
    assert str(refused.value).startswith("images[2].data: ")
    assert problem in str(refused.value)


def test_padding_in_the_middle_of_large_data_is_refused() -> None:
    piece = "A" * (4 * MIB - 4) + "AA=="
    with pytest.raises(InvalidRequest, match="padding"):
        decoded(piece + "AAAA")


def test_more_than_the_limit_is_refused_with_both_sizes() -> None:
    data = base64.b64encode(bytes(2 * MIB)).decode()
    with pytest.raises(InvalidRequest, match=r"is 2\.0 MB; the limit is 1\.0 MB"):
        decoded(data, limit=MIB)


@given(st.text(max_size=200))
def test_any_text_is_decoded_or_refused(data: str) -> None:
    try:
        result = decoded(data)
    except InvalidRequest:
        return
    assert base64.b64decode("".join(data.split()), validate=True) == result
