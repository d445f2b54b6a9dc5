"""Annotators against the sentences they implement, computed the slow way."""

from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.core.recipe import Recipe
from semcast.core.relation import make_annotator
from semcast.terms.messages import Update


@st.composite
def declarations(draw, k_max=300):
    """A horizon k, and for each message the distances it declares obsolete."""
    k = draw(st.integers(1, k_max))
    length = draw(st.integers(1, 40))
    rows = []
    for seq in range(1, length + 1):
        reach = min(k, seq - 1)
        rows.append(draw(st.sets(st.integers(1, reach), max_size=3)) if reach else set())
    return k, rows


def annotations(recipe, updates):
    made = make_annotator(recipe)
    rows = []
    for seq, update in enumerate(updates, start=1):
        rows.append(made.annotate(seq, update.item, update))
        made.remember(seq, rows[-1])
    return rows


def updates(rows):
    return [Update(obsoletes=tuple(seq - n for n in row)) for seq, row in enumerate(rows, start=1)]


def closed(rows, k):
    """The closure, by definition, over annotations that each reach back at most k."""
    closure = {}
    for seq, row in enumerate(rows, start=1):
        reached = {seq - n for n in row}
        for older in list(reached):
            reached |= {oldest for oldest in closure[older] if seq - oldest <= k}
        closure[seq] = reached
    return closure


def unbounded(rows):
    """The closure of what was declared, with no horizon."""
    return closed(rows, len(rows) + 1)


@given(declarations())
def test_bitmaps_are_closed_up_to_k(case):
    k, rows = case
    recipe = Recipe(members=1, relation="bitmap", k=k)
    closure, whole = closed(rows, k), unbounded(rows)
    for seq, (_, covers, _) in enumerate(annotations(recipe, updates(rows)), start=1):
        bits = int.from_bytes(covers, "little")
        named = {seq - n for n in range(1, k + 1) if bits >> (n - 1) & 1}
        assert bits >> k == 0
        assert named == closure[seq]
        assert named <= whole[seq]  # never more than what was declared
        if k >= len(rows):
            assert named == whole[seq]


@given(declarations())
def test_lists_are_closed(case):
    _, rows = case
    whole = unbounded(rows)
    made = annotations(Recipe(members=1, relation="list"), updates(rows))
    for seq, (_, covers, _) in enumerate(made, start=1):
        assert {seq - n for n in covers} == whole[seq]
        assert list(covers) == sorted(set(covers))


@given(st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=1, max_size=40))
def test_a_fin_covers_earlier_requests_updates_of_its_own_items(items):
    """None is a fin.  Covered are exactly the updates that no earlier fin covered."""
    made = annotations(
        Recipe(members=1, relation="update-fin"), [Update(item=item) for item in items]
    )
    covered = set()
    start = 1  # where the current request began
    for seq, (item, (_, covers, _)) in enumerate(zip(items, made, strict=True), start=1):
        if item is not None:
            assert covers == ()
            continue
        touched = {items[s - 1] for s in range(start, seq)} - {None}
        expected = {s for s in range(1, start) if items[s - 1] in touched} - covered
        assert {seq - n for n in covers} == expected
        covered |= expected
        start = seq + 1


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.sampled_from([None, 1, 2]), st.booleans()), max_size=60),
)
@settings(max_examples=60)
def test_no_chain_is_longer_than_its_limit(limit, stream):
    """Between two kept messages of an item at most `limit` supersede; none is kept too soon."""
    made = annotations(
        Recipe(members=1, chain_limit=limit),
        [Update(item=item, never_purge=keep) for item, keep in stream],
    )
    for item in (1, 2):
        since, first = 0, True
        for (tag, asked), (_, _, kept) in zip(stream, made, strict=True):
            if tag != item:
                continue
            assert kept == (asked or since == limit)
            since = 0 if kept or first else since + 1
            first = False
    assert all(
        kept == asked for (tag, asked), (*_, kept) in zip(stream, made, strict=True) if tag is None
    )
