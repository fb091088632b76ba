"""How many slots a model would have, from its configuration alone."""

import pytest

from tests.tiny import tiny_config
from veloxquant_mlx.errors import ModelError
from veloxquant_mlx.models.slots import read_layout


@pytest.mark.parametrize(
    ("family", "slots"),
    [
        ("llama", (3, 3)),
        ("gemma3", (3, 1)),
        ("gemma3n", (2, 1)),
        ("falcon_h1", (2, 2)),
        ("baichuan_m1", (2, 1)),
        ("deepseek_v32", (2, 0)),
        ("mamba2", (2, 0)),
    ],
)
def test_slots_are_counted_without_weights(family: str, slots: tuple[int, int]) -> None:
    layout = read_layout(tiny_config(family))
    assert (layout.total, layout.kv) == slots


def test_a_model_file_that_ends_the_program_is_only_a_model_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def leave(config: object) -> None:
        print("To run it install something else")
        raise SystemExit(1)

    monkeypatch.setattr("mlx_lm.utils._get_classes", leave)
    with pytest.raises(ModelError, match="Models of type 'llama' are not supported"):
        read_layout(tiny_config("llama"))
    assert capsys.readouterr().out == ""
