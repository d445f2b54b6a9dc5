"""`semcast.join`: the way into a group."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from semcast.runtime.application.group import Group, Relation
from semcast.runtime.application.pending import Pending
from semcast.runtime.application.port import StateHandlers
from semcast.runtime.membership.fixed_session import FixedSession
from semcast.runtime.membership.session import Session
from semcast.runtime.membership.view_session import ViewSession
from semcast.runtime.options.options import Options, option_help
from semcast.terms.errors import ConfigError


class PendingJoin(Pending[Group]):
    """A group to be joined."""

    def __init__(self, options: Options, state: StateHandlers) -> None:
        self._options = options
        self._state = state

    async def start(self) -> Group:
        """Join."""
        session: Session
        if self._options.has_views:
            session = ViewSession(self._options, self._state)
        else:
            session = FixedSession(self._options)
        return await open_group(session)


async def open_group(session: Session) -> Group:
    """Get into the group of a session; raises as `Session.open`."""
    await session.open()
    driver, port = session.driver, session.port
    assert driver is not None
    return Group(session.options, driver, port, session.snapshot, session.forget, session.close)


def join(
    group: str,
    *,
    name: str | None = None,
    members: int | None = None,
    peers: str | Sequence[str] | None = None,
    bind: str | None = None,
    multicast: str | None = None,
    interface: str | None = None,
    ip: int | None = None,
    protocol: str | None = None,
    order: str | None = None,
    relation: str | Relation | None = None,
    k: int | None = None,
    chain_limit: int | None = None,
    f: int | None = None,
    buffer: int | None = None,
    buffer_bytes: int | str | None = None,
    purge: str | None = None,
    overflow: str | None = None,
    echo: bool | None = None,
    timeout: float | str | None = None,
    rejoin: bool | None = None,
    period: float | str | None = None,
    fanout: int | None = None,
    datagram: int | str | None = None,
    coalesce: float | str | None = None,
    bandwidth: float | str | None = None,
    message_max: int | str | None = None,
    key: str | Path | Literal[False] | None = None,
    data: str | Path | None = None,
    trace: str | Path | None = None,
    metrics: str | None = None,
    control: bool | None = None,
    join_timeout: float | str | None = None,
    linger: float | str | None = None,
    socket_buffer: int | str | None = None,
    config: str | Path | None = None,
    snapshot: Callable[[], bytes] | None = None,
    restore: Callable[[bytes], object] | None = None,
) -> PendingJoin:
    return _joining(**locals())


def _joining(group: str, *, snapshot: Any, restore: Any, **given: Any) -> PendingJoin:
    options = Options.resolve(group, given)
    if not options.has_views and (snapshot or restore):
        raise ConfigError(
            "snapshot, restore: need a protocol with views, such as s-vsm; "
            f"{options.protocol} has a fixed membership"
        )
    return PendingJoin(options, StateHandlers(snapshot, restore))


_ABOUT = """Join a group.

Returns when all members have joined; with views, when this member is in the view.

    async with semcast.join("quotes", members=3) as group:
        await group.multicast(b"101.25", item="ACME")
        async for message in group:
            print(message.sender, message.item, message.payload)

Give `members`, the number of members, which then discover each other; or `peers`, their
addresses.  An option that is not given comes from the environment (SEMCAST_ and its name in
capitals), then from the TOML file `config`, then from the defaults.  Sizes and times may be text:
"64 MiB", "30 ms".  Raises `ConfigError`, `JoinTimeout` or `GroupComplete`.

The membership is fixed, unless `protocol` is one with views.  Then the first `members` processes
(or all peers) found the group; a process that starts later, or restarts after a crash, joins it,
and `group.events()` reports each change of the view.  A new member starts from the state of
another one:

    shares = {}
    semcast.join("orders", protocol="s-vsm", members=3,
                 snapshot=lambda: json.dumps(shares).encode(),
                 restore=lambda state: shares.update(json.loads(state or b"{}")))

The iteration over the group calls both when it reaches the change of the view.  The snapshot must
include every message that the application has read before; the next message is delivered after
`restore` has returned.  `restore` gets b"" if no member gives a snapshot, and is called again if
this member rejoins.
"""
_OPTIONS = "\n".join(f"    {option}: {text}" for option, text in option_help().items())
join.__doc__ = f"{_ABOUT}\nOptions:\n{_OPTIONS}\n"
