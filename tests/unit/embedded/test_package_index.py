import sys
from collections.abc import Mapping
from pathlib import Path

from openclaw.embedded.pull import (
    IndexSettings,
    find_settings,
    links_in_directory,
    links_in_page,
    page_urls,
    parse_pip_config,
    pick,
    pip_commands,
    split_login,
)
from openclaw.embedded.weights import FromWheel

WHEEL = FromWheel("some-wheel", "1.0", "some_wheel-1.0-py3-none-any.whl", "00", 1, "m")


def no_pip(environ: Mapping[str, str]) -> list[list[str]]:
    return []


def test_what_pip_prints_of_its_settings_is_read() -> None:
    listing = (
        "global.index-url='https://a.example/simple'\n"
        "global.extra-index-url='https://b.example/s\\nhttps://c.example/s'\n"
        "install.cert='/x.pem'\n:env:.cert='/y.pem'\nnonsense\n"
    )
    assert parse_pip_config(listing) == {
        "index-url": "https://a.example/simple",
        "extra-index-url": "https://b.example/s https://c.example/s",
        "cert": "/y.pem",
    }


def test_a_configuration_file_of_pip_is_honoured(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = https://a.example/simple\ncert = /x.pem\n")
    environ = {"PIP_CONFIG_FILE": str(config), "PATH": str(tmp_path), "HOME": str(tmp_path)}
    found = find_settings(environ)
    assert found.indexes == ("https://a.example/simple",)
    assert found.certificates == "/x.pem"


def test_where_nothing_is_configured_pip_says_its_default(tmp_path: Path) -> None:
    environ = {"PIP_CONFIG_FILE": "/dev/null", "PATH": str(tmp_path), "HOME": str(tmp_path)}
    found = find_settings(environ)
    assert len(found.indexes) == 1
    assert found.indexes[0].startswith("https://")


def test_the_environment_wins_over_files() -> None:
    found = find_settings(
        {
            "PIP_INDEX_URL": "https://a.example/s",
            "PIP_EXTRA_INDEX_URL": "https://b.example/s",
            "PIP_FIND_LINKS": "/wheels",
            "PIP_CERT": "/c.pem",
            "UV_INDEX": "corp=https://u.example/s",
        },
        no_pip,
    )
    assert found.indexes == ("https://a.example/s", "https://b.example/s", "https://u.example/s")
    assert found.find_links == ("/wheels",)
    assert found.certificates == "/c.pem"


def test_an_index_of_uv_is_enough() -> None:
    assert find_settings({"UV_DEFAULT_INDEX": "https://u.example/s"}, no_pip).indexes == (
        "https://u.example/s",
    )
    assert find_settings({}, no_pip).indexes == ()


def test_no_index_means_none() -> None:
    found = find_settings({"PIP_NO_INDEX": "1", "PIP_INDEX_URL": "https://a.example/s"}, no_pip)
    assert found.indexes == ()


def test_a_pip_is_found_in_an_interpreter_that_has_none_installed(tmp_path: Path) -> None:
    commands = list(pip_commands({"PATH": str(tmp_path)}))
    assert all(command[0] == sys.executable for command in commands)


def test_places_on_this_machine_come_first() -> None:
    settings = IndexSettings(("https://a.example/simple/", "file:///opt/simple"), ("/wheels",))
    assert page_urls(settings, WHEEL) == [
        "file:///wheels",
        "file:///opt/simple/some-wheel/",
        "https://a.example/simple/some-wheel/",
    ]


def test_links_are_read_from_html_and_json() -> None:
    page = "<a href='../f/x.whl#sha256=1'>x</a><A class=a HREF=\"y&amp;z.whl\">y</A>"
    base = "https://a.example/simple/p/"
    assert links_in_page(page, "text/html", base) == [
        "https://a.example/simple/f/x.whl#sha256=1",
        "https://a.example/simple/p/y&z.whl",
    ]
    listed = '{"files": [{"url": "x.whl"}, {"url": 3}, 7]}'
    assert links_in_page(listed, "application/json", base) == [f"{base}x.whl"]
    assert links_in_page("[", "application/json", base) == []
    assert links_in_page("[]", "application/json", base) == []


def test_links_are_read_from_directories(tmp_path: Path) -> None:
    wheel = tmp_path / WHEEL.filename
    wheel.touch()
    assert pick(links_in_directory(tmp_path.as_uri()), WHEEL) == wheel.as_uri()
    (tmp_path / "index.html").write_text(f'<a href="{WHEEL.filename}">w</a>')
    assert pick(links_in_directory(tmp_path.as_uri()), WHEEL) == wheel.as_uri()
    assert links_in_directory((tmp_path / "missing").as_uri()) == []


def test_only_the_very_file_is_picked() -> None:
    links = ["https://a/other.whl", "https://a/x/some_wheel-1.0-py3-none-any.whl#s"]
    assert pick(links, WHEEL) == "https://a/x/some_wheel-1.0-py3-none-any.whl"
    assert pick(["https://a/some_wheel-1.0.tar.gz"], WHEEL) is None


def test_a_login_is_taken_out_of_an_address() -> None:
    assert split_login("https://me:p%40ss@a.example/x") == ("https://a.example/x", ("me", "p@ss"))
    assert split_login("https://a.example/x") == ("https://a.example/x", None)
