import numpy as np
import pytest

from studio.core.history import History
from tests.studio.synthetic import history, reply, snapshot
from veloxquant_mlx.steps import PrefillStep, TokenStep
from veloxquant_mlx.telemetry import BYTE_KINDS


def test_an_empty_history_has_columns_without_rows() -> None:
    kept = History()
    columns = kept.columns()
    assert set(columns) == {*BYTE_KINDS, "tokens", "resident", "reference", "active_memory", "frontier"}
    assert all(len(column) == 0 for column in columns.values())
    assert kept.snapshot is None and kept.turn_marks == () and len(kept) == 0


def test_every_row_holds_the_sums_of_its_snapshot() -> None:
    kept = History()
    for step in reply(0, 700, 80, slots=5, foreign=frozenset({1, 3})):
        kept.append(step)
    columns = kept.columns()
    for row in (0, 1, 2, 30, len(kept) - 1):
        shown = snapshot(int(columns["tokens"][row]), 5, foreign=frozenset({1, 3}))
        assert {kind: int(columns[kind][row]) for kind in BYTE_KINDS} == shown.counted.as_dict()
        assert columns["resident"][row] == shown.resident_bytes
        assert columns["reference"][row] == shown.reference_bytes
        assert columns["active_memory"][row] == shown.active_memory
        assert columns["frontier"][row] == shown.gauge("frontier")
    assert kept.snapshot == shown


def test_tokens_rise_strictly_and_the_last_step_adds_no_row() -> None:
    kept = history(((300, 50), (40, 60)))
    tokens = kept.columns()["tokens"]
    assert np.all(np.diff(tokens.astype(np.int64)) > 0)
    assert tokens[-1] == 450


def test_columns_grow_past_their_first_room_and_stay_plain_numbers() -> None:
    kept = history(((10, 5000),), slots=1)
    columns = kept.columns()
    assert len(columns["tokens"]) == 5002
    assert columns["tokens"].dtype == np.uint32 and columns["codes"].dtype == np.uint64
    assert columns["frontier"].dtype == np.float32
    assert int(columns["codes"][-1]) == snapshot(5010, 1).counted.codes


def test_views_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        history().columns()["tokens"][0] = 7


def test_views_do_not_keep_the_history_from_growing() -> None:
    kept = history()
    kept.columns()
    kept.append(TokenStep("a", 1, 201, snapshot(501)))
    assert kept.columns()["tokens"][-1] == 501


def test_a_bytes_figure_beyond_32_bits_is_exact() -> None:
    kept = History()
    big = snapshot(400_000, 64, heads=32, dim=128)
    kept.append(TokenStep("a", 1, 1, big))
    assert big.reference_bytes > 2**32
    assert int(kept.columns()["reference"][0]) == big.reference_bytes


def test_turn_marks_are_where_replies_began() -> None:
    assert history(((300, 50), (40, 60))).turn_marks == (300, 390)


def test_a_prefill_from_zero_starts_over_even_when_its_first_chunk_is_longer_than_all_before() -> None:
    kept = history(((100, 20),), bits=(2, 2))
    for step in reply(0, 900, 10, bits=(4, 4)):
        if not (isinstance(step, PrefillStep) and step.done == 0):
            kept.append(step)
    columns = kept.columns()
    assert columns["tokens"][:2].tolist() == [0, 512]
    assert int(columns["codes"][1]) == snapshot(512, bits=(4, 4)).counted.codes
    assert kept.turn_marks == (900,)


def test_a_prefill_on_top_of_kept_tokens_keeps_their_rows() -> None:
    kept = history(((100, 20),))
    before = kept.columns()["tokens"].tolist()
    for step in reply(120, 30, 5):
        kept.append(step)
    assert kept.columns()["tokens"].tolist() == [*before, 150, 151, 152, 153, 154, 155]
    assert kept.turn_marks == (100, 150)


def test_a_rewound_cache_drops_the_rows_and_marks_beyond() -> None:
    kept = history(((100, 20), (30, 10)))
    for step in reply(120, 5, 2):
        kept.append(step)
    assert kept.columns()["tokens"].tolist()[-4:] == [120, 125, 126, 127]
    assert kept.turn_marks == (100, 125)


def test_a_smaller_snapshot_without_a_prefill_truncates() -> None:
    kept = history(((100, 20),))
    kept.append(TokenStep("a", 1, 7, snapshot(110)))
    assert kept.columns()["tokens"][-1] == 110
    assert kept.snapshot is not None and kept.snapshot.tokens == 110


def test_a_slot_list_without_a_frontier_is_not_zero() -> None:
    kept = history(slots=2, foreign=frozenset({0, 1}))
    assert np.isnan(kept.columns()["frontier"]).all()


def test_clear_forgets_and_is_noticed() -> None:
    kept = history()
    seen = kept.version
    kept.clear()
    assert len(kept) == 0 and kept.snapshot is None and kept.turn_marks == () and kept.version > seen
