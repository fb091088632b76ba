import pytest

from studio.core.flush import exact_tokens, waiting_words
from veloxquant_mlx.config import KVCacheConfig


@pytest.mark.parametrize(
    ("values", "tokens"),
    [({"skvq_window": 128}, 128), ({"skvq_window": 64, "skvq_recent": 64}, 128), ({"skvq_window": 16}, 16)],
)
def test_the_first_flush_is_where_the_frontier_first_moves(values: dict[str, int], tokens: int) -> None:
    config = KVCacheConfig(method="skvq", **values)
    assert exact_tokens(config) == tokens
    assert waiting_words(config) == f"The first {tokens} tokens stay exact"


def test_a_method_that_never_compresses_says_so() -> None:
    config = KVCacheConfig(method="plain")
    assert exact_tokens(config) is None
    assert waiting_words(config) == f"{config.label} keeps every token as the model wrote it"
