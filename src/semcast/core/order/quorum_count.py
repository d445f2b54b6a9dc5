"""What a quorum of the members has reached, of a number that only goes up."""


class QuorumCount:
    """A number that every member reports.  Invariant: `quorum` members have reached `agreed`."""

    __slots__ = ("agreed", "quorum", "reports")

    def __init__(self, members: int, quorum: int) -> None:
        self.quorum = quorum
        self.reports = [0] * members
        self.agreed = 0

    def __repr__(self) -> str:
        return f"QuorumCount(quorum={self.quorum}, agreed={self.agreed}, reports={self.reports})"

    def on_report(self, rank: int, reached: int) -> None:
        """A member has come so far.  Old reports change nothing."""
        if reached > self.reports[rank]:
            self.reports[rank] = reached
            self.agreed = sorted(self.reports, reverse=True)[self.quorum - 1]
