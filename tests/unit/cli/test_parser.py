from openclaw.cli.parser import not_there


def test_names_that_others_chose_are_shown_printable_and_short() -> None:
    told = not_there("no", "x", ["s/a\x1b[31m\nb", "s/" + "c" * 5000])
    assert told.hint is not None
    assert told.hint.isprintable()
    assert "s/a [31m b" in told.hint
    assert len(told.hint) < 300


def test_the_nearest_name_is_shown_printable() -> None:
    assert not_there("no", "s/abcdefgh", ["s/abcdefgh\x07"]).hint == "did you mean 's/abcdefgh'?"
