"""What a member of a fixed group reports to its peers, about once a second, and when it leaves."""

import msgspec


class MemberReport(msgspec.Struct, frozen=True, array_like=True):
    """How a member is doing."""

    delivered: int
    skipped: int
    queued: int
    held: int


class Goodbye(msgspec.Struct, frozen=True, array_like=True):
    """A member leaves; `drained`: everything it knew of had reached everyone."""

    drained: bool


report_decoder = msgspec.msgpack.Decoder(MemberReport)
goodbye_decoder = msgspec.msgpack.Decoder(Goodbye)
