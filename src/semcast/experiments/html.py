"""Pages that need nothing else: pictures inside, nothing from the network; every word escaped.

They follow the reader's choice of light or dark, and print.
"""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import Final

from semcast.terms.palette import style_variables

STYLE: Final = (
    f":root {{ color-scheme: light dark; {style_variables('light')} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {style_variables('dark')} }} }}\n"
    """
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 76rem; margin: 2rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.6rem; overflow-wrap: anywhere; } h2 { font-size: 1.25rem; margin: 0; }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .25rem; overflow-wrap: anywhere; }
nav a { margin-right: .75rem; white-space: nowrap; } a { color: inherit; }
section { border-top: 1px solid var(--line); margin-top: 2.5rem; padding-top: 1.5rem; }
.soft { color: var(--soft); margin: .25rem 0 1rem; }
.warning { border-left: 4px solid var(--slow); padding-left: .75rem; }
.pass, .fail { font-weight: 600; white-space: nowrap; }
.pass { color: var(--holds); } .fail { color: var(--wrong); }
p.fail, p.verdict { white-space: normal; overflow-wrap: anywhere; }
p.verdict { font-size: 1.15rem; border-left: 4px solid var(--line); padding-left: .75rem; }
p.verdict.pass { border-color: var(--holds); } p.verdict.fail { border-color: var(--wrong); }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .75rem 1rem; margin: 1rem 0; }
.card h3 { margin-top: 0; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr));
          gap: .5rem 1rem; margin: 1rem 0; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
img.vector { background: none; width: 100%; max-width: 36rem; }
code, pre { font: .875em/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { background: var(--tint); padding: .6rem .8rem; border-radius: 6px; white-space: pre-wrap; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); }
th, td { text-align: left; vertical-align: top; padding: .3rem 1rem .3rem 0;
         border-bottom: 1px solid var(--line); }
th { font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; } td.number { white-space: nowrap; }
summary { cursor: pointer; color: var(--soft); }
@media (max-width: 600px) {
  body { margin: 1rem auto; padding: 0 .75rem; } h1 { font-size: 1.3rem; }
  table { font-size: .875rem; } th, td { padding-right: .6rem; } th { white-space: normal; }
  td:last-child:not(.number) { overflow-wrap: anywhere; min-width: 6.5rem; }
}
@media print {
"""
    f"  :root {{ {style_variables('light')} }}\n"
    """
  body { font-size: 10pt; max-width: none; margin: 0; padding: 0; }
  nav { display: none; }
  .scroll { overflow: visible; } table { font-size: 8pt; } th, td { padding-right: .5rem; }
  th { white-space: normal; } td { overflow-wrap: anywhere; }
  img, svg, tr, h2, h3 { break-inside: avoid; } h2, h3 { break-after: avoid; }
}
"""
)


class Markup(str):
    """Text that is HTML already."""


def document(title: str, body: str, *, style: str = "") -> str:
    """A whole page; `style` follows the style that all pages share."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def picture(title: str, image: bytes) -> str:
    """A picture that is part of the page, PNG or SVG; scripts in an SVG do not run there."""
    is_svg = not image.startswith(b"\x89PNG")
    kind, look = ("svg+xml", ' class="vector"') if is_svg else ("png", "")
    encoded = b64encode(image).decode()
    return f'<img alt="{escape(title)}"{look} src="data:image/{kind};base64,{encoded}">\n'


def table(names: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> str:
    """Rows under their names, wider than the page if need be; numbers to the right."""
    columns = [[row[place] for row in rows] for place in range(len(names))]
    kinds = [' class="number"' if _is_numeric(column) else "" for column in columns]
    heads = "".join(
        f"<th{kind}>{escape(name)}</th>" for name, kind in zip(names, kinds, strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{cell(v)}</td>" for v, kind in zip(row, kinds, strict=True))
        + "</tr>\n"
        for row in rows
    )
    caption_html = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll" tabindex="0"><table>{caption_html}<thead><tr>{heads}</tr></thead>'
        f"<tbody>\n{lines}</tbody></table></div>\n"
    )


def _is_numeric(values: Sequence[object]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in present
    )


def cell(value: object) -> str:
    """One value as people write it."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
