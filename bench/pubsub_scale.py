"""How large a simulated publish/subscribe group can be: time and memory by members.

One sender of 10 packets a second for 10 s, 1 % loss; each size in a process of its own, so that
memory is its own.  `python bench/pubsub_scale.py [PROTOCOL ...]`
"""

import json
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

SIZES = (18, 100, 1_000, 10_000)
KEYS = ("latency_mean_ms", "latency_p99_ms", "member_overhead_bytes_per_s", "load_max")


def measure(protocol: str, members: int) -> None:
    """Run one size here, and print its line."""
    from semcast.experiments.pubsub import PUBSUB

    given = {"senders": 1, "publishers": 1, "rate": 10.0}
    parameters = PUBSUB.parameters({"protocol": protocol, "members": members, **given})
    started = perf_counter()
    row = PUBSUB.run(parameters, 1, None)
    seconds = perf_counter() - started
    mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    told = {key: row[key] for key in KEYS}
    print(json.dumps({"protocol": protocol, "members": members, **told, "s": seconds, "mb": mb}))


def main() -> None:
    for protocol in sys.argv[1:] or ("lbrm", "pbcast", "rpbcast"):
        for members in SIZES:
            code = f"import pubsub_scale; pubsub_scale.measure({protocol!r}, {members})"
            subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, check=True)


if __name__ == "__main__":
    main()
