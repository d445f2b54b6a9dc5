"""The same traffic for relations that name messages instead of items."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from semcast.terms.messages import Submission


def list_predecessors(submissions: Iterable[Submission], k: int) -> Iterator[Submission]:
    """Each message names the latest earlier one on its item, if it lies at most `k` back.

    For a stream that starts at message 1 and is sent whole and in order.
    """
    latest: dict[int, int] = {}
    for seq, submission in enumerate(submissions, start=1):
        item = submission.item
        if item is None:
            yield submission
            continue
        before = latest.get(item)
        latest[item] = seq
        if before is None or seq - before > k:
            yield submission
        else:
            yield replace(submission, obsoletes=(before,))
