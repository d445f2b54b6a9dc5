"""`semcast.serve`: run one server of the replicated store."""

from collections.abc import Sequence
from typing import Any, Final

from semcast.runtime.application.replicate import PendingServer
from semcast.runtime.application.store import STORE_GROUP
from semcast.runtime.membership.incarnations import pid_of_name
from semcast.runtime.membership.service_session import StoreServerSession, StoreSettings
from semcast.runtime.options.options import Options
from semcast.service.store_recipe import REPLICATED_DATA, check_quorums
from semcast.terms.errors import ConfigError
from semcast.terms.ids import Pid

# Gossip is rarer than in other groups, because servers say by themselves what they have.
DEFAULTS: Final = {"overflow": "exclude", "period": "50 ms"}


def serve(
    name: str,
    *,
    peers: Any,
    data: Any,
    group: str = STORE_GROUP,
    reads: str = "local",
    confirm: str = "quorum",
    quorums: Any = None,
    **options: Any,
) -> PendingServer:
    """Run one server of a replicated store.

        servers = "a=127.0.0.1:7101,b=127.0.0.1:7102,c=127.0.0.1:7103"
        async with semcast.serve("a", peers=servers, data="data/a") as server:
            await server.wait()

    `peers` are all servers of the store, this one included; start each of them with the same list.
    The store begins once all of them have run at the same time; from then on a majority is enough.
    `data` is the directory of this server alone.  An update is answered when a majority of the
    servers has it on disk.  With None the server keeps everything in memory: updates are lost if a
    majority of the servers ends at the same time.

    `reads`: a query is answered by the server that the client talks to ("local"), or by each
    server in turn ("rotate").  `confirm`: an update waits for a majority ("quorum") or for every
    server that can be reached ("all").  `quorums` are the sets of servers that are enough, instead
    of every majority; each two have a server in common.  With "a+b,a+c", or [["a", "b"],
    ["a", "c"]], updates need a and one of the others.  Give all servers the same, at every start:
    with other quorums they could go on without updates that were answered.

    Other options are `timeout`, `buffer`, `trace` and those of `semcast.join` about the network.
    """
    for option in ("protocol", "order", "relation", "members", "echo", "multicast"):
        if option in options:
            raise ConfigError(f"{option}: semcast.serve sets it; remove it")
    if not peers:
        raise ConfigError("peers: give the names and addresses of all servers of the store")
    settings = {**options, "name": name, "peers": peers, "data": data}
    settings |= {"protocol": REPLICATED_DATA, "order": "total", "relation": "none"}
    settings = DEFAULTS | settings
    resolved = Options.resolve(group, settings, role="server")
    names = [peer.name for peer in resolved.peers or ()]
    chosen = StoreSettings(reads, confirm, _quorums(quorums, names))
    StoreServerSession(resolved, chosen)  # which refuses settings that are not possible
    return PendingServer(lambda: StoreServerSession(resolved, chosen))


def _quorums(given: Any, names: Sequence[str]) -> tuple[tuple[Pid, ...], ...]:
    """By number of the server, in an order that does not depend on how they were written."""
    if given is None:
        return ()
    try:
        each_text = given.split(",") if isinstance(given, str) else list(given)
        found = [
            [name.strip() for name in (each.split("+") if isinstance(each, str) else each)]
            for each in each_text
            if each != ""
        ]
    except (AttributeError, TypeError):
        raise ConfigError(
            f"quorums: cannot read {str(given)[:60]!r}; give sets of servers, such as a+b,a+c"
        ) from None
    if not found:
        raise ConfigError("quorums: none given; leave the option out for every majority")
    check_quorums(found, names)
    return tuple(sorted({tuple(sorted(map(pid_of_name, set(each)))) for each in found}))
