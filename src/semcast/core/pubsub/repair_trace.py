"""Requests for repair and their answers, as trace events: without them recovery cannot be seen."""

from collections.abc import Sequence

from semcast.core.span_set import SpanSet
from semcast.core.trace import span_text
from semcast.terms.effects import Effects
from semcast.terms.events import NACK, REPAIR, Event
from semcast.terms.ids import EVERYONE, Rank
from semcast.terms.pubsub import Repair, StreamSpans


def trace_request(pid: Rank, peer: Rank, parts: Sequence[StreamSpans], out: Effects) -> None:
    """The process requests missing messages from `peer`."""
    if out.events is None:
        return
    for part in parts:
        first, numbers = part.spans[0][0], span_text(part.spans)
        out.events.append(Event(NACK, pid, part.sender, first, note=numbers, peer=peer))


def trace_repair(pid: Rank, to: Sequence[Rank], repair: Repair, out: Effects) -> None:
    """The process answers with messages and purge notices, to one peer or to everyone."""
    if out.events is None:
        return
    peer = -1 if to is EVERYONE else to[0]
    messages, notices = repair.messages, repair.purged
    for sender in dict.fromkeys([*(m.sender for m in messages), *(n.sender for n in notices)]):
        sent = SpanSet((m.seq, m.seq) for m in messages if m.sender == sender)
        gone = SpanSet((n.first, n.last) for n in notices if n.sender == sender)
        first = min([*sent.firsts[:1], *gone.firsts[:1]])
        numbers = " ".join(filter(None, (span_text(sent), span_text(gone, "~"))))
        out.events.append(Event(REPAIR, pid, sender, first, note=numbers, peer=peer))
