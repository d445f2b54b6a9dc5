"""Every datagram has a tag of its own, in the range of its family, and one byte long."""

from typing import get_args

import msgspec

from semcast.terms import messages, pubsub, views

FAMILIES = {
    range(1, 16): get_args(messages.Datagram),
    range(16, 32): (),  # for membership
    range(32, 64): (*get_args(views.ViewDatagram), views.Stamped),
    range(64, 96): get_args(pubsub.PubsubDatagram),
    range(96, 128): (),  # for services
}


def tag_of(kind):
    return msgspec.inspect.type_info(kind).tag


def test_tags_are_unique_and_in_the_range_of_their_family():
    for tags, kinds in FAMILIES.items():
        assert len({tag_of(kind) for kind in kinds}) == len(kinds)
        assert all(tag_of(kind) in tags for kind in kinds)


def test_no_tagged_struct_of_the_terms_is_left_out():
    """Records have a number space of their own: they go to disk."""
    known = {kind for kinds in FAMILIES.values() for kind in kinds} | {*get_args(pubsub.Record)}
    for module in (messages, views, pubsub):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                assert tag_of(kind) is None or kind in known
