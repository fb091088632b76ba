"""Products in parts that are small for BLAS are the whole products."""

from collections.abc import Iterator

import mlx.core as mx
import pytest

from veloxquant_mlx.cache import readers


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A limit that short tests pass."""
    monkeypatch.setattr(readers, "_SMALL_PRODUCT", 4000)
    readers._parts.cache_clear()
    yield
    readers._parts.cache_clear()


@pytest.mark.parametrize("rows", [16, 124, 127, 508, 1000])
def test_they_agree(rows: int) -> None:
    numbers = mx.random.normal((2, 3, rows, 24), key=mx.random.key(1))
    columns = mx.random.normal((2, 3, 24, 3), key=mx.random.key(2))
    weights = mx.random.normal((2, 3, 3, rows), key=mx.random.key(3))
    assert mx.allclose(readers.in_parts(numbers, columns), numbers @ columns, atol=1e-4).item()
    assert mx.allclose(readers.summed_in_parts(weights, numbers), weights @ numbers, atol=1e-4).item()


@pytest.mark.parametrize(
    ("rows", "parts"),
    [(55, 1), (56, 2), (124, 4), (127, 1), (508, 1), (1000, 20), (1024, 32)],
)
def test_parts_are_equal_and_never_tiny(rows: int, parts: int) -> None:
    assert readers._parts(rows, 72) == parts
