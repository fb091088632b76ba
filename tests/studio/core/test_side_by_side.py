"""The same prompt through several caches: the very replies each would give, with their figures."""

from itertools import pairwise

import pytest

from studio.core.session import Session
from studio.core.side_by_side import Answer, side_by_side
from tests.tiny import tiny_folder
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.models.load import LoadedModel, load_model
from veloxquant_mlx.progress import silent
from veloxquant_mlx.sampling import Sampling

SKVQ = KVCacheConfig("skvq", skvq_window=16, skvq_bits_key=2, skvq_bits_value=2)
PLAIN = KVCacheConfig("plain")
TURNS = (("user", "one two three four five six " * 8),)
SHORT = Sampling(max_tokens=24)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(tiny_folder(tmp_path_factory.mktemp("models") / "tiny"), silent)


def run(loaded: LoadedModel, *configs: KVCacheConfig) -> list[Answer]:
    return list(side_by_side(loaded, TURNS, configs, SHORT))


def test_every_column_is_the_reply_that_cache_gives(loaded: LoadedModel) -> None:
    whole = [answer for answer in run(loaded, PLAIN, SKVQ) if answer.whole]
    assert [(answer.column, answer.config) for answer in whole] == [(0, PLAIN), (1, SKVQ)]
    for answer in whole:
        session = Session(answer.config)
        session.model = loaded
        *_, end = session.reply(TURNS[0][1], sampling=SHORT)
        assert (answer.text, answer.tokens) == (end.text, end.reply_tokens)
        assert answer.counted == end.snapshot.counted.total
        assert answer.resident == end.snapshot.resident_bytes
        assert answer.reference == end.snapshot.reference_bytes


def test_the_uncompressed_column_agrees_with_itself_and_the_other_does_not(loaded: LoadedModel) -> None:
    plain, skvq = (answer.fidelity for answer in run(loaded, PLAIN, SKVQ) if answer.whole)
    assert plain is not None and skvq is not None
    assert plain.mean_kl < 1e-5 and plain.same_top1 == 1
    assert skvq.mean_kl > 100 * plain.mean_kl
    assert len(skvq.tokens) == 24


def test_words_come_as_they_are_written(loaded: LoadedModel) -> None:
    told = run(loaded, SKVQ)
    writing = [answer for answer in told if answer.doing == "Writing"]
    assert [answer.tokens for answer in writing] == list(range(1, 25))
    assert all(later.text.startswith(sooner.text) for sooner, later in pairwise(writing))
    assert any(answer.doing.startswith("Comparing") for answer in told)
    assert told[-1].whole


def test_stopping_ends_without_a_word(loaded: LoadedModel) -> None:
    told: list[Answer] = []
    for answer in side_by_side(loaded, TURNS, [PLAIN, SKVQ], SHORT, stop=lambda: len(told) > 5):
        told.append(answer)
    assert not any(answer.whole for answer in told)
    assert {answer.column for answer in told} == {0}


@pytest.mark.parametrize("configs", [(), (PLAIN,) * 4])
def test_none_and_too_many_are_refused(loaded: LoadedModel, configs: tuple[KVCacheConfig, ...]) -> None:
    with pytest.raises(VeloxQuantError, match="Between 1 and 3"):
        list(side_by_side(loaded, TURNS, configs, SHORT))
