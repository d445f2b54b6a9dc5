"""`semcast.join`: the way into a group."""

from collections.abc import Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from semcast.runtime.group import Group, Relation
from semcast.runtime.options import Options, option_help
from semcast.runtime.session import Session


class Joining:
    """What `join` returns: `async with` it, or await it and close the group yourself."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._group: Group | None = None

    async def _join(self) -> Group:
        return await Session(self._options).open()

    def __await__(self) -> Generator[Any, None, Group]:
        return self._join().__await__()

    async def __aenter__(self) -> Group:
        self._group = await self._join()
        return self._group

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._group is not None
        await self._group.close()


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
    period: float | str | None = None,
    fanout: int | None = None,
    datagram: int | str | None = None,
    coalesce: float | str | None = None,
    bandwidth: float | str | None = None,
    message_max: int | str | None = None,
    key: str | Path | Literal[False] | None = None,
    trace: str | Path | None = None,
    metrics: str | None = None,
    control: bool | None = None,
    join_timeout: float | str | None = None,
    linger: float | str | None = None,
    socket_buffer: int | str | None = None,
    config: str | Path | None = None,
) -> Joining:
    given = {option: value for option, value in locals().items() if option != "group"}
    return Joining(Options.resolve(group, given))


_ABOUT = """Join a group of a fixed set of members; returns once all of them are there.

    async with semcast.join("quotes", members=3) as group:
        await group.multicast(b"101.25", item="ACME")
        async for message in group:
            print(message.sender, message.item, message.payload)

`members` says how many there are, and they find each other; or `peers` says where they are.
What is not given comes from the environment (SEMCAST_ and the name in capitals), then from
the TOML file `config`, then from the defaults.  Sizes and times may be text: "64 MiB",
"30 ms".  Raises `ConfigError`, `JoinTimeout` or `GroupComplete`.
"""
_OPTIONS = "\n".join(f"    {option}: {told}" for option, told in option_help().items())
join.__doc__ = f"{_ABOUT}\nOptions:\n{_OPTIONS}\n"
