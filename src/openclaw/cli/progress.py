"""A progress bar on a terminal, and nothing elsewhere."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from openclaw.models.local.download import Progress, Report


@contextmanager
def progress_bar(stream: TextIO, title: str) -> Generator[Report]:
    """Yields what to call as work goes on."""
    if not stream.isatty():
        yield lambda progress: None
        return
    from rich.console import Console
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
    with Bars(*columns, console=Console(file=stream), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def report(progress: Progress) -> None:
            if progress.what not in tasks:
                tasks[progress.what] = bars.add_task(
                    f"{title}: {progress.what}", total=progress.total
                )
            bars.update(tasks[progress.what], completed=progress.done, total=progress.total)

        yield report
