"""The table of tokens and slots, against the history it was made from."""

import csv
import io

import pytest

from studio.core.history import History
from tests.studio.synthetic import history
from tests.veloxquant_mlx.report.sample import FOREIGN, sample
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.report.rows import csv_text, slot_rows
from veloxquant_mlx.telemetry import BYTE_KINDS


def test_every_row_is_the_history_s_own_moment() -> None:
    kept = history(((300, 200), (100, 150)), slots=4, foreign=FOREIGN)
    rows = list(slot_rows(sample(kept)))
    tokens = kept.columns()["tokens"].tolist()
    assert len(rows) == 4 * len(tokens)
    by_place = {(row["tokens"], row["slot"]): row for row in rows}
    for at in tokens:
        moment = kept.moment(at)
        assert moment is not None
        for layer in moment.layers:
            row = by_place[at, layer.slot]
            counted = {kind: row[f"{kind}_bytes_counted"] for kind in BYTE_KINDS}
            assert counted == layer.counted.as_dict()
            assert row["resident_bytes_measured"] == layer.resident_bytes
            assert row["bytes_at_16_bits_counted"] == layer.reference_bytes
            assert row["replaced"] == layer.replaced
            assert row.get("gauge_frontier") == layer.gauges.get("frontier")


def test_the_table_has_a_head_and_leaves_the_unknown_empty() -> None:
    read = list(csv.DictReader(io.StringIO(csv_text(sample()))))
    assert read[0]["tokens"] == "0" and {row["slot"] for row in read} == {"0", "1", "2", "3"}
    assert {row["gauge_frontier"] for row in read if row["slot"] == "1"} == {""}
    assert "" not in {row["gauge_frontier"] for row in read if row["slot"] == "0"}


def test_rows_that_a_long_history_gave_up_are_left_out() -> None:
    report = sample()
    tokens = report["history"]["tokens"]
    report["slot_history"]["gaps"] = [[tokens[2], tokens[5]]]
    assert {row["tokens"] for row in slot_rows(report)} == {*tokens[:2], *tokens[5:]}


def test_without_slots_there_is_no_table() -> None:
    with pytest.raises(VeloxQuantError, match="no history per slot"):
        csv_text(sample(slot_history=None))
    assert list(slot_rows(sample(History(), snapshot=None))) == []
