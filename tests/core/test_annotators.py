"""What the application declares becomes what a message carries; the impossible is an error."""

import pytest

from semcast.core.recipe import Recipe
from semcast.core.relation import listed, make_annotator, protocols
from semcast.terms.errors import LocalProtocolError
from semcast.terms.messages import Update


def annotated(recipe, *updates):
    """The annotations of a stream: item, covers, keep."""
    made = make_annotator(recipe)
    rows = []
    for seq, update in enumerate(updates, start=1):
        rows.append(made.annotate(seq, update.item, update))
        made.remember(seq, rows[-1])
    return rows


def bits(*distances):
    """A bitmap whose n-th bit, counted from 1, names the n-th preceding message [SRM §3.2]."""
    return sum(1 << (n - 1) for n in distances)


def bitmap(annotation):
    return int.from_bytes(annotation[1], "little")


def covering(*obsoletes):
    return Update(obsoletes=obsoletes)


@pytest.mark.parametrize("relation", ["item", "all", "none"])
def test_tags_travel_as_they_are(relation):
    rows = annotated(Recipe(members=1, relation=relation), Update(item=7), Update(never_purge=True))
    assert rows == [(7, b"", False), (None, b"", True)]


@pytest.mark.parametrize("relation", ["item", "all", "none", "update-fin"])
def test_a_list_means_nothing_to_a_relation_that_is_computed(relation):
    with pytest.raises(LocalProtocolError, match=f"not allowed with relation {relation}"):
        annotated(Recipe(members=1, relation=relation), Update(), covering(1))


def test_a_chain_limit_refuses_lists_too():
    with pytest.raises(LocalProtocolError, match="not allowed with relation"):
        annotated(Recipe(members=1, chain_limit=1), Update(), covering(1))


@pytest.mark.parametrize("relation", ["bitmap", "list"])
class TestImpossible:
    """A message that obsoletes itself, a later one, or none at all is an error at the call."""

    @pytest.mark.parametrize("obsolete", [2, 3, 99])
    def test_the_same_or_a_later_message(self, relation, obsolete):
        with pytest.raises(LocalProtocolError, match=f"message 2 can only .*, not {obsolete}"):
            annotated(Recipe(members=1, relation=relation), Update(), covering(obsolete))

    @pytest.mark.parametrize("obsolete", [0, -1])
    def test_a_message_before_the_first(self, relation, obsolete):
        with pytest.raises(LocalProtocolError, match="they start at 1"):
            annotated(Recipe(members=1, relation=relation), Update(), covering(obsolete))

    def test_the_refused_call_leaves_no_mark(self, relation):
        made = make_annotator(Recipe(members=1, relation=relation))
        made.remember(1, made.annotate(1, None, Update()))
        with pytest.raises(LocalProtocolError):
            made.annotate(2, None, covering(1, 2))
        assert len(made.annotate(2, None, Update())[1]) == 0


class TestBitmap:
    def test_bit_n_names_the_nth_preceding_message(self):
        rows = annotated(Recipe(members=1, relation="bitmap"), *[Update()] * 9, covering(9, 7, 1))
        assert bitmap(rows[-1]) == bits(1, 3, 9)

    def test_no_bits_take_no_bytes_and_nine_take_two(self):
        rows = annotated(Recipe(members=1, relation="bitmap"), *[Update()] * 9, covering(1))
        assert rows[0][1] == b""
        assert len(rows[-1][1]) == 2

    def test_closure_by_shift_and_or(self):
        """3 obsoletes 2 obsoletes 1, and 5 obsoletes 3 and 4: hence all of them."""
        rows = annotated(
            Recipe(members=1, relation="bitmap"),
            Update(),
            covering(1),
            covering(2),
            Update(),
            covering(3, 4),
        )
        assert [bitmap(row) for row in rows] == [0, bits(1), bits(1, 2), 0, bits(1, 2, 3, 4)]

    def test_the_closure_ends_at_k(self):
        rows = annotated(
            Recipe(members=1, relation="bitmap", k=2),
            Update(),
            covering(1),
            covering(2),
            covering(3),
        )
        assert [bitmap(row) for row in rows] == [0, bits(1), bits(1, 2), bits(1, 2)]

    @pytest.mark.parametrize("k", [1, 63, 64, 300])
    def test_distance_k_is_allowed_and_beyond_is_an_error(self, k):
        recipe = Recipe(members=1, relation="bitmap", k=k)
        *_, last = annotated(recipe, *[Update()] * k, covering(1))
        assert bitmap(last) == bits(k)
        with pytest.raises(
            LocalProtocolError, match=f"message 1 is {k + 1} messages back; .* k = {k}"
        ):
            annotated(recipe, *[Update()] * (k + 1), covering(1))

    def test_what_is_remembered_is_k_bitmaps(self):
        made = make_annotator(Recipe(members=1, relation="bitmap", k=5))
        for seq in range(1, 100):
            made.remember(seq, made.annotate(seq, None, Update()))
        assert len(made.recent) == 5


