"""The figures as one HTML file that needs nothing else.

Beside each picture stands what the paper's text says and what came out.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from semcast.experiments.figure import Figure
from semcast.experiments.figures import FigureResults, points
from semcast.experiments.html import document, picture, table
from semcast.experiments.wording import symbols


def page(
    figures: Sequence[Figure], results: FigureResults, panels: Mapping[str, Sequence[bytes]]
) -> str:
    """The whole page."""
    links = "".join(f'<a href="#{f.name}">{escape(f.name)}</a>' for f in figures)
    quick = '<p class="warning">A quick rendering: few and short runs.</p>' if results.quick else ""
    sections = "".join(_section(figure, results, panels[figure.name]) for figure in figures)
    body = f"<h1>Semcast: the papers' figures</h1><nav>{links}</nav>{quick}\n{sections}"
    return document("Semcast: figures", body)


def _section(figure: Figure, results: FigureResults, panels: Sequence[bytes]) -> str:
    title, name = escape(figure.title), escape(figure.name)
    shown = "".join(
        picture(panel.title, svg) for panel, svg in zip(figure.panels, panels, strict=True)
    )
    runs = points(figure, results.seed, results.quick)
    broken = sum(int(results.rows[point].get("violations") or 0) for point in runs)
    verdict = (
        f'<p class="warning">{broken} guarantees were violated in these runs.</p>' if broken else ""
    )
    letters = symbols([figure.title, figure.note, *figure.texts()])
    about = f'<p class="soft">{escape(letters)}</p>\n' if letters else ""
    return (
        f'<section id="{name}"><h2>{title}</h2>\n'
        f'<p class="soft">{escape(figure.source)}; {len(runs)} runs, seed {results.seed}; '
        f'<a href="{name}.csv">{name}.csv</a></p>\n{verdict}'
        f'<div class="panels">{shown}</div><p>{escape(figure.note)}</p>\n{about}'
        f"{_readings(figure, results)}</section>\n"
    )


def _readings(figure: Figure, results: FigureResults) -> str:
    lines = list(_lines(figure, results))
    if not lines:
        return ""
    names = ("here", "paper", "curve", "x", "what the paper says", "panel")
    return table(names, lines, "Values in the paper's text and values measured here")


def _lines(figure: Figure, results: FigureResults) -> Iterator[tuple[object, ...]]:
    for panel, reading, curve, value in results.outcomes(figure):
        what = (
            curve.label
            if curve.style in ("simulation", "reliable")
            else (f"{curve.label}, {curve.style}")
        )
        measured = value if isinstance(value, int | float) else "not run"
        yield measured, reading.y, what, reading.x, reading.label, panel.title
