"""`semcast keys`: a key made on one machine, carried to another, used, and retired."""

import io

import pytest

from semcast.runtime.storage.keyring import KeyRing, id_text


@pytest.fixture
def ring(tmp_path):
    return tmp_path / "keys.toml"


@pytest.fixture
def keys(semcast, ring):
    """`keys("new")` with this ring and --json."""

    def run(*words, file=ring):
        done = semcast("keys", *words, "--file", str(file), "--json")
        assert done.code == 0, done.err
        return done.answer

    return run


@pytest.mark.parametrize("words", ["", "new", "list", "add", "use", "remove"])
def test_help_has_an_example(words, semcast):
    done = semcast("keys", *words.split(), "--help")
    assert done.code == 0
    assert "Example: semcast keys" in done.out


def test_a_rotation_between_two_machines(keys, ring, tmp_path):
    there = tmp_path / "other" / "keys.toml"
    old = keys("new")["id"]
    (carried,) = keys("list", "--secret")["keys"]
    assert keys("add", carried["key"], file=there)["id"] == old
    new = keys("new", "--cipher", "chacha20-poly1305")["id"]
    assert [key["active"] for key in keys("list")["keys"]] == [True, False]
    keys("add", keys("list", "--secret")["keys"][1]["key"], file=there)
    for file in (ring, there):
        assert keys("use", new.upper(), file=file)["id"] == new
        assert keys("remove", old, file=file)["keys"] == [
            {"id": new, "cipher": "chacha20-poly1305", "active": True}
        ]
    assert KeyRing.load(ring) == KeyRing.load(there)


def test_a_key_can_come_from_standard_input(keys, tmp_path, monkeypatch):
    made = keys("new")["id"]
    text = keys("list", "--secret")["keys"][0]["key"]
    monkeypatch.setattr("sys.stdin", io.StringIO(text + "\n"))
    assert keys("add", file=tmp_path / "there.toml")["id"] == made


def test_people_see_a_table_without_secrets(semcast, ring):
    done = semcast("keys", "new", "--file", str(ring))
    (key,) = KeyRing.load(ring).keys
    assert done.out.splitlines() == [
        f"created {id_text(key.id)} ({ring})",
        "id        cipher       active",
        f"{id_text(key.id)}  aes-256-gcm     yes",
        "",
        "next: semcast keys list --secret · semcast keys --help",
    ]
    done = semcast("keys", "use", id_text(key.id), "--file", str(ring))
    assert done.out.startswith(f"active is now {id_text(key.id)} ({ring})\n")
    done = semcast("keys", "list", "--file", str(ring))
    assert "semcast-key" not in done.out + done.err
    done = semcast("keys", "list", "--secret", "--file", str(ring))
    assert "semcast-key-1-" in done.out


def test_the_environment_says_where_the_ring_is(semcast, ring, monkeypatch):
    monkeypatch.setenv("SEMCAST_KEYS", str(ring))
    assert semcast("keys", "list").out == f"no keys in {ring}\n\nnext: semcast keys new\n"
    assert semcast("keys", "new").code == 0
    assert len(KeyRing.load(ring).keys) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("bogus",), "command: unknown value 'bogus'; allowed: new, list, add, use, remove"),
        (
            ("new", "--cipher", "rot13"),
            "cipher: unknown value 'rot13'; allowed: aes-256-gcm, chacha20",
        ),
        (("add", "semcast-key-1-AAAA"), "key: damaged or incomplete; copy the whole key"),
        (("use", "5f21ac07"), "the key ring is empty; run semcast keys new"),
        (("remove",), "Missing argument"),
    ],
)
def test_one_line_and_exit_code_2(words, told, semcast, ring, monkeypatch):
    monkeypatch.setenv("SEMCAST_KEYS", str(ring))
    done = semcast("keys", *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert told in done.err
    assert not ring.exists()


def test_a_ring_that_others_may_read_is_refused(semcast, keys, ring):
    keys("new")
    ring.chmod(0o644)
    done = semcast("keys", "list", "--file", str(ring))
    assert done.code == 2
    assert f"(mode 0644); run chmod 600 {ring}" in done.err


def test_the_active_key_is_not_removed(semcast, keys, ring):
    made = keys("new")["id"]
    done = semcast("keys", "remove", made, "--file", str(ring))
    assert done.code == 2
    assert f"key: {made} is active; first activate another one with semcast keys use" in done.err
