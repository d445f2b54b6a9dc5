"""Figures as SVG that follow the reader's choice of light or dark, alone and inside a page.

matplotlib writes the colours of the palette on light paper; each becomes a variable of the style
sheet, which the picture brings along.  Text stays text.  Equal figures give equal bytes.
"""

import io
import re
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.figure import Figure as Canvas

from semcast.terms.palette import VARIABLES, style_variables

_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "semcast"}
_STYLE: Final = (
    f"<style>:root {{ color-scheme: light dark; {style_variables('light')} }} "
    f"@media (prefers-color-scheme: dark) {{ :root {{ {style_variables('dark')} }} }}</style>"
)
_NO_METADATA: Final = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def svg_of(canvas: Canvas) -> bytes:
    """The figure as an SVG file."""
    raw = io.BytesIO()
    with rc_context(_SETTINGS):
        canvas.savefig(raw, format="svg", transparent=True, metadata=_NO_METADATA)
    text = raw.getvalue().decode()
    for name, colour in VARIABLES.items():
        text = text.replace(f": {colour.light};", f": var(--{name}, {colour.light});")
        text = text.replace(f': {colour.light}"', f': var(--{name}, {colour.light})"')
    text = re.sub(r"<\?xml.*?<svg ", "<svg ", text, count=1, flags=re.DOTALL)
    return re.sub(r"(<svg [^>]*>)", rf"\1{_STYLE}", text, count=1).encode()
