"""A profile as a picture: the distances, the items' frequencies, and the rate against the buffer.

The first two are what a paper shows of a stream [SRM fig. 9]; the third is equation 1.
"""

import io
from typing import Final

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine

from semcast.experiments.plot import COLOURS, DOTS_PER_INCH, GREY, INK, PANEL_INCHES, RC_PARAMS
from semcast.models.advice import DistanceCurve, Rates, advise
from semcast.models.throughput import sender_rate
from semcast.pipeline.profile.profile import Profile

_BUFFER_AT_LEAST: Final = 100  # how far the third panel goes


def draw(profile: Profile, rates: Rates | None) -> bytes:
    """The picture as PNG; equal profiles give equal bytes."""
    width, height = PANEL_INCHES
    stream = profile.total.distances
    with rc_context(RC_PARAMS):
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
        canvas = Canvas(figsize=(3 * width, height), layout=layout)
        FigureCanvasAgg(canvas)
        _draw_distances(canvas.add_subplot(1, 3, 1), stream)
        _draw_items(canvas.add_subplot(1, 3, 2), profile)
        _draw_rate(canvas.add_subplot(1, 3, 3), stream, rates)
        png = io.BytesIO()
        canvas.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return png.getvalue()


def _draw_distances(axes: Axes, stream: DistanceCurve) -> None:
    """The share of messages in each doubling of the distance, and of those that have none."""
    farthest = int(stream.x[-1]) if stream.x.size else 1
    doublings = int(farthest).bit_length()
    edges = 2 ** np.arange(doublings + 1)
    upto = stream.purge_ratio(edges - 1)
    shares = np.append(1 - stream.related / max(stream.messages, 1), np.diff(upto))
    names = ["none", *(_span(int(low)) for low in edges[:-1])]
    places = np.arange(len(shares))
    axes.set_axisbelow(True)
    axes.bar(places, shares, color=[GREY, *[COLOURS[0]] * doublings], width=0.85)
    step = 1 + len(places) // 8
    axes.set_xticks(places[::step], names[::step], rotation=30, ha="right")
    axes.set_title("obsolescence distance")
    axes.set_xlabel("messages back to the one superseded")
    axes.set_ylabel("share of all messages")


def _span(low: int) -> str:
    high = 2 * low - 1
    return str(low) if low == high else f"{_short(low)}–{_short(high)}"


def _short(number: int) -> str:
    for unit, size in (("M", 1 << 20), ("k", 1 << 10)):
        if number + 1 >= 4 * size:
            return f"{(number + 1) // size}{unit}"
    return str(number)


def _draw_items(axes: Axes, profile: Profile) -> None:
    """Messages of each item, the most frequent first."""
    busiest = sorted(profile.frequencies, reverse=True)
    ranks = np.append(0, np.cumsum([each.items for each in busiest])) + 0.5
    if busiest:
        axes.stairs([each.messages for each in busiest], ranks, color=COLOURS[1], linewidth=1.8)
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_title("update frequency")
    axes.set_xlabel("items, the most frequent first")
    axes.set_ylabel("messages of the item")


def _draw_rate(axes: Axes, stream: DistanceCurve, rates: Rates | None) -> None:
    """T over N; without rates, how much faster than its slowest receiver a sender can be."""
    given = rates or Rates(1e12, 1.0)
    advice = advise(stream, rates)
    far = max(_BUFFER_AT_LEAST, 2 * (advice.buffer or 0), int(stream.x[-1]) if stream.x.size else 0)
    buffers = np.unique(np.geomspace(1, far, 400).round())
    ratios = np.minimum(stream.purge_ratio(buffers), stream.limit)
    axes.plot(buffers, sender_rate(*given, ratios), color=COLOURS[2], linewidth=1.8)
    axes.set_xscale("log")
    axes.set_title("rate against buffer")
    axes.set_xlabel("buffer, messages")
    if rates is None:
        axes.set_ylabel("sender's rate / slowest receiver's")
    else:
        axes.set_ylabel("messages/s of the sender")
        for rate, name in ((rates.sender, "wanted"), (rates.receiver, "slowest receiver")):
            axes.axhline(rate, color=GREY, linewidth=1, linestyle=(0, (5, 2.5)))
            axes.annotate(name, (1, rate), va="bottom", fontsize=8.5, color=INK)
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    if advice.buffer is not None:
        axes.axvline(advice.buffer, color=INK, linewidth=1, linestyle=":")
        text = f"a buffer of {advice.buffer:,}" if advice.k else "any buffer"
        axes.annotate(
            text, (advice.buffer, 0), xytext=(5, 6), textcoords="offset points", fontsize=8.5
        )
