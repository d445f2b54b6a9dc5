"""Relations `all` and `none`: every message supersedes all before it, or none does."""

from collections.abc import Sequence
from itertools import takewhile

from semcast.core.relation.protocols import RelationSettings, SemanticIndex
from semcast.terms.ids import Seq
from semcast.terms.messages import DataMessage


class NoIndex(SemanticIndex):
    """The empty relation: plain reliability."""

    def __init__(self, settings: RelationSettings) -> None:
        pass

    def add(self, message: DataMessage) -> None:
        pass

    def remove(self, message: DataMessage) -> None:
        pass

    def obsoleted_by(self, message: DataMessage) -> Sequence[Seq]:
        return ()


class AllIndex(SemanticIndex):
    """Every message obsoletes all before it: a stubborn channel [SRM §3.1]."""

    def __init__(self, settings: RelationSettings) -> None:
        self.held: dict[Seq, None] = {}  # in order of arrival, which is that of the stream

    def add(self, message: DataMessage) -> None:
        self.held[message.seq] = None

    def remove(self, message: DataMessage) -> None:
        del self.held[message.seq]

    def obsoleted_by(self, message: DataMessage) -> Sequence[Seq]:
        return list(takewhile(lambda seq: seq < message.seq, self.held))
