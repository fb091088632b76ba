"""Products in parts that are small for BLAS are the whole products; shifted halves are the numbers."""

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


def test_halves_multiply_as_the_numbers_they_are() -> None:
    values = mx.random.normal((1, 2, 300, 64), key=mx.random.key(4)).astype(mx.float16)
    values[0, 0, 0, :6] = mx.array([65504.0, -65504.0, 0.0, -0.0, 6e-8, -6.1e-5], mx.float16)
    weights = mx.random.uniform(shape=(1, 2, 3, 300), key=mx.random.key(5))
    halves, exact = readers.HalfReader(values), values.astype(mx.float32)
    assert mx.array_equal(halves._shrunk() * 2.0**112, exact).item()
    assert mx.allclose(halves.weighted(weights), weights @ exact, rtol=1e-5, atol=1e-3).item()
    assert mx.allclose(halves.scores(exact[:, :, :3]), exact[:, :, :3] @ exact.swapaxes(-1, -2)).item()
