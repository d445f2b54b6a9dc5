"""A number that every member reports, and the highest that enough of them have reached."""


class Tally:
    """Lives as long as the view.  Invariant: `agreed` was reached by `quorum` members."""

    __slots__ = ("agreed", "quorum", "reports")

    def __init__(self, members: int, quorum: int) -> None:
        self.quorum = quorum
        self.reports = [0] * members
        self.agreed = 0

    def __repr__(self) -> str:
        return f"Tally(quorum={self.quorum}, agreed={self.agreed}, reports={self.reports})"

    def on_report(self, rank: int, reached: int) -> bool:
        """Whether enough have now come further than before.  Old reports change nothing."""
        if reached <= self.reports[rank]:
            return False
        self.reports[rank] = reached
        agreed = sorted(self.reports, reverse=True)[self.quorum - 1]
        if agreed <= self.agreed:
            return False
        self.agreed = agreed
        return True
