"""The links between every two members, with cuts and healing.

The simulated network and the live relay each hold one `Links`.  It has no clock: `cut` returns the
times at which its holder must call `reroute`, and `LinkState.transmit` returns times of arrival.
"""

from collections.abc import Callable, Iterable, Iterator
from random import Random

from semcast.faults.link import Link, LinkState
from semcast.faults.schedule import Cut, is_cut


class Links:
    """The link from rank s to rank d is `rows[s][d]`; no member has a link to itself."""

    def __init__(self, size: int, link: Link | Callable[[int, int], Link]) -> None:
        ranks = range(size)
        self.rows = [
            {d: LinkState(link if isinstance(link, Link) else link(s, d)) for d in ranks if d != s}
            for s in ranks
        ]
        self._cuts: list[Cut] = []

    def __iter__(self) -> Iterator[tuple[int, int, LinkState]]:
        for source, row in enumerate(self.rows):
            for destination, state in row.items():
                yield source, destination, state

    def draw_from(self, seed: int) -> None:
        """Give each link that draws anything its own generator."""
        for source, destination, state in self:
            if state.link.is_random:
                state.rng = Random(f"{seed}/network/{source}/{destination}")

    def cut(self, cuts: Iterable[Cut]) -> list[float]:
        """Add cuts; returns the times at which to call `reroute`."""
        added = list(cuts)
        self._cuts += added
        return [when for cut in added for when in (cut.start, cut.end)]

    def reroute(self, now: float) -> None:
        """Apply the cuts that hold at `now`."""
        for source, destination, state in self:
            state.use(state.link, is_cut=is_cut(self._cuts, source, destination, now))

    def heal(self) -> None:
        """End all cuts, loss, duplication and reordering for good; latency and bandwidth stay."""
        self._cuts.clear()
        for _, _, state in self:
            state.use(state.link.without_faults())
