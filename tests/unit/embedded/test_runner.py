import sys
from pathlib import Path

import pytest

from openclaw.core.errors import ModelUnavailable
from openclaw.embedded.runner import Generation, Prompt, Runner, RunnerFailed, threads_for
from openclaw.embedded.weights import CATALOGUE

HELLO = Prompt([{"role": "user", "content": "hi"}], 5)


def test_all_cores_but_one_compute_unless_a_number_is_given() -> None:
    assert threads_for("most", cores=8) == 7
    assert threads_for("most", cores=1) == 1
    assert threads_for(1, cores=8) == 1
    assert threads_for("most") >= 1


async def test_weights_that_cannot_be_loaded_are_an_error_for_whoever_asked(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUFnonsense")
    runner = Runner(CATALOGUE[0], lambda: path)
    with pytest.raises(RunnerFailed, match="could not load"):
        await (await runner.generate(HELLO)).text()
    with pytest.raises(RunnerFailed, match="could not load"):
        await (await runner.generate(HELLO)).text()
    await runner.aclose()


async def test_without_the_library_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    runner = Runner(CATALOGUE[0], lambda: tmp_path / "x.gguf")
    with pytest.raises(ModelUnavailable, match="the embedded model is not installed") as raised:
        await (await runner.generate(HELLO)).text()
    assert '[local]"' in str(raised.value.hint)
    assert "openclaw init" in str(raised.value.hint)
    await runner.aclose()


async def test_closing_what_was_never_used_does_nothing(tmp_path: Path) -> None:
    await Runner(CATALOGUE[0], lambda: tmp_path / "x.gguf").aclose()


class Broken:
    def handle_chat_completions(self, body: object, take: object) -> None:
        raise OSError("gone")


async def test_a_failure_of_the_library_ends_the_answer_and_not_the_thread() -> None:
    generation = Generation(HELLO)
    generation.run(Broken())
    with pytest.raises(RunnerFailed, match="gone"):
        await generation.text()


async def test_an_answer_that_was_stopped_before_it_began_is_empty() -> None:
    generation = Generation(HELLO)
    generation.stop()
    generation.run(Broken())
    assert await generation.text() == ""
