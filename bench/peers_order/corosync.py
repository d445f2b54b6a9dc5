"""Corosync's closed process groups (cpg), agreed order: one node per member, each with a network
namespace of its own, joined by a bridge whose frames are as large as loopback's.  Unsealed, over
udpu, which was a little faster here than knet; everything else is as it comes.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_hex

from peers_order.race import Field, System

SOURCE = Path(__file__).with_name("cpg.c")
HEADER = Path("/usr/include/corosync/cpg.h")  # Debian's libcpg-dev
SUBNET = "10.99.0"
MTU = "65535"
CONFIGURATION = """
totem {{
    version: 2
    cluster_name: ordered
    transport: udpu
}}
nodelist {{
{nodes}
}}
logging {{
    to_stderr: yes
    to_syslog: no
}}
"""
NODE = "    node {{\n        nodeid: {id}\n        ring0_addr: {subnet}.{id}\n    }}"
PRIVATE = ("/run", "/var/lib/corosync", "/dev/shm")  # Nodes must not meet there.


def missing() -> str:
    """What is not installed, or not allowed."""
    absent = [name for name in ("corosync", "gcc", "ip", "nsenter") if shutil.which(name) is None]
    if not HEADER.exists():
        absent.append(f"{HEADER} (libcpg-dev)")
    if os.geteuid():
        absent.append("root, who alone may make network namespaces")
    return ", ".join(absent)


def version() -> str:
    """Of Corosync."""
    told = subprocess.run(["corosync", "-v"], capture_output=True, text=True, check=True)
    return told.stdout.splitlines()[0]


def ip(*words: str) -> None:
    """Change the network."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def network(members: int) -> Iterator[list[str]]:
    """The names of so many namespaces on one bridge."""
    tag = token_hex(3)
    hub, nodes = f"order-{tag}-hub", [f"order-{tag}-{node}" for node in range(1, members + 1)]
    with ExitStack() as stack:
        for name in (hub, *nodes):
            ip("netns", "add", name)
            stack.callback(ip, "netns", "delete", name)
        ip("-n", hub, "link", "add", "hub", "type", "bridge")
        ip("-n", hub, "link", "set", "hub", "mtu", MTU, "up")
        for number, name in enumerate(nodes, 1):
            port = f"port{number}"
            ip("-n", hub, "link", "add", port, "type", "veth", "peer", "eth0", "netns", name)
            ip("-n", hub, "link", "set", port, "mtu", MTU, "master", "hub", "up")
            ip("-n", name, "addr", "add", f"{SUBNET}.{number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "mtu", MTU, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield nodes


@contextmanager
def field(folder: Path, members: int) -> Iterator[Field]:
    """The client compiled on the spot, and the daemons running."""
    client, settings = folder / "cpg", folder / "corosync.conf"
    subprocess.run(["gcc", "-O2", "-o", client, SOURCE, "-lcpg", "-lcorosync_common"], check=True)
    nodes = (NODE.format(id=number, subnet=SUBNET) for number in range(1, members + 1))
    settings.write_text(CONFIGURATION.format(nodes="\n".join(nodes)))
    mounts = "; ".join(f"mount -t tmpfs none {place}" for place in PRIVATE)
    start = f"set -e; {mounts}; exec corosync -f -c {settings}"
    with ExitStack() as stack:
        daemons = []
        for name in stack.enter_context(network(members)):
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            words = ["ip", "netns", "exec", name, "sh", "-c", start]
            daemon = subprocess.Popen(words, stdout=log, stderr=log)
            stack.callback(daemon.wait)
            stack.callback(daemon.terminate)
            daemons.append(daemon.pid)
        enter = (("nsenter", "-t", str(pid), "-m", "-n", str(client)) for pid in daemons)
        yield Field(list(enter), daemons)


COROSYNC = System("corosync", missing, version, field)
