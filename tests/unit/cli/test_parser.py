import pytest

from openclaw.cli.parser import CommandParser, WrongUsage, not_there


def test_names_that_others_chose_are_shown_printable_and_short() -> None:
    told = not_there("no", "x", ["s/a\x1b[31m\nb", "s/" + "c" * 5000])
    assert told.hint is not None
    assert told.hint.isprintable()
    assert "s/a [31m b" in told.hint
    assert len(told.hint) < 300


def test_the_nearest_name_is_shown_printable() -> None:
    assert not_there("no", "s/abcdefgh", ["s/abcdefgh\x07"]).hint == "did you mean 's/abcdefgh'?"


def test_a_wrong_value_is_told_as_a_person_would(capsys: pytest.CaptureFixture[str]) -> None:
    parser = CommandParser(prog="p")
    parser.add_argument("what", choices=("list", "accept"), nargs="?")
    parser.add_argument("-n", "--lines")
    for words, told in (
        (["zzz"], "p: Invalid choice 'zzz'; choose from list, accept\n"),
        (["acept"], "p: Invalid choice 'acept'; did you mean accept?\n"),
        (["--lists"], "p: Unknown option '--lists'; did you mean --lines?"),
        (["--bogus"], "p: Unknown option '--bogus'\n"),
    ):
        with pytest.raises(WrongUsage):
            parser.parse_args(words)
        assert told in capsys.readouterr().err
