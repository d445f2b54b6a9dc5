"""Outputs of a machine, in the order they are carried out: persist, send, deliver, the rest."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Self

from semcast.terms.events import Event
from semcast.terms.messages import Message, Rank, Seq
from semcast.terms.pubsub import Record
from semcast.terms.views import Installation, ViewId


class Deliveries(Sequence[Message]):  # noqa: PLW1641 (equal to lists, which have no hash)
    """Messages in order; batches among them stay what they are for whoever goes by `runs`."""

    __slots__ = ("_count", "runs")

    def __init__(self) -> None:
        self.runs: list[Sequence[Message]] = []  # lists among them are nobody else's
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(self.runs)

    def __repr__(self) -> str:
        return repr(list(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __getitem__(self, place: Any) -> Any:
        return self._made()[place]

    def __delitem__(self, places: slice) -> None:
        messages = self._made()
        del messages[places]
        self._count = len(messages)

    def _made(self) -> list[Message]:
        """All of them one by one."""
        if len(self.runs) != 1 or not isinstance(self.runs[0], list):
            self.runs = [list(self)]
        (messages,) = self.runs
        assert isinstance(messages, list)
        return messages

    def __iadd__(self, messages: Sequence[Message]) -> Self:
        self._count += len(messages)
        if not isinstance(messages, list | tuple):
            self.runs.append(messages)
        elif self.runs and isinstance(self.runs[-1], list):
            self.runs[-1] += messages
        else:
            self.runs.append(list(messages))
        return self

    def append(self, message: Message) -> None:
        """One more."""
        self += (message,)

    def clear(self) -> None:
        """Everything was delivered."""
        self.runs, self._count = [], 0


class Effects:
    """One batch of outputs, filled by machines and emptied by a driver.

    `persist` has records with a ticket each, in order; once they are on stable storage the driver
    says so by the highest ticket.  What must not happen before leaves the machine only then.

    `events` is None when nobody records.  `room` says that a sender which was refused may try
    again; `excluded` that the group has forgotten this member.  `skipped` has, for places in
    `deliver`, how many messages were passed over as purged since the delivery before.
    `passed_over` has what a subscriber will not get, by sender, first and last number, and why: ""
    if it is obsolete and the last word on it is here, else a word for how it was lost.

    With views, `installs` has, for places in `deliver`, the views that begin there; `positions`,
    under total order, the place of each message of `deliver` in its view; `confirmed` views and
    the position up to which everything was delivered at every member.
    """

    __slots__ = (
        "confirmed",
        "deliver",
        "events",
        "excluded",
        "installs",
        "passed_over",
        "persist",
        "positions",
        "room",
        "send",
        "skipped",
    )

    def __init__(self, *, recording: bool) -> None:
        self.persist: list[tuple[int, Record]] = []
        self.send: list[tuple[Rank, Any]] = []  # each kind of machine has its datagrams
        self.deliver = Deliveries()
        self.skipped: list[tuple[int, int]] = []
        self.positions: list[int] = []
        self.installs: list[tuple[int, Installation]] = []
        self.confirmed: list[tuple[ViewId, int]] = []
        self.passed_over: list[tuple[Rank, Seq, Seq, str]] = []
        self.events: list[Event] | None = [] if recording else None
        self.room = False
        self.excluded = False

    def __repr__(self) -> str:
        return (
            f"Effects(send={self.send}, deliver={self.deliver}, room={self.room}, "
            f"excluded={self.excluded})"
        )
