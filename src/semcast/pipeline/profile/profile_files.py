"""A profile in numbers, and as files: profile.json, a picture, and the tables that it shows."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from semcast.models.advice import DistanceCurve, Rates, advise
from semcast.models.throughput import receiver_rate, sender_rate
from semcast.pipeline.profile.distance_curve import MEDIAN
from semcast.pipeline.profile.profile import Profile
from semcast.traces.files import atomic_write

BUFFERS: Final = (10, 40, 100, 1000)  # for which R(N) and the rates are told
P90: Final = 0.9


def facts_of(profile: Profile, rates: Rates | None) -> dict[str, Any]:
    """The answer of `semcast profile`: all streams together, then each if there are several."""
    streams = [
        {**stream.name, "items": stream.items, **_stream_facts(stream.distances, rates)}
        for stream in profile.streams
    ]
    return {
        "messages": profile.total.distances.messages,
        "items": profile.total.items,
        **_stream_facts(profile.total.distances, rates),
        "stream_count": profile.stream_count,
        "streams": streams,
    }


def _stream_facts(stream: DistanceCurve, rates: Rates | None) -> dict[str, Any]:
    return {
        "messages": stream.messages,
        "never_obsolete": stream.never_obsolete,
        "distance_p50": stream.percentile(MEDIAN),
        "distance_p90": stream.percentile(P90),
        "purgeable": {str(n): float(stream.purge_ratio(n)) for n in BUFFERS},
        "purgeable_limit": stream.limit,
        "rates": list(_rates(stream, rates)),
        "advice": advise(stream, rates)._asdict(),
    }


def _rates(stream: DistanceCurve, rates: Rates | None) -> Iterator[dict[str, float]]:
    """T and T′ by equations 1 and 2 for each buffer."""
    if rates is not None:
        for n in BUFFERS:
            given = (*rates, min(float(stream.purge_ratio(n)), stream.limit))
            yield {
                "buffer": n,
                "sender_rate": float(sender_rate(*given)),
                "receiver_rate": float(receiver_rate(*given)),
            }


def write_profile(
    out: Path, profile: Profile, rates: Rates | None, facts: Mapping[str, Any]
) -> dict[str, str]:
    """Write all files, each whole or not at all, and name them; `facts` is the answer."""
    from semcast.pipeline.profile.profile_figure import (
        draw,
    )  # matplotlib is an extra, and slow to import

    out.mkdir(parents=True, exist_ok=True)
    files = {name: out / f"profile.{name}" for name in ("json", "png", "svg", "csv")}
    files["items"] = out / "items.csv"
    with atomic_write(files["json"]) as path:
        path.write_bytes(msgspec.json.encode(facts))
    for kind, picture in draw(profile, rates)._asdict().items():
        with atomic_write(files[kind]) as path:
            path.write_bytes(picture)
    with atomic_write(files["csv"]) as path:
        _write_csv(path, ("distance", "messages", "purgeable"), _points(profile.total.distances))
    with atomic_write(files["items"]) as path:
        _write_csv(path, ("messages", "items"), profile.frequencies)
    return {name: str(path) for name, path in files.items()}


def _points(stream: DistanceCurve) -> Iterator[tuple[int, int, float]]:
    """Up to each distance: how many messages, and R."""
    yield from zip(
        stream.x.tolist(),
        stream.upto.tolist(),
        stream.purge_ratio(stream.x).tolist(),
        strict=True,
    )


def _write_csv(path: Path, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
