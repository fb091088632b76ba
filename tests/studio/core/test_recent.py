"""Models used last."""

from pathlib import Path

from studio.core.recent import MOST, note_model, recent_models
from studio.core.store import Store


def test_the_last_one_comes_first_and_those_gone_are_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.sqlite")
    assert recent_models(store) == []
    known: list[str] = []
    for name in ("a", "b", "a"):
        (tmp_path / name).mkdir(exist_ok=True)
        known = note_model(store, str(tmp_path / name), known)
    assert recent_models(store) == known == [str(tmp_path / "a"), str(tmp_path / "b")]
    (tmp_path / "a").rmdir()
    assert recent_models(store) == [str(tmp_path / "b")]
    store.close()


def test_the_list_does_not_grow_for_ever(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.sqlite")
    known: list[str] = []
    for number in range(MOST + 3):
        known = note_model(store, f"/{number}", known)
    assert len(known) == MOST and known[0] == f"/{MOST + 2}"
    store.close()


def test_nonsense_in_the_file_is_no_list(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.sqlite")
    store.set_setting("recent models", {"a": 1})
    assert recent_models(store) == []
    store.set_setting("recent models", [1, None, str(tmp_path)])
    assert recent_models(store) == [str(tmp_path)]
    store.close()
