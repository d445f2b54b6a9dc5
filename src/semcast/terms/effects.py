"""Outputs of a machine, in the order they are carried out: persist, send, deliver, the rest."""

from typing import Any

from semcast.terms.events import Event
from semcast.terms.messages import Message, Rank, Seq
from semcast.terms.pubsub import Record
from semcast.terms.views import Installation, ViewId


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
        self.deliver: list[Message] = []
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
