"""What is taken for a report stays as it was, and comparisons become figures."""

import pytest

from studio.core.taken import fidelity_record, take
from tests.studio.synthetic import history, reply
from tests.veloxquant_mlx.report.sample import sample
from veloxquant_mlx.fidelity import ReplyFidelity, SlotFidelity
from veloxquant_mlx.fidelity.replay import TokenFidelity
from veloxquant_mlx.report.schema import validate_report


def token(kl: float, *, same: bool) -> TokenFidelity:
    return TokenFidelity(1, kl, 1, 1, 0.5, 0.5, same, 1, 0.5)


def test_what_comes_later_is_not_in_it() -> None:
    kept = history(((300, 200),), slots=3)
    taken = take(kept, [("user", "Why?")])
    rows, eras = len(taken.columns["tokens"]), str(taken.slot_history)
    for step in reply(500, 100, 50, slots=3):
        kept.append(step)
    assert len(taken.columns["tokens"]) == rows < len(kept)
    assert str(taken.slot_history) == eras
    assert taken.snapshot is not None and taken.snapshot.tokens == 500
    assert taken.said == (("user", "Why?"),)
    assert take(None).snapshot is None and take(None).slot_history is None


def test_comparisons_in_figures() -> None:
    replies = [
        ReplyFidelity(5, 2, (token(0.5, same=True), token(0.25, same=False))),
        ReplyFidelity(9, 1, (token(0.0, same=True),)),
    ]
    slots = [SlotFidelity(0, True, 0.125), SlotFidelity(1, False)]
    found = fidelity_record(replies, slots)
    assert found is not None
    assert found["tokens"] == 3 and found["kl_of_every_token"] == [0.5, 0.25, 0.0]
    assert found["kl_nats_per_token"]["mean"] == pytest.approx(0.25)
    assert found["same_first_choice"] == pytest.approx(2 / 3)
    assert found["slots"] == [{"slot": 0, "attention_error": 0.125}, {"slot": 1, "attention_error": None}]
    validate_report(sample(fidelity=found))
    assert fidelity_record([], slots) is None
