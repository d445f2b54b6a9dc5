"""The figures as one HTML file that needs nothing else: pictures inside, no scripts, no network.

Beside each picture stands what the paper's text says and what came out.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from semcast.experiments.experiment import Value
from semcast.experiments.figure import Figure
from semcast.experiments.figures import Results, points

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #666; --paper: #fff; --line: #ddd; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e4e4; --soft: #a2a2a2; --paper: #17191c; --line: #3a3d42; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 76rem; margin: 2rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin: 0; }
nav a { margin-right: 1rem; } a { color: inherit; }
section { border-top: 1px solid var(--line); margin-top: 2.5rem; padding-top: 1.5rem; }
.soft { color: var(--soft); margin: .25rem 0 1rem; }
.warning { border-left: 4px solid #d55e00; padding-left: .75rem; }
/* The picture keeps its white ground: its greys are chosen for it. */
img { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
caption { text-align: left; color: var(--soft); }
th, td { text-align: left; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; }
"""


def page(figures: Sequence[Figure], results: Results, pictures: Mapping[str, bytes]) -> str:
    """The whole page."""
    links = "".join(f'<a href="#{f.name}">{escape(f.name)}</a>' for f in figures)
    quick = '<p class="warning">A quick rendering: few and short runs.</p>' if results.quick else ""
    sections = "".join(_section(figure, results, pictures[figure.name]) for figure in figures)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Semcast: figures</title><style>{STYLE}</style></head>\n"
        f"<body><h1>Semcast: the papers' figures</h1><nav>{links}</nav>{quick}\n"
        f"{sections}</body></html>\n"
    )


def _section(figure: Figure, results: Results, png: bytes) -> str:
    title, name = escape(figure.title), escape(figure.name)
    runs = points(figure, results.seed, results.quick)
    broken = sum(int(results.rows[point].get("violations") or 0) for point in runs)
    verdict = (
        f'<p class="warning">{broken} promises were broken in these runs.</p>' if broken else ""
    )
    return (
        f'<section id="{name}"><h2>{title}</h2>\n'
        f'<p class="soft">{escape(figure.source)}; {len(runs)} runs, seed {results.seed}; '
        f'<a href="{name}.csv">{name}.csv</a></p>\n{verdict}'
        f'<img alt="{title}" src="data:image/png;base64,{b64encode(png).decode()}">\n'
        f"<p>{escape(figure.note)}</p>\n{_readings(figure, results)}</section>\n"
    )


def _readings(figure: Figure, results: Results) -> str:
    lines = "".join(_lines(figure, results))
    if not lines:
        return ""
    return (
        "<table><caption>What the paper's text says beside what came out</caption>"
        "<thead><tr><th>panel</th><th>paper</th><th>curve</th>"
        '<th class="number">x</th><th class="number">paper</th><th class="number">here</th>'
        f"</tr></thead><tbody>\n{lines}</tbody></table>\n"
    )


def _lines(figure: Figure, results: Results) -> Iterator[str]:
    for panel, reading, curve, value in results.outcomes(figure):
        what = (
            curve.label
            if curve.style in ("simulation", "reliable")
            else (f"{curve.label}, {curve.style}")
        )
        words = (panel.title, reading.label, what)
        numbers = (f"{reading.x:g}", f"{reading.y:g}", _number(value))
        cells = [f"<td>{escape(word)}</td>" for word in words]
        cells += [f'<td class="number">{escape(number)}</td>' for number in numbers]
        yield f"<tr>{''.join(cells)}</tr>\n"


def _number(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "not run"
