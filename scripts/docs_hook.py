"""Fits the documentation into a site: pages beside `docs` come in, links to source files become text."""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
BESIDE = ("SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    for name in BESIDE:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    source = PurePosixPath(page.file.src_uri)
    place = source if source.name in BESIDE else "docs" / source  # where it is in the repository

    def fitted(match: re.Match[str]) -> str:
        text, link = match.groups()
        path, _, anchor = link.partition("#")
        if not path or "://" in link or link.startswith("mailto:"):
            return match[0]
        target = normpath(f"{place.parent}/{path}")
        target = target if target in BESIDE else target.removeprefix("docs/")
        if files.get_file_from_path(target) is None:
            return text
        return f"[{text}]({relpath(target, str(source.parent))}{'#' + anchor if anchor else ''})"

    return _LINK.sub(fitted, markdown)
