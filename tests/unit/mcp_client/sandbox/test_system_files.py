"""What every confined program reads of the machine."""

import os
from pathlib import Path

import pytest

from openclaw.mcp_client.sandbox.system_files import link_into_home, open_settings


def test_settings_are_open_but_secrets(tmp_path: Path) -> None:
    root = tmp_path / "etc"
    modes = {
        "gitconfig": 0o644,
        "shadow": 0o640,
        "sudoers": 0o644,  # carelessly
        "ssh/ssh_config": 0o644,
        "ssh/ssh_host_rsa_key": 0o644,
        "ssh/ssh_host_rsa_key.pub": 0o644,
        "ssl/certs/a.pem": 0o644,
        "ssl/private/a.key": 0o644,
        "apt/sources.list": 0o644,
        "mine/key": 0o600,
    }
    for name, mode in modes.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
        (root / name).chmod(mode)
    (root / "link").symlink_to("/root")
    found = open_settings(root)
    hidden = {"shadow", "sudoers", "ssh/ssh_host_rsa_key", "ssl/private", "mine/key"}
    assert {str(path.relative_to(root)) for path in found.hidden} == hidden
    readable = {"gitconfig", "ssh/ssh_config", "ssh/ssh_host_rsa_key.pub", "ssl/certs", "apt"}
    assert {str(path.relative_to(root)) for path in found.readable} == readable


def test_settings_without_secrets_are_open_as_a_whole(tmp_path: Path) -> None:
    root = tmp_path / "etc"
    (root / "a").mkdir(parents=True)
    (root / "a" / "b").write_text("")
    assert open_settings(root).readable == (root,)
    missing = tmp_path / "missing"
    assert open_settings(missing).hidden == (missing,)


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="there is no Landlock")
def test_no_link_in_a_programs_home_is_followed(tmp_path: Path) -> None:
    home, own, elsewhere = tmp_path / "home", tmp_path / "own", tmp_path / "elsewhere"
    for directory in (home / ".config" / "git", home / ".kube", own, elsewhere):
        directory.mkdir(parents=True)
    (home / ".gitconfig").write_text("mine")
    (home / ".config" / "git" / "config").write_text("mine")
    (own / ".config").symlink_to(elsewhere)
    (own / ".gitconfig").write_text("its own")
    names = (".gitconfig", ".config/git/config", ".kube")
    link_into_home(own, home, [*(home / name for name in names), Path("/usr/lib")])
    assert (own / ".kube").resolve() == home / ".kube"
    assert (own / ".gitconfig").read_text() == "its own"
    assert [*elsewhere.iterdir()] == []