class TestList:
    def test_distances_sorted_and_closed(self):
        rows = annotated(
            Recipe(members=1, relation="list"),
            Update(),
            covering(1),
            Update(),
            covering(3, 2),
        )
        assert rows[-1][1] == (1, 2, 3)

    def test_a_list_has_no_horizon(self):
        far = listed.LISTS_REMEMBERED * 3
        *_, last = annotated(
            Recipe(members=1, relation="list"), *[Update()] * far, covering(1, far)
        )
        assert last[1] == (1, far)

    def test_the_closure_reaches_as_far_as_lists_are_remembered(self):
        """A chain longer than that is closed in part; what was remembered stays bounded."""
        made = make_annotator(Recipe(members=1, relation="list"))
        length = listed.LISTS_REMEMBERED + 5
        for seq in range(1, length + 1):
            row = made.annotate(seq, None, covering(seq - 1) if seq > 1 else Update())
            made.remember(seq, row)
        assert row[1] == tuple(range(1, listed.LISTS_REMEMBERED + 1))
        assert len(made.recent) == listed.LISTS_REMEMBERED


class TestUpdateFin:
    """[SVS §5.2]: only a fin supersedes, and only earlier requests' updates of its own items."""

    recipe = Recipe(members=1, relation="update-fin")
    fin = Update()

    @staticmethod
    def update(item):
        return Update(item=item)

    def test_an_update_alone_supersedes_nothing(self):
        rows = annotated(self.recipe, self.update(1), self.fin, self.update(1))
        assert rows[-1] == (1, (), False)

    def test_a_fin_supersedes_the_earlier_requests_update(self):
        rows = annotated(self.recipe, self.update(1), self.fin, self.update(1), self.fin)
        assert [covers for _, covers, _ in rows] == [(), (), (), (3,)]

    def test_a_fin_never_supersedes_its_own_updates(self):
        rows = annotated(self.recipe, self.update(1), self.update(1), self.fin)
        assert rows[-1][1] == ()

    def test_a_fin_leaves_other_items_alone(self):
        rows = annotated(
            self.recipe, self.update(1), self.update(2), self.fin, self.update(2), self.fin
        )
        assert rows[-1][1] == (3,)

    def test_several_updates_of_one_request_go_together(self):
        rows = annotated(
            self.recipe, self.update(1), self.update(1), self.fin, self.update(1), self.fin
        )
        assert rows[-1][1] == (3, 4)

    def test_what_was_superseded_once_is_not_named_again(self):
        rows = annotated(self.recipe, *[self.update(1), self.fin] * 3)
        assert rows[-1][1] == (3,)

    def test_never_purge_is_carried(self):
        rows = annotated(self.recipe, Update(item=1, never_purge=True), self.fin)
        assert [keep for *_, keep in rows] == [True, False]

    def test_remembered_items_are_bounded(self, monkeypatch):
        monkeypatch.setattr(protocols, "ITEMS_REMEMBERED", 3)
        made = make_annotator(self.recipe)
        for seq in range(1, 41):
            item = None if seq % 2 == 0 else seq
            made.remember(seq, made.annotate(seq, item, Update()))
        assert len(made.closed) == 3
        assert not made.open


class TestChainLimit:
    """After L superseding messages the next may not be purged [SRB §2.1]."""

    @pytest.mark.parametrize(
        ("limit", "kept"), [(1, [3, 5, 7, 9]), (2, [4, 7, 10]), (3, [5, 9]), (100, [])]
    )
    def test_the_next_is_kept(self, limit, kept):
        rows = annotated(Recipe(members=1, chain_limit=limit), *[Update(item=1)] * 10)
        assert [seq for seq, (*_, keep) in enumerate(rows, start=1) if keep] == kept

    def test_chains_of_items_are_apart(self):
        rows = annotated(
            Recipe(members=1, chain_limit=1), *(Update(item=i) for i in (1, 2, 1, 2, 1, 2))
        )
        assert [keep for *_, keep in rows] == [False] * 4 + [True] * 2

    def test_a_message_without_an_item_is_in_no_chain(self):
        rows = annotated(Recipe(members=1, chain_limit=1), *[Update()] * 9)
        assert not any(keep for *_, keep in rows)

    def test_never_purge_starts_a_chain_anew(self):
        rows = annotated(
            Recipe(members=1, chain_limit=1),
            Update(item=1),
            Update(item=1),
            Update(item=1, never_purge=True),
            Update(item=1),
            Update(item=1),
        )
        assert [keep for *_, keep in rows] == [False, False, True, False, True]

    def test_a_forgotten_count_can_only_shorten_a_chain(self, monkeypatch):
        monkeypatch.setattr(protocols, "ITEMS_REMEMBERED", 2)
        made = make_annotator(Recipe(members=1, chain_limit=5))
        keeps = []
        for seq, item in enumerate([1, 2, 3, 1], start=1):
            row = made.annotate(seq, item, Update())
            made.remember(seq, row)
            keeps.append(row[2])
        assert keeps == [False, False, False, True]
        assert len(made.chain) == 2
