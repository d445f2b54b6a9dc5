"""Outputs of a machine, carried out in this order: disk, events, datagrams, application."""

from collections.abc import Sequence
from typing import Any

from semcast.terms.events import Event
from semcast.terms.ids import Rank
from semcast.terms.outputs import Output
from semcast.terms.records import ReadRequest


class Effects:
    """One batch of outputs, filled by machines and emptied by a driver.

    `persist` has records with a ticket each, in order; once they are on stable storage the driver
    reports the highest ticket.  A machine sends what must not happen earlier only after that.
    A log numbers its records from 1, through all lives of its process.  `forget_before` is the
    number of a record: those before it are needed no longer, once it is durable; 0: nothing.
    `read` asks for records that are durable; the answer is an input of its own.

    `events` is None when the driver does not record.  `send` has each datagram with its audience,
    EVERYONE or some processes; an entry is encoded and sealed once for all of them.  `outputs` is
    one list of everything for the application, in order.

    `refused` has the errors of datagrams that were not handled, or not to their end: a
    `RemoteProtocolError` if no correct peer sends that, else it is a mistake of this program.
    """

    __slots__ = ("events", "forget_before", "outputs", "persist", "read", "refused", "send")

    def __init__(self, *, recording: bool) -> None:
        self.persist: list[tuple[int, Any]] = []
        self.forget_before = 0
        self.read: list[ReadRequest] = []
        self.events: list[Event] | None = [] if recording else None
        self.send: list[tuple[Sequence[Rank], Any]] = []
        self.outputs: list[Output] = []
        self.refused: list[Exception] = []

    def __repr__(self) -> str:
        return f"Effects(send={self.send}, outputs={self.outputs})"
