"""Runs made side by side: rounds alternate between the candidates, and ratios are reported.

A machine's speed drifts by more than most changes are worth, so a number is only compared with
one measured in the same minute.  Processor time is measured, not the wall clock.
"""

from collections.abc import Callable, Mapping
from time import process_time


def side_by_side(
    candidates: Mapping[str, Callable[[], int]], *, rounds: int = 7
) -> dict[str, list[float]]:
    """By candidate, seconds per unit of work in each round; a candidate returns its units."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            started = process_time()
            units = candidate()
            seconds[name].append((process_time() - started) / units)
    return seconds


def report(title: str, unit: str, seconds: Mapping[str, list[float]], base: str) -> None:
    """A table of each candidate's fastest round, the spread of all, and ratios to `base`.

    The fastest, since whatever else a machine does only ever adds.
    """
    print(f"\n{title}")
    print(f"{'':34}{'ns/' + unit:>12}{'spread':>9}{unit + 's/s':>14}{'x ' + base:>16}")
    reference = min(seconds[base])
    for name, rounds in seconds.items():
        best = min(rounds)
        spread = (max(rounds) - best) / best
        row = f"{best * 1e9:12,.0f}{spread:9.0%}{1 / best:14,.0f}{best / reference:16.2f}"
        print(f"{name:34}{row}")
