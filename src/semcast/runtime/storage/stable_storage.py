"""What a driver wants of stable storage, and what that tells the driver."""

from collections.abc import Sequence
from typing import Any, Protocol

from semcast.terms.records import ReadRequest, ReadResult


class DiskUser(Protocol):
    """Who is told what became of its records."""

    def on_persisted(self, ticket: int) -> None: ...

    def on_read(self, result: ReadResult) -> None: ...

    def on_disk_failed(self, error: Exception) -> None: ...


class StableStorage(Protocol):
    """Where a machine's records become durable.  After `connect` it tells its user what happened,
    a failure once, and always later: never from inside a call."""

    def connect(self, user: DiskUser) -> None: ...

    def append(self, records: Sequence[tuple[int, Any]]) -> None: ...

    def forget_before(self, number: int) -> None: ...

    def read(self, requests: Sequence[ReadRequest]) -> None: ...
