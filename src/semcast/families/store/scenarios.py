"""Named cases, each built to provoke one kind of mistake; the correct store passes them all."""

from semcast.families.store.draw import StoreCase

SCENARIOS: dict[str, StoreCase] = {}
