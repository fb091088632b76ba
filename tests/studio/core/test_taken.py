"""What is taken for a report stays as it was, and comparisons become figures."""

import pytest

from studio.core.compared import KeptComparison, ReplyComparison
from studio.core.taken import fidelity_record, take
from tests.studio.synthetic import history, reply
from tests.veloxquant_mlx.report.sample import sample
from veloxquant_mlx.compared import ReplyFidelity, SlotFidelity, TokenFidelity
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.report.content import document
from veloxquant_mlx.report.render import html
from veloxquant_mlx.report.schema import validate_report
from veloxquant_mlx.spelling import spell_method


def token(kl: float, *, same: bool) -> TokenFidelity:
    return TokenFidelity(1, kl, 1, 1, 0.5, 0.5, same, 1, 0.5)


def comparison(fidelity: ReplyFidelity, config: KVCacheConfig) -> ReplyComparison:
    texts = ("",) * len(fidelity.tokens)
    return ReplyComparison(1, 0, tuple(range(len(texts))), config, texts, texts, fidelity)


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
    small = KVCacheConfig("skvq", skvq_bits_key=4)
    first = KeptComparison(
        (comparison(ReplyFidelity(5, 2, (token(0.5, same=True), token(0.25, same=False))), small),),
        small,
        (SlotFidelity(0, True, 0.125), SlotFidelity(1, False)),
    )
    second = KeptComparison(
        (comparison(ReplyFidelity(9, 1, (token(0.0, same=True),)), KVCacheConfig("skvq")),)
    )
    found = fidelity_record([first, second])
    assert found is not None
    assert found["tokens"] == 3 and found["kl_of_every_token"] == [0.5, 0.25, 0.0]
    assert found["kl_nats_per_token"]["mean"] == pytest.approx(0.25)
    assert found["same_first_choice"] == pytest.approx(2 / 3)
    assert found["slots"] == [{"slot": 0, "attention_error": 0.125}, {"slot": 1, "attention_error": None}]
    spelled = [spell_method(small), spell_method(KVCacheConfig("skvq"))]
    assert (found["through"], found["slots_through"]) == (spelled, spelled[0])
    report = sample(fidelity=found)
    validate_report(report)
    page = html(document(report))
    assert ", then ".join(spelled) in page and f"hands on under {spelled[0]}" in page
    assert fidelity_record([]) is None
