"""What is said before a prompt that memory seems too small for."""

import pytest

from studio.core.manners import Excess, excess, weigh
from tests.tiny import tiny_folder
from veloxquant_mlx.config import KVCacheConfig, methods
from veloxquant_mlx.models.load import LoadedModel, load_model
from veloxquant_mlx.planning import Machine, MemoryPlan

PLAIN, SKVQ = KVCacheConfig("plain"), KVCacheConfig("skvq")
TOKENS = 4000


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    # Deep enough that what a cache saves outweighs the rows that are decoded for one layer.
    return load_model(tiny_folder(tmp_path_factory.mktemp("m") / "tiny", num_hidden_layers=24))


def need(loaded: LoadedModel, config: KVCacheConfig) -> int:
    from mlx.utils import tree_flatten

    weights = sum(array.nbytes for _, array in tree_flatten(loaded.model.parameters()))
    found = MemoryPlan.of(loaded.info, Machine(1, "", False), weights).need(config, TOKENS)
    assert found is not None
    return found.total


def ask(loaded: LoadedModel, config: KVCacheConfig, memory: int, limit: float = 1.0) -> Excess | None:
    machine = Machine(round(memory / limit), "as given", False)
    return excess(loaded, config, TOKENS, limit, methods(), machine)


def test_what_fits_is_not_talked_about(loaded: LoadedModel) -> None:
    assert ask(loaded, PLAIN, need(loaded, PLAIN)) is None
    assert ask(loaded, PLAIN, need(loaded, PLAIN) + 2, 0.5) is None


def test_a_byte_above_the_limit_is(loaded: LoadedModel) -> None:
    found = ask(loaded, PLAIN, need(loaded, PLAIN) - 1000)
    assert found is not None and found.need == need(loaded, PLAIN)
    assert 0 < found.longest < TOKENS and "4,000 tokens" in found.sentence and "predicted" in found.sentence
    assert "a conversation of about " in found.instead


def test_the_setting_offered_fits_and_saves_no_more_than_it_must(loaded: LoadedModel) -> None:
    memory = need(loaded, PLAIN) - 1000
    found = ask(loaded, PLAIN, memory)
    assert found is not None and found.smaller is not None
    assert found.smaller_need == need(loaded, found.smaller) <= memory
    every = [method.preset(name) for method in methods().values() for name in method.presets]
    fitting = [need(loaded, config) for config in every if need(loaded, config) <= memory]
    assert found.smaller_need == max(fitting) and found.smaller_name in found.instead


def test_where_nothing_fits_it_says_so(loaded: LoadedModel) -> None:
    found = ask(loaded, SKVQ, 1000)
    assert found is not None and found.smaller is None and found.longest == 0
    assert found.instead == "No setting would make it fit: choose a smaller model."


def test_a_conversation_is_weighed_only_with_a_limit(loaded: LoadedModel) -> None:
    assert weigh(loaded, SKVQ, 9, 0.0) is None
    assert weigh(loaded, SKVQ, 9, 0.85) is None
    beyond = weigh(loaded, SKVQ, 9, 1e-9)
    assert beyond is not None and beyond.tokens == 9
