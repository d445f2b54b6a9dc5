"""A trace whose run promises what no group can is refused when it is read."""

from pathlib import Path

import pytest

from semcast.terms.events import MULTICAST, Event
from semcast.terms.messages import DataMessage
from semcast.traces.errors import BadFile
from semcast.traces.parquet import TraceWriter
from semcast.traces.schema import RunInfo
from semcast.traces.trace_files import root_of


def written(path: Path, protocol: str, order: str) -> Path:
    run = RunInfo(name="", protocol=protocol, order=order, relation="item", f=0, seed=1)
    with TraceWriter(path, run, ["a"], items={}) as trace:
        trace.append([Event(MULTICAST, 0, 0, 1, DataMessage(0, 1), n=1)])
        trace.close(complete=True)
    return path


@pytest.mark.parametrize(("protocol", "order"), [("s-rm", "total"), ("vs", "fifo")])
def test_an_order_that_the_protocol_does_not_have(
    tmp_path: Path, protocol: str, order: str
) -> None:
    with pytest.raises(BadFile, match=rf"runs.parquet.*: order: {protocol} supports .*not {order}"):
        root_of(written(tmp_path, protocol, order))


@pytest.mark.parametrize(("protocol", "order"), [("s-rm", "causal"), ("of-tomorrow", "total")])
def test_what_can_have_been_run_is_read(tmp_path: Path, protocol: str, order: str) -> None:
    assert root_of(written(tmp_path, protocol, order)) == tmp_path.resolve()
