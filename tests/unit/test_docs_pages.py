"""The documentation hangs together: links lead somewhere, and what is generated is up to date."""

import ast
import html
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.pages import Page, matches, read_page

ROOT = Path(__file__).parents[2]
PATHS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _broken(page: Page, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = (page.path.parent / file).resolve() if file else page.path
    if not target.exists():
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in read_page(target).anchors


@pytest.mark.parametrize("path", PATHS, ids=_name)
def test_every_link_and_anchor_leads_somewhere(path: Path) -> None:
    page = read_page(path)
    inside = [link for link in page.links() if not re.match(r"[a-z]+:", link)]
    assert [link for link in inside if _broken(page, link)] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "docs" / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in seen or path.suffix != ".md":
            continue
        seen.add(path)
        links = (link.partition("#")[0] for link in read_page(path).links())
        waiting += [(path.parent / link).resolve() for link in links if link and ":" not in link]
    lost = [_name(path) for path in PATHS if path not in seen and path.parent != ROOT]
    assert lost == [], "add them to docs/README.md"


def test_every_source_file_that_a_page_names_is_there() -> None:
    there = [
        f"/{path.relative_to(ROOT).as_posix()}"
        for top in ("src", "tests", "benchmarks", "scripts", "fuzzing", "training")
        for path in (ROOT / top).rglob("*.py")
    ]
    gone = {
        (_name(page), name)
        for page in PATHS
        for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", page.read_text())
        if not any(path.endswith(f"/{name}") for path in there)
    }
    assert gone == set()


def test_generated_reference_is_up_to_date() -> None:
    if sys.version_info >= (3, 13):
        pytest.skip("argparse words its help otherwise from 3.13 on")
    script = ROOT / "scripts" / "generate_reference.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"run scripts/generate_reference.py:\n{done.stdout}{done.stderr}"


def test_the_picture_of_the_architecture_is_the_one_that_its_script_draws() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "architecture.py"))
    assert script["TARGET"].read_text() == script["picture"]()


def test_the_recorded_demo_shows_what_the_demo_does() -> None:
    drawn = (ROOT / "docs" / "demo.svg").read_text()
    words = html.unescape(re.sub(r"<[^>]+>", " ", drawn)).replace("\xa0", " ")
    demo = ast.parse((ROOT / "scripts" / "demo.py").read_text())
    orders = next(
        ast.literal_eval(node.value)
        for node in demo.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ORDERS"
    )
    for order in orders:
        assert order in words, "run scripts/record_demo.py"
    assert words.count("Source: MCP: time/") == len(orders)
    assert "order_openclaw" in words
    assert str(ROOT) not in drawn


def _variables_read() -> Iterator[str]:
    """Names that are looked up in an environment, anywhere in the program."""
    for file in (ROOT / "src" / "openclaw").rglob("*.py"):
        if "testing" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case (
                    ast.Call(
                        func=ast.Attribute(value=holder, attr="get"),
                        args=[ast.Constant(value=str(key)), *_],
                    )
                    | ast.Subscript(value=holder, slice=ast.Constant(value=str(key)))
                ):
                    if re.search(r"\benv(iron)?\b|_environ\b", ast.unparse(holder)):
                        yield key
                case _:
                    pass


def test_every_variable_that_is_read_is_documented() -> None:
    documented = set(
        re.findall(r"`([A-Z_]+)`", (ROOT / "docs" / "reference" / "environment.md").read_text())
    )
    read = {name for name in _variables_read() if VARIABLE.fullmatch(name)}
    assert len(read) > 20
    assert read - documented == set()


class TestPages:
    def page(self, tmp_path: Path, text: str) -> Page:
        (tmp_path / "page.md").write_text(text)
        return read_page(tmp_path / "page.md")

    def test_a_block_knows_its_line_language_and_directives(self, tmp_path: Path) -> None:
        page = self.page(
            tmp_path, "# A\n\n<!-- doc: at mcp.servers; needs curl -->\n```json5\na: 1\n```\n"
        )
        (block,) = page.blocks
        assert (block.line, block.language, block.text) == (4, "json5", "a: 1")
        assert block.directives == {"at": "mcp.servers", "needs": "curl"}

    def test_a_directive_that_means_nothing_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="no directive 'skipp'"):
            self.page(tmp_path, "<!-- doc: skipp it -->\n```sh\ntrue\n```\n")

    def test_a_fence_that_is_not_closed_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="not closed"):
            self.page(tmp_path, "```sh\ntrue\n")

    def test_links_in_code_are_none_and_anchors_are_made_as_they_are_shown(
        self, tmp_path: Path
    ) -> None:
        page = self.page(
            tmp_path,
            "# The `a.b` key!\n# x y\n# x y\n`[no](link)` [yes](b.md#c)\n```\n[no](x)\n```\n",
        )
        assert list(page.links()) == ["b.md#c"]
        assert page.anchors == {"the-ab-key", "x-y", "x-y-1"}

    @pytest.mark.parametrize(
        ("expected", "actual", "same"),
        [
            ("a … c", "a b c\n", True),
            ("a … c", "a b d\n", False),
            ("a\n…\nd", "a\nb\nc\nd", True),
            ("a\n…\nd", "a\nd  ", True),
            ("a", "a\nb", False),
            ("", "", True),
            ("a.c", "abc", False),
        ],
    )
    def test_output_matches_what_is_shown(self, expected: str, actual: str, same: bool) -> None:
        assert matches(expected, actual) is same
