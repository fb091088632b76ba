"""Two builds are compared file by file."""

import again


def test_every_difference_is_named_by_its_place() -> None:
    first = "aa 1 same\nbb 2 with space.txt\nlink x l\ncc 3 gone\n"
    second = "aa 1 same\nbd 2 with space.txt\nlink y l\ndd 4 new\n"
    assert again.differing(first, first) == []
    assert again.differing(first, second) == ["gone", "l", "new", "with space.txt"]
