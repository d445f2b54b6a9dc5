"""The rule behind each event and each guarantee, with the section of the paper that states it.

One table for people: `semcast explain` shows the rule of the event that was clicked, `semcast
check` the rule that was broken.  The key of an event is its kind and its note; a kind without an
entry for its note has one for the empty note.  Publish/subscribe has its own entries where its
rules differ.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from semcast.terms.events import (
    ACKNOWLEDGE,
    ADOPT,
    AGE,
    APPEND,
    COLLECT,
    CONFIRM,
    CRASH,
    DELIVER,
    DELIVERY,
    DISCARD,
    DISK,
    DRAINED,
    EXECUTE,
    INSTALL,
    JOIN,
    LEAVE,
    LOG,
    MULTICAST,
    NACK,
    NOT_PRIMARY,
    ORDER,
    PASSED,
    POST,
    PURGE,
    QUERY,
    RECEIVE,
    RECLAIM,
    RECOVER,
    REFUSE,
    REPAIR,
    REPLY,
    REQUEST,
    RETRANSMISSION,
    SAFE,
    SKIP,
    STABLE,
    SUSPECT,
    TAKEN,
    UPDATE,
)
from semcast.terms.promises import OPEN, protocols_with


class Rule(NamedTuple):
    """One sentence, and the paper and section that it comes from."""

    sentence: str
    source: str


EVENT_RULES: Final[Mapping[tuple[str, str], Rule]] = {
    (MULTICAST, ""): Rule("The application sent it: the next number of its sender.", "SRB §2.3"),
    (MULTICAST, ORDER): Rule("It gives other messages their positions.", "SRM §4.4"),
    (RECEIVE, ""): Rule(
        "It is the next number of its sender's stream; messages are accepted in order.", "SRB §2.3"
    ),
    (DELIVER, ""): Rule(
        "The application was ready, and every earlier message of the stream was delivered, purged "
        "or skipped.",
        "SRM §4.3",
    ),
    (PURGE, DELIVERY): Rule(
        "A newer message that makes it obsolete waits in the same queue. The delivery queue may "
        "purge at once.",
        "SRM §4.3",
    ),
    (PURGE, RETRANSMISSION): Rule(
        "A newer message makes it obsolete and is safe: more than f processes have it. Only then "
        "may a retransmission buffer purge.",
        "SRB §2.2",
    ),
    (PURGE, ""): Rule("A newer message makes it obsolete.", "SRB §1.3"),
    (SKIP, ""): Rule(
        "A notice says that a newer message made it obsolete, so the process does not wait for it.",
        "SRM §5.3",
    ),
    (RECLAIM, ""): Rule(
        "Every member has the messages up to this one, so nobody will request them.", "SRM §5.3"
    ),
    (DISCARD, ""): Rule("The datagram is not part of this view or cannot be used.", "SRM §5.3"),
    (DISCARD, "duplicate"): Rule("The message was already here.", "SRM §4.2"),
    (DISCARD, "full"): Rule(
        "The buffer is full: the limit of the buffer is the flow control. The process requests the "
        "message again when it has room.",
        "SRM §5.3",
    ),
    (DISCARD, "forgotten"): Rule("The group continued without its sender.", "SRB §2.1"),
    (STABLE, ""): Rule("Gossip shows that every member has the stream up to here.", "SRM §5.3"),
    (SAFE, ""): Rule("More than f processes have the stream up to here.", "SRM §5.3"),
    (CONFIRM, ""): Rule("Every member of the view has delivered it.", "VSD app. A"),
    (JOIN, ""): Rule("The process became a member.", "SVS §5.1"),
    (INSTALL, ""): Rule(
        "The members agreed on the next view, and on the messages that the last view ends with.",
        "SVS §4.1",
    ),
    (INSTALL, NOT_PRIMARY): Rule("A view without a majority: it serves queries only.", "VSD §1"),
    (LEAVE, ""): Rule("The process left, or the group continues without the peer.", "SVS §2"),
    (LEAVE, DRAINED): Rule("The peer left after everything it sent was stable.", "SVS §2"),
    (SUSPECT, ""): Rule("The failure detector heard nothing from the peer.", "SVS §2"),
    (CRASH, ""): Rule("The process stopped. At most f processes may.", "SRB §2.1"),
    (RECOVER, ""): Rule("The process started again, as a new incarnation.", "SVS §2"),
    (RECOVER, DISK): Rule("The process started again with the state on its disk.", "RPB §6.2"),
    (NACK, ""): Rule(
        "The stream has a gap: the receiver requests the missing numbers under a window.",
        "SRM §5.3",
    ),
    (REPAIR, ""): Rule(
        "The process holds the requested messages, or knows that they were purged.", "SRM §5.3"
    ),
    (REQUEST, ""): Rule("A client's request arrived.", "SVS §5.1"),
    (EXECUTE, ""): Rule("The server executed the request.", "SVS §5.1"),
    (EXECUTE, UPDATE): Rule("The server executed an update, at its position.", "VSD §5.1"),
    (EXECUTE, QUERY): Rule("The server executed a query on its state.", "VSD §5.1"),
    (EXECUTE, PASSED): Rule("The update had run before, or its session is not known.", "VSD §3"),
    (REPLY, ""): Rule("The server answered the client.", "SVS §5.1"),
    (REPLY, TAKEN): Rule("The client took the answer.", "VSD §3"),
    (RECLAIM, LOG): Rule("Every founder of the store has executed these updates.", "VSD §5.1"),
    (SAFE, LOG): Rule("A quorum of the founders has these updates on disk.", "VSD §5.1"),
    (ADOPT, ""): Rule("The server has the cumulative expertise of its view.", "VSD def. 1"),
    (REFUSE, ""): Rule("The server is in no primary view, so it does not update.", "VSD §5.1"),
    (REFUSE, TAKEN): Rule("The update was never multicast, so it is never executed.", "VSD §5.1"),
    (POST, ""): Rule("The server sent it to one other server.", "VSD §5"),
    (COLLECT, ""): Rule("The server took what one other server had sent.", "VSD §5"),
    (APPEND, ""): Rule("The logger wrote it to its disk.", "RPB §3.2"),
    (ACKNOWLEDGE, ""): Rule("The logger has it and reports that to the sender.", "RPB §3.2"),
}

PUBSUB_RULES: Final[Mapping[tuple[str, str], Rule]] = {
    (MULTICAST, ""): Rule("The publisher numbers and multicasts it.", "RPB §3.1"),
    (RECEIVE, ""): Rule("The subscriber did not have this number yet.", "RPB §3.3"),
    (DELIVER, ""): Rule("Each number is delivered at most once.", "RPB §3.3"),
    (SKIP, ""): Rule("The number will not come, or the application does not want it.", "RPB §2.2"),
    (SKIP, AGE): Rule("Gossip gave up after its rounds; pbcast has no logger.", "RPB §1.3"),
    (SKIP, "block"): Rule("A restarted sender does not use the rest of its block.", "RPB §6.2"),
    (RECLAIM, ""): Rule("Every member has it, so the logger drops it.", "RPB §5.2"),
    (RECLAIM, AGE): Rule("It reached the age limit, the fail-safe of loggers.", "RPB §5.2"),
    (STABLE, ""): Rule("Gossip shows that every member has the stream up to here.", "RPB §5.2"),
    (JOIN, ""): Rule("The subscriber is owed what comes after these numbers.", "RPB §5.3"),
    (LEAVE, ""): Rule("The subscriber left.", "RPB §5.3"),
    (DISCARD, "full"): Rule("The subscriber has no room and requests it later.", "RPB §3.3"),
    (RECOVER, ""): Rule("The process started again.", "RPB §6.2"),
    (NACK, ""): Rule("The number is missing: members are asked, then loggers.", "RPB §4.3"),
    (REPAIR, ""): Rule("A member or a logger holds the requested messages.", "RPB §4.3"),
}

# What a broken guarantee means for the application.
GUARANTEE_RULES: Final[Mapping[str, Rule]] = {
    "integrity": Rule("a process delivered a message that was never sent", "SRM §4.2"),
    "at_most_once": Rule("a process delivered a message twice", "SRM §4.2"),
    "fifo_order": Rule("a process delivered messages of one sender out of order", "SRM §4.2"),
    "item_order": Rule("a process delivered an older value of an item after a newer", "SVS §3.2"),
    "causal_order": Rule("a process delivered an effect before its cause", "SRM §4.4"),
    "validity": Rule("a sender that did not crash never delivered its own message", "SRM §4.2"),
    "agreement": Rule("a process that did not crash never gets a message others have", "SRM §4.2"),
    "fifo_completeness": Rule("a process misses a message before one it delivered", "SRM §4.2"),
    "causal_completeness": Rule("a process misses a causal predecessor", "SRM §4.4"),
    "sender_reliability": Rule("a message of a sender that did not crash is lost", "SRM §4.2"),
    "purge_safety": Rule("a buffer dropped a message that could still be needed", "SRB §2.2"),
    "view_order": Rule("a process entered views in the wrong order", "VSD app. A"),
    "sending_view_delivery": Rule("a message was delivered outside its view", "SVS §4.1"),
    "semantic_integrity": Rule("an obsolete message was delivered after a newer one", "SVS §3.2"),
    "semantic_view_synchrony": Rule("members ended a view with different messages", "SVS §4.1"),
    "total_order": Rule("two processes delivered messages in different orders", "SRM §4.4"),
    "prefix_delivery": Rule("a process left a hole in the order of its view", "VSD app. A"),
    "primary_order": Rule("two primary views exist that share no member", "SVS §2"),
    "confirmation": Rule("a message was confirmed that a member did not deliver", "VSD app. A"),
    "reliable_delivery": Rule("a subscriber never gets a message it is owed", "RPB §2.1"),
    "collection_safety": Rule("a logger dropped a message that a member lacks", "RPB §5.2"),
    "durability": Rule("a logger acknowledged a message that it did not store", "RPB §3.2"),
    "exactly_once_requests": Rule("a request was executed twice or not at all", "SVS §5.1"),
    "acknowledged_survives": Rule("an answered request is missing in a later view", "SVS §5.1"),
    "replica_equality": Rule("replicas entered a view with different states", "SVS §5.3"),
    "refused_never_executed": Rule("an update was executed that was refused", "VSD §5.1"),
    "never_blocked": Rule("a query was given to a server that lacked updates", "VSD §5.1"),
    "sequential_consistency": Rule("a client saw the state go back", "VSD §3"),
}


def rule_of(kind: str, note: str, protocol: str = "") -> Rule:
    """The rule behind an event of a run of the protocol."""
    tables = (PUBSUB_RULES, EVENT_RULES) if protocol in protocols_with(OPEN) else (EVENT_RULES,)
    for key in ((kind, note), (kind, "")):
        for rules in tables:
            if key in rules:
                return rules[key]
    raise KeyError(kind)
