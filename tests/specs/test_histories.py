"""One order of all requests explains what every client saw, or none does."""

from semcast.specs.histories import explains


def step(state, request):
    """A register: ("w", value) answers nothing, ("r",) the value."""
    return (request[1], None) if request[0] == "w" else (state, state)


def write(value):
    return ("w", value), None


def read(value):
    return ("r",), value


def test_an_order_is_found_that_no_clock_tells() -> None:
    """A client may see an old value, as long as it never goes back."""
    histories = {1: [write(1), write(2)], 2: [read(0), read(1), read(1), read(2)]}
    order = explains(histories, (), 0, step)
    assert order is not None
    assert [each for each in order if each[0] == "w"] == [("w", 1), ("w", 2)]


def test_a_client_that_goes_back_is_not_explained() -> None:
    assert explains({1: [write(1)], 2: [read(1), read(0)]}, (), 0, step) is None


def test_a_client_sees_its_own_updates() -> None:
    assert explains({1: [write(1), read(0)]}, (), 0, step) is None


def test_two_clients_see_the_updates_in_one_order() -> None:
    histories = {1: [write(1)], 2: [write(2)], 3: [read(1), read(2)], 4: [read(2), read(1)]}
    assert explains(histories, (), 0, step) is None


def test_what_is_unknown_may_have_happened_or_not() -> None:
    unknown = (("w", 7),)
    assert explains({1: [read(0), read(7)]}, unknown, 0, step) is not None
    assert explains({1: [read(0), read(0)]}, unknown, 0, step) == [("r",), ("r",)]
    assert explains({1: [read(7), read(0)]}, unknown, 0, step) is None
