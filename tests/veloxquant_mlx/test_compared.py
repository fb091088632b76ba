"""Plain numbers of a comparison."""

from veloxquant_mlx.compared import front


def test_the_front_is_what_nothing_beats_in_both() -> None:
    points = [(10, 0.5), (40, 0.1), (30, 0.2), (20, 0.6), (30, 0.1)]
    assert front(points, lambda point: point) == [(10, 0.5), (30, 0.1)]
    assert front([], lambda point: point) == []
    assert front([3, 1, 2, 1], lambda n: (n, -n)) == [1, 2, 3]
