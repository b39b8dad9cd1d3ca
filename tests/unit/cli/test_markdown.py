import io

from rich.console import Console

from openclaw.cli.terminal import keep_line_breaks, rendered


def shown(text: str) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=60).print(rendered(text))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_lines_stay_lines() -> None:
    assert shown("zone: UTC\nday: Sunday\n\nSource: time") == [
        "zone: UTC",
        "day: Sunday",
        "",
        "Source: time",
    ]


def test_code_tables_and_lists_are_left_as_they_are() -> None:
    assert keep_line_breaks("```\na\nb\n```") == "```\na\nb\n```"
    assert [line for line in shown("- one\n- two") if line] == [" • one", " • two"]
    assert any("1" in line and "2" in line for line in shown("|a|b|\n|-|-|\n|1|2|"))
