"""The modelled disk keeps what was synced, loses what was not, and never shows half a record."""

from random import Random

import msgspec

from semcast.sim.disk import SimDisk


class Note(msgspec.Struct, frozen=True, array_like=True, tag=1):
    text: str


def disk(*texts: str) -> SimDisk:
    made = SimDisk(Note)
    for text in texts:
        made.write(Note(text))
    return made


def test_records_come_back_equal_and_in_order() -> None:
    one = disk("a", "b", "")
    assert one.records() == (Note("a"), Note("b"), Note(""))


def test_a_crash_keeps_what_was_synced_and_a_prefix_of_the_rest() -> None:
    kept = set()
    for seed in range(100):
        one = disk("a", "b")
        one.sync(one.size)
        one.write(Note("c"))
        one.write(Note("d" * 50))
        one.crash(Random(seed))
        texts = "".join(note.text[0] for note in one.records())
        assert "abcd".startswith(texts)
        assert texts.startswith("ab")
        kept.add(texts)
    assert {"ab", "abc"} <= kept


def test_what_follows_a_torn_record_can_be_read() -> None:
    for seed in range(50):
        one = disk("a" * 40)
        one.crash(Random(seed))
        one.write(Note("after"))
        one.sync(one.size)
        assert one.records()[-1] == Note("after")


def test_a_lost_disk_is_empty_and_says_so() -> None:
    one = disk("a")
    one.sync(one.size)
    one.wipe()
    assert (one.records(), one.losses, one.synced) == ((), 1, 0)
