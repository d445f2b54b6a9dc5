"""Words and units for the variable names of experiments, for axes, titles and headings.

A name without an entry is split into words; its last part says the unit.
"""

from typing import Final

_UNITS: Final = {"ms": "ms", "s": "s", "us": "µs", "rate": "messages/s", "ratio": "share"}
_WORDS: Final = {
    "r": "r: share of messages that make an earlier one obsolete",
    "d": "d: distance to the message made obsolete (messages)",
    "k": "k: length of the bitmap (messages)",
    "f": "f: crashes tolerated (processes)",
    "buffer": "buffer (messages)",
    "members": "members",
    "receivers": "receivers",
    "size": "size (bytes)",
    "rate": "offered (messages/s)",
    "accepted_rate": "accepted from the sender (messages/s)",
    "purged_ratio": "purged on the way to the slow receiver (share)",
    "fast_purged_ratio": "purged on the way to fast receivers (share)",
    "latency_mean_ms": "mean latency (ms)",
    "wall_s": "wall time (s)",
    "cpu_s": "processor time (s)",
}


def axis_label(name: str) -> str:
    """A parameter in words, with its unit."""
    if name in _WORDS:
        return _WORDS[name]
    words = name.split("_")
    if len(words) > 1 and words[-1] in _UNITS:
        return f"{' '.join(words[:-1])} ({_UNITS[words[-1]]})"
    return " ".join(words)


def result_label(name: str) -> str:
    """A result in words, with its unit."""
    if name.startswith("model_"):
        return f"model: {axis_label(name.removeprefix('model_'))}"
    return axis_label(name)
