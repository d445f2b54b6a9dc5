"""Runs Python with a Spark Connect server beside it, whose address is in SEMCAST_TEST_REMOTE.

python bench/over_connect.py -m pytest tests/pipeline
"""

import os
import socket
import subprocess
import sys

from semcast.pipeline.spark_session import SparkTarget, session


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def main() -> int:
    port = free_port()
    conf = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    with session(SparkTarget("local[2]", conf=conf)):
        env = {**os.environ, "SEMCAST_TEST_REMOTE": f"sc://127.0.0.1:{port}"}
        return subprocess.run([sys.executable, *sys.argv[1:]], env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
