"""The modelled disk keeps what was synced, and may do anything with what was not."""

from random import Random

from semcast.sim.files import SimFiles


def after_power_cuts(write: bytes) -> set[bytes]:
    left = set()
    for seed in range(300):
        files = SimFiles()
        files.append("x", b"synced")
        files.sync("x")
        files.sync_names()
        files.append("x", write)
        files.cut_power(Random(seed))
        data = files.read("x")
        assert data.startswith(b"synced")
        left.add(data.removeprefix(b"synced"))
    return left


def test_a_power_cut_leaves_nothing_all_a_prefix_or_some_blocks() -> None:
    write = b"a" * 16 + b"b" * 16 + b"c" * 16
    left = after_power_cuts(write)
    assert {b"", write, write[:20], bytes(16) + b"b" * 16, bytes(32) + b"c" * 16} <= left
    for data in left:
        assert all(found in (0, written) for found, written in zip(data, write, strict=False))


def test_a_new_name_may_be_gone_and_a_deleted_file_back_until_names_are_synced() -> None:
    seen = set()
    for seed in range(50):
        files = SimFiles()
        files.append("old", b"1")
        files.sync_names()
        files.remove("old")
        files.append("new", b"2")
        files.cut_power(Random(seed))
        seen.add(tuple(files.names()))
        files.sync_names()
        before = files.names()
        files.cut_power(Random(seed))
        assert files.names() == before
    assert seen == {(), ("old",), ("new",), ("new", "old")}


def test_a_file_that_was_cut_short_may_have_its_old_end() -> None:
    left = set()
    for seed in range(50):
        files = SimFiles()
        files.append("x", b"abcdef")
        files.sync("x")
        files.sync_names()
        files.truncate("x", 3)
        files.append("x", b"!")
        files.cut_power(Random(seed))
        left.add(files.read("x"))
    assert left == {b"abcdef", b"abc", b"abc!"}


def test_an_old_disk_is_that_of_an_earlier_sync() -> None:
    seen = set()
    for seed in range(100):
        files = SimFiles()
        for number in range(10):
            files.append("x", b"%d" % number)
            files.sync("x")
        files.go_back(Random(seed))
        seen.add(files.read("x") if files.names() else None)
    assert seen == {None, b"0", b"01", b"0123", b"01234567"}


def test_a_lost_disk_is_empty() -> None:
    files = SimFiles()
    files.append("x", b"a")
    files.sync("x")
    files.wipe()
    assert files.names() == []
