"""The limit: UDP multicast from C to C with `sendmmsg` and `recvmmsg`, in 1,400-byte datagrams
unless told otherwise.  Compiled when it is needed; this process becomes it."""

import os
import sys
from pathlib import Path

import msgspec

from semcast.fleet.plan import WorkerPlan
from semcast.runtime.transport.addresses import multicast_address

DATAGRAM = 1400


def work() -> int:
    """Never returns."""
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=WorkerPlan)
    host, port = multicast_address(plan.group, 4)
    program = Path(plan.options["program"])
    words: list[object] = [host, port]
    if plan.load is not None:
        words += [plan.load.size, plan.options["datagram"] or DATAGRAM, plan.load.seconds]
    os.execv(program, [program.name, *map(str, words)])
