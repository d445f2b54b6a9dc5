"""`semcast.replicate`: run one server of a replicated service.

The service runs in the event loop of the server: while `execute` computes, nothing else happens,
so a request that takes longer than the failure-detection timeout gets the server excluded.
"""

from collections.abc import Callable, Mapping
from typing import Any

from semcast.runtime.application.pending import Pending
from semcast.runtime.application.server import Server
from semcast.runtime.membership.service_session import ReplicaSession, ServiceSession
from semcast.runtime.options.options import Options
from semcast.service.recipe import PRIMARY_BACKUP
from semcast.terms.errors import ConfigError


class PendingServer(Pending[Server]):
    """A server to be started."""

    def __init__(self, open_session: Callable[[], ServiceSession]) -> None:
        self._open_session = open_session

    async def start(self) -> Server:
        """Start it; returns when it is in a view of the servers."""
        session = self._open_session()
        await session.open()
        driver, port = session.driver, session.server_port
        assert driver is not None
        name_of = session.directory.name_of
        return Server(session.options, driver, port, name_of, session.snapshot, session.close)


def replicate(service: Any, *, group: str, **options: Any) -> PendingServer:
    """Run one server of a replicated service: primary-backup.

    Start it in several processes with the same `group`.  One of the servers is the primary: it
    executes each request and sends what the request changed to the others.  A request is answered
    when all servers of the view have applied it.  When the primary crashes, another server takes
    over within about a second, and no answered request is lost.

        class Bank:
            def execute(self, request):
                account, amount = request
                balance = self.items.get(account, 0) + amount
                if balance < 0:
                    raise ValueError(f"{account} has only {balance - amount}")
                self.items[account] = balance
                return balance

        async with semcast.replicate(Bank(), group="bank", members=3) as server:
            await server.wait()

    `service` has a method `execute(request)`, which returns the reply.  It keeps all its state in
    `self.items`, a dictionary with string keys that Semcast provides and replicates; requests,
    replies and values are what MessagePack can say.  To change a value, assign it.  An error that
    `execute` raises undoes the request and is raised at the client as `RequestFailed`.  Only the
    primary calls `execute`, one request at a time, in its event loop.

    Use three servers or more.  The servers go on without one that crashed as long as a majority of
    them is left.  Three survive a crash, and a server that is started again makes them three again.
    Two survive none: one alone cannot know whether the other has crashed or is only cut off.

    Options are those of `semcast.join`, without `protocol`, `order`, `echo`, `snapshot` and
    `restore`.  With relation "update-fin", the default, a slow server skips updates that a later
    request has replaced; with "none" it skips nothing and slows the others down.  With "list" all
    updates of a request are one message: fewer messages, and a slow server skips one only when a
    later request has replaced all that is in it.
    """
    resolved = server_options(service, group, options)
    return PendingServer(lambda: ReplicaSession(resolved, service))


def server_options(service: Any, group: str, options: Mapping[str, Any]) -> Options:
    """The options of a server, those included that are not the user's to set."""
    for name in ("protocol", "order", "echo"):
        if name in options:
            raise ConfigError(f"{name}: semcast.replicate sets it; remove it")
    if not callable(getattr(service, "execute", None)):
        raise ConfigError(f"service: {type(service).__name__} has no method execute(request)")
    settings = {"relation": "update-fin", **options, "echo": True, "order": "fifo"}
    return Options.resolve(group, {**settings, "protocol": PRIMARY_BACKUP}, role="server")
