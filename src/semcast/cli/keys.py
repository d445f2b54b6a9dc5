"""`semcast keys`: the keys that seal what this machine's members send.

Secrets are printed only when asked for.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from semcast.cli.commands import CommandGroup, Json, new_app
from semcast.cli.output import Output, table

if TYPE_CHECKING:
    from semcast.runtime.storage.keyring import KeyRing

File: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Path of the key ring file.", show_default="$SEMCAST_KEYS, or the user's key ring"
    ),
]
KeyId: TypeAlias = Annotated[
    str, typer.Argument(metavar="KEY", help="Key id, as printed by `semcast keys list`.")
]

app = new_app(CommandGroup, "Manage the keys that encrypt the traffic between machines.")


@app.callback(epilog="Example: semcast keys new")
def _keys() -> None:
    pass


@app.command(epilog="Example: semcast keys new --cipher chacha20-poly1305")
def new(
    cipher: Annotated[
        str,
        typer.Option(
            help="Cipher: aes-256-gcm, or chacha20-poly1305 for CPUs without AES instructions."
        ),
    ] = "aes-256-gcm",
    file: File = None,
    json: Json = False,
) -> None:
    """Create a key.

    The first key of a ring is active at once; activate later ones with `semcast keys use`.
    """
    from semcast.runtime.storage.keyring import edit, id_text, keys_path, new_key

    key = new_key(cipher)
    path = file or keys_path()
    ring = edit(path, lambda ring: ring.with_key(key))
    _tell(json, path, ring, "created", id_text(key.id))


@app.command("list", epilog="Example: semcast keys list --secret")
def list_keys(
    secret: Annotated[
        bool,
        typer.Option("--secret", help="Also print the secret keys, for `semcast keys add`."),
    ] = False,
    file: File = None,
    json: Json = False,
) -> None:
    """List the keys and mark the active one."""
    from semcast.runtime.storage.keyring import KeyRing, keys_path

    path = file or keys_path()
    ring = KeyRing.load(path)
    rows = _rows(ring, secret)
    output = Output(json)
    output.print_text(*(table(_rows(ring, with_secret=False)) or [f"no keys in {path}"]))
    if secret and rows:  # A line each, never broken, so that it can be copied.
        output.print_text("", *(str(row["key"]) for row in rows), "")
        output.print_text("on the other machine, paste one of these lines into semcast keys add")
    following = "semcast keys add" if secret else "semcast keys list --secret"
    output.next(following if rows else "semcast keys new")
    output.print_json({"file": str(path), "keys": rows})


@app.command(epilog="Example: semcast keys add < key.txt")
def add(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="Secret key, as printed by `semcast keys list --secret`.",
            show_default="standard input",
        ),
    ] = "-",
    file: File = None,
    json: Json = False,
) -> None:
    """Add a key that was created on another machine."""
    from getpass import getpass

    from semcast.runtime.storage.keyring import decode_key, edit, id_text, keys_path

    if key == "-":
        key = getpass("key: ") if sys.stdin.isatty() else sys.stdin.readline()
    found = decode_key(key)
    path = file or keys_path()
    ring = edit(path, lambda ring: ring.with_key(found))
    _tell(json, path, ring, "added", id_text(found.id))


@app.command(epilog="Example: semcast keys use 5f21ac07")
def use(key: KeyId, file: File = None, json: Json = False) -> None:
    """Make this key active.  Running members switch within a second."""
    from semcast.runtime.storage.keyring import edit, keys_path

    path = file or keys_path()
    ring = edit(path, lambda ring: ring.with_active(ring.find(key)))
    _tell(json, path, ring, "active is now", key.lower())


@app.command(epilog="Example: semcast keys remove 5f21ac07")
def remove(key: KeyId, file: File = None, json: Json = False) -> None:
    """Remove a key.  Members then reject traffic that is encrypted with it."""
    from semcast.runtime.storage.keyring import edit, keys_path

    path = file or keys_path()
    ring = edit(path, lambda ring: ring.without_key(ring.find(key)))
    _tell(json, path, ring, "removed", key.lower())


def _tell(json: bool, path: Path, ring: "KeyRing", done: str, key: str) -> None:
    rows = _rows(ring, with_secret=False)
    output = Output(json)
    output.print_text(f"{done} {key} ({path})", *table(rows))
    spare = [f"semcast keys use {row['id']}" for row in rows if not row["active"]]
    listing = "semcast keys list --secret" if rows else "semcast keys new"
    output.next(listing, *(spare[-1:] or ["semcast keys --help"]))
    output.print_json({"id": key, "file": str(path), "keys": rows})


def _rows(ring: "KeyRing", with_secret: bool) -> list[dict[str, object]]:
    from semcast.runtime.storage.keyring import encode_key, id_text

    return [
        {"id": id_text(key.id), "cipher": key.cipher, "active": key == ring.active}
        | ({"key": encode_key(key)} if with_secret else {})
        for key in ring.keys
    ]
