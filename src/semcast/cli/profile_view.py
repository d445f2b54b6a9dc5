"""The profile of a stream for people: whether it can be purged, and what each buffer buys."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from semcast.cli.output import Output, bar, count_of, table, wrapped
from semcast.terms.palette import HOLDS, SLOW

if TYPE_CHECKING:
    from semcast.models.advice import DistanceCurve, Rates
    from semcast.pipeline.profile.profile import BadRows, Profile

BAR: Final = 10  # columns
_STREAM_NAMES: Final = {"run_id": "run", "sender": "sender", "sender_inc": "incarnation"}


def show(
    output: Output,
    source: Path,
    facts: Mapping[str, Any],
    found: "Profile",
    rates: "Rates | None",
    took: str,
    columns: Mapping[str, str | None],
    bad: "BadRows | None",
) -> None:
    """Print the answer, what was read, what each buffer buys, the streams one by one, the files
    and the next command; `columns` are the options that name columns."""
    advice = facts["advice"]
    is_good = advice["buffer"] is not None
    curve = found.total.distances
    answer = f"{'YES' if is_good else 'NO'}  {_answer(facts, curve, rates)}"
    output.print_text(*wrapped(answer, "     "), colour=HOLDS if is_good else SLOW)
    size = f"{count_of(facts['messages'], 'message')} of {count_of(facts['items'], 'item')}"
    output.print_text(*wrapped(f"{source}: {size}; {took}", "     "))
    if bad is not None and bad.rows:
        output.print_text(f"skipped {bad.rows:,} invalid rows; the first: {bad.first}")
    if curve.related:
        output.print_text("", *_buffers(curve, rates, advice["buffer"]))
        output.print_text(f"never superseded: {_percent(facts['never_obsolete'])}")
    if facts["streams"]:
        output.print_text("", *table([_stream(stream) for stream in facts["streams"]]))
        if facts["stream_count"] > len(facts["streams"]):
            output.print_text(
                f"and {facts['stream_count'] - len(facts['streams']):,} shorter streams"
            )
    if is_good:
        output.print_text("", *_use(advice, rates, per_sender=bool(facts["streams"])))
    files = facts.get("files", {})
    output.print_text(*files.values())
    output.next(f"open {files['png']}" if files else _next(source, columns, rates))


def _answer(facts: Mapping[str, Any], curve: "DistanceCurve", rates: "Rates | None") -> str:
    """Whether newer messages replace enough of the stream, in one sentence."""
    advice = facts["advice"]
    buffer, reason = advice["buffer"], advice["reason"]
    if buffer is None:
        best = advice["predicted_rate"]
        rate = f" The sender gets at most {best:,.0f}/s through." if best else ""
        return f"{reason[0].upper()}{reason[1:]}.{rate}"
    if rates is None:
        times = _times(min(float(curve.purge_ratio(buffer)), curve.limit))
        return (
            f"With a buffer of {buffer:,} messages a sender may be {times} times as fast as its "
            "slowest receiver."
        )
    if not rates.required_purge_ratio:
        return f"{reason[0].upper()}{reason[1:]}."
    return (
        f"With a buffer of {buffer:,} messages a sender at {rates.sender:,g}/s is not slowed by a "
        f"receiver at {rates.receiver:,g}/s."
    )


def _buffers(curve: "DistanceCurve", rates: "Rates | None", advised: int | None) -> Iterator[str]:
    """A line for each size of a buffer, with bars."""
    from semcast.models.throughput import sender_rate
    from semcast.pipeline.profile.profile_files import BUFFERS

    right = "rate of the sender" if rates else "sender to slowest receiver"
    yield f"{'buffer':>7}  {'replaced in time':<{BAR + 6}}  {right}"
    for size in sorted({*BUFFERS, *([advised] if advised else [])}):
        share = min(float(curve.purge_ratio(size)), curve.limit)
        line = f"{size:>7,}  {bar(share, BAR):<{BAR}} {_percent(share):>5}  "
        if rates:
            rate = float(sender_rate(*rates, share))
            line += f"{bar(rate / rates.sender, BAR):<{BAR}} {f'{rate:,.0f}/s':>9}"
        else:
            line += f"{_times(share)} : 1"
        yield line + ("  <- advised" if size == advised else "")


def _use(advice: Mapping[str, Any], rates: "Rates | None", *, per_sender: bool) -> list[str]:
    """The option to give, and what it costs."""
    buffer = advice["buffer"]
    each = " for each sender" if per_sender else ""
    bits = f"; with relation='bitmap' also k={advice['k']}" if advice["k"] else ""
    lines = wrapped(f"use it: semcast.join(…, buffer={buffer}){each}{bits}")
    if rates is not None and rates.required_purge_ratio:
        wait_s = buffer / rates.receiver
        lines += wrapped(
            f"cost: the receiver needs {wait_s:,.1f} s to read a full buffer, so its values may be "
            "that old"
        )
    return lines


def _stream(stream: Mapping[str, Any]) -> dict[str, object]:
    names = {word: stream[name] for name, word in _STREAM_NAMES.items() if name in stream}
    return names | {
        "messages": stream["messages"],
        "items": stream["items"],
        "never superseded": _percent(stream["never_obsolete"]),
        "half within": stream["distance_p50"],
        "90 % within": stream["distance_p90"],
        "buffer": stream["advice"]["buffer"],
    }


def _percent(share: float) -> str:
    return f"{100 * share:.{1 if 0 < share < 0.01 else 0}f} %"


def _times(share: float) -> str:
    """How much faster than its receiver a sender may be if this share is replaced in time."""
    return f"{1 / (1 - share):,.3g}" if share < 1 else "any number of"


def _next(source: Path, columns: Mapping[str, str | None], rates: "Rates | None") -> str:
    """The same command with rates to ask about, or with a figure."""
    given = "".join(f" --{name} {quote(text)}" for name, text in columns.items() if text)
    sender, receiver = rates or (1000, 250)
    more = f" --sender-rate {sender:g} --receiver-rate {receiver:g}"
    return f"semcast profile {source}{given}{more}{' --out out/profile' if rates else ''}"
