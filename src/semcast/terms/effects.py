"""Outputs of a machine, in the order a driver carries them out: send, deliver, then the rest."""

from semcast.terms.events import Event
from semcast.terms.messages import Datagram, Message, Rank


class Effects:
    """One batch of outputs, filled by machines and emptied by a driver.

    `events` is None when nobody records.  `room` says that a sender which was refused may try
    again; `excluded` that the group has forgotten this member.  `skipped` has, for places in
    `deliver`, how many messages were passed over as purged since the delivery before.
    """

    __slots__ = ("deliver", "events", "excluded", "room", "send", "skipped")

    def __init__(self, *, recording: bool) -> None:
        self.send: list[tuple[Rank, Datagram]] = []
        self.deliver: list[Message] = []
        self.skipped: list[tuple[int, int]] = []
        self.events: list[Event] | None = [] if recording else None
        self.room = False
        self.excluded = False

    def __repr__(self) -> str:
        return (
            f"Effects(send={self.send}, deliver={self.deliver}, room={self.room}, "
            f"excluded={self.excluded})"
        )
