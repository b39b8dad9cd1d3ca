"""Whether a process that left its mark is gone."""

import os
import subprocess
import sys

import pytest

from openclaw.sessions import liveness
from openclaw.sessions.liveness import is_gone, own_mark


def test_this_process_is_not_gone() -> None:
    assert not is_gone(own_mark())


def test_a_process_that_ended_is_gone_even_before_it_is_reaped() -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from openclaw.sessions.liveness import own_mark; print(own_mark())",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    mark = child.stdout.read().strip()  # at its end the process is a zombie, or soon will be
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(mark)
    child.communicate()
    assert is_gone(mark)


def test_another_process_under_a_used_number_is_not_taken_for_the_first() -> None:
    boot, namespace, pid, started = own_mark().split("/")
    assert is_gone(f"{boot}/{namespace}/{pid}/{int(started) - 1}")


def test_a_process_of_another_boot_is_gone_and_of_another_namespace_cannot_be_judged() -> None:
    boot, namespace, pid, started = own_mark().split("/")
    assert is_gone(f"other/{namespace}/{pid}/{started}")
    assert not is_gone(f"{boot}/other/999999999/1")


def test_without_proc_a_signal_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> str:
        return ""

    monkeypatch.setattr(liveness, "_namespace", nothing)
    monkeypatch.setattr(liveness, "_boot", nothing)
    assert not is_gone(f"//{os.getpid()}/")
    assert is_gone("//4194305/")
    assert not is_gone("//1/")
