"""A progress bar on a terminal, and nothing elsewhere."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TextIO

from openclaw.cli.colours import console, is_dumb
from openclaw.models.local.download import Progress, Report


@contextmanager
def progress_bar(
    stream: TextIO, title: str, environ: Mapping[str, str] | None = None
) -> Generator[Report]:
    """Yields what to call as work goes on."""
    if not stream.isatty() or is_dumb(environ or {}):
        yield lambda progress: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console(stream, environ or {}), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def report(progress: Progress) -> None:
            if progress.what not in tasks:
                tasks[progress.what] = bars.add_task(
                    f"{title}: {progress.what}", total=progress.total
                )
            bars.update(tasks[progress.what], completed=progress.done, total=progress.total)

        yield report
