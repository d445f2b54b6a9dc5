"""Claims of "Semantically Reliable Multicast" on its protocol; those on figures are elsewhere."""

import pytest


@pytest.mark.parametrize("seed", [1, 2])
def test_the_window_of_requests_recovers_as_tcps_does(point, seed):
    """§5.3: "Retransmission requests are controlled by a variable window which uses the TCP/IP
    algorithm". Past the threshold it grows by one per round trip; by 1/size, repair accepted 2,528
    and 1,714 of these messages a second."""
    lossy = {"loss": 0.05, "latency_ms": 10.0, "delay_ms": 0.0, "rate": 12_000.0, "size": 1000}
    group = {"protocol": "rm", "members": 3, "buffer": 2000, "seconds": 3.0, "warmup_s": 1.0}
    assert point("slow-receiver", seed=seed, **lossy, **group)["accepted_rate"] > 3500
