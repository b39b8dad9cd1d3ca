"""Expressions that Python has compiled once are there the next time, as its modules are."""

import marshal
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = r"""
import re
FOUND = [re.compile(r"(?P<word>[a-z]+)|\d", re.I), re.compile(rb"\x00(a|b)*"), re.compile("ä", re.I | re.X)]
def later(text):
    return re.compile(text)
"""

RUN = """
import sys
from openclaw.cli import startup
startup.__file__ = sys.argv[1]
startup.prepare()
import re
parsed = []
parse = re._parser.parse
re._parser.parse = lambda pattern, *given: (parsed.append(pattern), parse(pattern, *given))[1]
sys.path.insert(0, sys.argv[2])
import patterned
patterned.later("my " + "secret")
word, zero, letter = patterned.FOUND
print([(one.pattern, one.flags, one.groups, dict(one.groupindex)) for one in patterned.FOUND])
print(word.fullmatch("ABC")["word"], zero.match(b"\\0ab").group(1), bool(letter.match("Ä")))
print([one in parsed for one in ("my secret", word.pattern, zero.pattern, letter.pattern)])
from openclaw.cli.main import exit_quickly
exit_quickly(0)
"""


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "patterned.py").write_text(MODULE)
    return [str(tmp_path / "startup.py"), str(tmp_path)]


def run(places: list[str], **environ: str) -> list[str]:
    others = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", RUN, *places]
    return subprocess.check_output(command, text=True, env={**others, **environ}).splitlines()


def kept(places: list[str]) -> list[Path]:
    return sorted(Path(places[1], "__pycache__").glob("patterns.*"))


def test_what_a_module_has_compiled_is_the_same_the_next_time(places: list[str]) -> None:
    first, second = run(places), run(places)
    assert second[:2] == first[:2]
    assert first[2] == "[True, True, True, True]"
    assert second[2] == "[True, False, False, False]"
    (file,) = kept(places)
    assert b"secret" not in file.read_bytes()


@pytest.mark.parametrize("content", [b"", b"nonsense", b"N", b"\xe9\x01\x00\x00\x00"])
def test_a_file_that_holds_something_else_is_written_anew(
    places: list[str], content: bytes
) -> None:
    first = run(places)
    (file,) = kept(places)
    file.write_bytes(content)
    assert run(places) == first
    assert run(places)[2] == "[True, False, False, False]"


def test_an_expression_whose_code_is_wrong_is_compiled_anew(places: list[str]) -> None:
    first = run(places)
    (file,) = kept(places)
    entries = marshal.loads(file.read_bytes())
    file.write_bytes(marshal.dumps(dict.fromkeys(entries, marshal.dumps((0, b"1234", 0, {}, ())))))
    assert run(places) == first


def test_nothing_is_kept_if_python_may_keep_nothing(places: list[str]) -> None:
    run(places, PYTHONDONTWRITEBYTECODE="1")
    assert not kept(places)
