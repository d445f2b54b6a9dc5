"""A profile as a picture: the distances, the items' frequencies, and the rate against the buffer.

The first two are what a paper shows of a stream [SRM fig. 9]; the third is equation 1.
"""

import io
from typing import Final, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullFormatter

from semcast.experiments.plot import COLOURS, DOTS_PER_INCH, GREY, INK, RC_PARAMS, new_canvas
from semcast.experiments.vector import svg_of
from semcast.models.advice import DistanceCurve, Rates, advise
from semcast.models.throughput import sender_rate
from semcast.pipeline.profile.profile import Profile

LOG_FROM: Final = 20  # times the smallest number, from which an axis is logarithmic
_BUFFER_AT_LEAST: Final = 100  # how far the third panel goes


class ProfilePictures(NamedTuple):
    """One profile: as PNG with its panels in a row, and as SVG with them in a column."""

    png: bytes
    svg: bytes


def draw(profile: Profile, rates: Rates | None) -> ProfilePictures:
    """The picture in both forms; equal profiles give equal bytes."""
    with rc_context(RC_PARAMS):
        png = io.BytesIO()
        wide = _canvas(profile, rates, columns=3)
        wide.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        return ProfilePictures(png.getvalue(), svg_of(_canvas(profile, rates, columns=1)))


def _canvas(profile: Profile, rates: Rates | None, columns: int) -> Canvas:
    canvas = new_canvas(columns, 3 // columns)
    distances, items, rate = canvas.subplots(3 // columns, columns)
    _draw_distances(distances, profile.total.distances)
    _draw_items(items, profile)
    _draw_rate(rate, profile.total.distances, rates)
    return canvas


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
    axes.set_xticks(places, names, rotation=45, ha="right", fontsize=8 if len(names) < 16 else 6)
    axes.set_title("obsolescence distance")
    axes.set_xlabel("distance back to the one superseded (messages)")
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
        counts = [each.messages for each in busiest]
        # Without a baseline there are no edges at both ends, which would look like values.
        axes.stairs(counts, ranks, baseline=None, color=COLOURS[1], linewidth=1.8)
        if ranks[-1] >= LOG_FROM:
            axes.set_xscale("log")
        if counts[0] >= LOG_FROM * counts[-1]:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:,.0f}")
            axis.set_minor_formatter(NullFormatter())
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
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("rate against buffer")
    axes.set_xlabel("buffer (messages)")
    if rates is None:
        axes.set_ylabel("sender's rate / slowest receiver's")
    else:
        axes.set_ylabel("rate of the sender (messages/s)")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        # Each name where the curve is not: it begins at one of the lines and ends at the other.
        for rate, name, x, side in (
            (rates.sender, "wanted", 1, "left"),
            (rates.receiver, "slowest receiver", far, "right"),
        ):
            axes.axhline(rate, color=GREY, linewidth=1, linestyle=(0, (5, 2.5)))
            axes.annotate(name, (x, rate), va="bottom", ha=side, fontsize=8.5, color=INK)
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    if advice.buffer is not None:
        axes.axvline(advice.buffer, color=INK, linewidth=1, linestyle=":")
        text = f"a buffer of {advice.buffer:,}" if advice.k else "any buffer"
        axes.annotate(
            text, (advice.buffer, 0), xytext=(5, 6), textcoords="offset points", fontsize=8.5
        )
