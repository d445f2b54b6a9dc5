"""Semantically reliable multicast: fast-changing state, current at many processes at once."""

TYPE_CHECKING = False  # not that of typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from semcast.runtime.application import sync as sync
    from semcast.runtime.application.client import Client as Client
    from semcast.runtime.application.group import Group as Group
    from semcast.runtime.application.group import Relation as Relation
    from semcast.runtime.application.group_events import Confirmed as Confirmed
    from semcast.runtime.application.group_events import View as View
    from semcast.runtime.application.group_events import ViewChange as ViewChange
    from semcast.runtime.application.join import join as join
    from semcast.runtime.application.mailbox import Message as Message
    from semcast.runtime.application.replicate import replicate as replicate
    from semcast.runtime.application.serve import serve as serve
    from semcast.runtime.application.server import Server as Server
    from semcast.runtime.application.server import ServerChange as ServerChange
    from semcast.runtime.application.store import Store as Store
    from semcast.runtime.application.store import open_store as open_store
    from semcast.runtime.membership.gathering import GroupComplete as GroupComplete
    from semcast.runtime.operations.snapshot import Peer as Peer
    from semcast.runtime.operations.snapshot import Snapshot as Snapshot
    from semcast.terms.errors import BufferFull as BufferFull
    from semcast.terms.errors import ConfigError as ConfigError
    from semcast.terms.errors import ExcludedFromGroup as ExcludedFromGroup
    from semcast.terms.errors import InternalError as InternalError
    from semcast.terms.errors import JoinTimeout as JoinTimeout
    from semcast.terms.errors import LocalProtocolError as LocalProtocolError
    from semcast.terms.errors import NoQuorum as NoQuorum
    from semcast.terms.errors import RequestFailed as RequestFailed
    from semcast.terms.errors import RequestUnknown as RequestUnknown
    from semcast.terms.errors import SemcastError as SemcastError
    from semcast.terms.messages import Update as Update

__version__ = "0.1.0"

# Imported when first used, so that a command that needs none of it starts at once.
_HOMES = {
    "BufferFull": "terms.errors",
    "Client": "runtime.application.client",
    "ConfigError": "terms.errors",
    "Confirmed": "runtime.application.group_events",
    "ExcludedFromGroup": "terms.errors",
    "Group": "runtime.application.group",
    "GroupComplete": "runtime.membership.gathering",
    "InternalError": "terms.errors",
    "JoinTimeout": "terms.errors",
    "LocalProtocolError": "terms.errors",
    "Message": "runtime.application.mailbox",
    "NoQuorum": "terms.errors",
    "Peer": "runtime.operations.snapshot",
    "Relation": "runtime.application.group",
    "RequestFailed": "terms.errors",
    "RequestUnknown": "terms.errors",
    "SemcastError": "terms.errors",
    "Server": "runtime.application.server",
    "ServerChange": "runtime.application.server",
    "Snapshot": "runtime.operations.snapshot",
    "Store": "runtime.application.store",
    "Update": "terms.messages",
    "View": "runtime.application.group_events",
    "ViewChange": "runtime.application.group_events",
    "join": "runtime.application.join",
    "open_store": "runtime.application.store",
    "replicate": "runtime.application.replicate",
    "serve": "runtime.application.serve",
}

__all__ = [  # noqa: PLE0604
    "__version__",
    "sync",
    *_HOMES,
]


def __getattr__(name: str) -> object:
    import importlib  # not before: until the command heeds Ctrl-C, every import is too much

    if name == "sync":
        return importlib.import_module("semcast.runtime.application.sync")
    if name not in _HOMES:
        raise AttributeError(f"module 'semcast' has no attribute {name!r}")
    return getattr(importlib.import_module(f"semcast.{_HOMES[name]}"), name)
