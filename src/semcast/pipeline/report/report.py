"""One page about a directory of results, to be read without this machine."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from semcast.pipeline.report.report_page import write_page
from semcast.pipeline.report.result_files import scan_directory
from semcast.terms.errors import ConfigError
from semcast.traces.files import atomic_write


class ReportSummary(TypedDict):
    """What was written, and what it says at its top."""

    html: str
    verdicts: int
    failed: int
    not_shown: list[str]


def report(directory: str | Path, out: str | Path) -> ReportSummary:
    """Write the page of `directory` to `out`.

    report("out/results", "out/results.html")
    """
    out = Path(out)
    found = scan_directory(directory, exclude=out)
    page = write_page(Path(directory), found, datetime.now(UTC))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(out) as path:
            path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"out: {out}: {error.strerror or error}") from None
    verdicts = [verdict for _, verdict in found.verdicts()]
    return {
        "html": str(out),
        "verdicts": len(verdicts),
        "failed": sum(not verdict.passed for verdict in verdicts),
        "not_shown": [each.source for each in found.not_shown],
    }
