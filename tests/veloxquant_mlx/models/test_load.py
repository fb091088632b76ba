"""Loading: what computes, what is refused, what is given back."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gguf_writer import tiny_gguf
from tests.tiny import tiny_folder, tiny_model
from veloxquant_mlx.errors import Cancelled, ModelError
from veloxquant_mlx.models import compute
from veloxquant_mlx.models.load import fingerprint, load_model, release_memory


def _on_cpu() -> bool:
    import mlx.core as mx

    return bool(mx.default_device() == mx.cpu)


cpu_only = pytest.mark.skipif(not _on_cpu(), reason="the policy for CPUs")


def test_loaded_model_computes_what_was_saved(tmp_path: Path) -> None:
    import mlx.core as mx

    loaded = load_model(tiny_folder(tmp_path / "m"))
    tokens = mx.array([loaded.tokenizer.encode("the inner thing")])
    assert mx.allclose(loaded.model(tokens), tiny_model()(tokens), rtol=1e-4, atol=1e-5).item()
    assert loaded.context == 4096
    assert loaded.config["model_type"] == "llama"


def test_loading_leaves_no_draws_of_random_numbers_behind(tmp_path: Path) -> None:
    """Whose chain would grow with every model that is loaded."""
    import mlx.core as mx
    import mlx.nn as nn

    def chain() -> int:
        told = io.StringIO()
        mx.export_to_dot(told, mx.random.state[0])
        return len(told.getvalue())

    mx.eval(list(mx.random.state))
    short = chain()
    nn.Linear(4, 4)
    assert chain() > short
    load_model(tiny_folder(tmp_path / "m"))
    assert chain() == short


@cpu_only
def test_cpu_unpacks_exactly(tmp_path: Path) -> None:
    import mlx.core as mx
    import mlx.nn as nn

    folder = tiny_folder(tmp_path / "m", bits=4)
    weights = {
        name: value.astype(mx.float16) if value.dtype == mx.float32 else value
        for name, value in mx.load(str(folder / "model.safetensors")).items()
    }
    mx.eval(weights)
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    loaded = load_model(folder)
    assert loaded.compute == "CPU float32"
    layer = loaded.model.model.layers[1].mlp.up_proj
    assert type(layer) is nn.Linear
    stem = "model.layers.1.mlp.up_proj"
    scales, biases = (weights[f"{stem}.{k}"].astype(mx.float32) for k in ("scales", "biases"))
    exact = mx.dequantize(weights[f"{stem}.weight"], scales, biases, 32, 4)
    assert layer.weight.dtype == mx.float32
    assert mx.array_equal(layer.weight, exact).item()


@cpu_only
def test_packed_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx
    import mlx.nn as nn

    folder = tiny_folder(tmp_path / "m", bits=4)
    unpacked = load_model(folder)
    parameters = unpacked.info.parameters or 0
    monkeypatch.setattr(compute, "free_memory", lambda: parameters * 4 + compute.MARGIN - 1)
    packed = load_model(folder)
    assert "stay packed" in packed.compute
    assert type(packed.model.model.layers[0].mlp.up_proj) is nn.QuantizedLinear
    tokens = mx.array([[1, 2, 3]])
    assert mx.allclose(packed.model(tokens), unpacked.model(tokens), rtol=1e-3, atol=1e-3).item()
    monkeypatch.setattr(compute, "free_memory", lambda: 1000)
    with pytest.raises(ModelError, match="close other programs"):
        load_model(folder)


@pytest.mark.parametrize("bits", [None, 4])
def test_unload_gives_memory_back(bits: int | None, tmp_path: Path) -> None:
    import mlx.core as mx

    folder = tiny_folder(tmp_path / "m", bits=bits, hidden_size=512, intermediate_size=2048)
    release_memory()
    before = mx.get_active_memory()
    loaded = load_model(folder)
    mx.eval(loaded.model(mx.array([[1, 2, 3]])))
    assert mx.get_active_memory() - before > 20e6
    del loaded
    release_memory()
    assert mx.get_active_memory() - before < 2e6
    assert mx.get_cache_memory() == 0


def test_the_processor_computes_where_it_is_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx

    chosen: list[Any] = []
    monkeypatch.setattr(mx, "set_default_device", chosen.append)
    folder = tiny_folder(tmp_path / "model")
    load_model(folder)
    assert chosen == []
    monkeypatch.setenv(compute.DEVICE, "cpu")
    load_model(folder)
    assert chosen == [mx.cpu]


def test_cancel_gives_memory_back(tmp_path: Path) -> None:
    import mlx.core as mx

    folder = tiny_folder(tmp_path / "m", hidden_size=512, intermediate_size=2048)
    release_memory()
    before = mx.get_active_memory()

    def progress(fraction: float | None, words: str) -> None:
        if fraction is not None and fraction > 0.7:
            raise Cancelled

    with pytest.raises(Cancelled):
        load_model(folder, progress)
    release_memory()
    assert mx.get_active_memory() - before < 2e6


def test_progress_counts_to_one(tmp_path: Path) -> None:
    seen: list[float] = []
    folder = tiny_folder(tmp_path / "m")
    load_model(folder, lambda fraction, words: None if fraction is None else seen.append(fraction))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert len(seen) > 10


def test_base_model_without_chat_template(tmp_path: Path) -> None:
    loaded = load_model(tiny_folder(tmp_path / "m", chat_template=None))
    assert loaded.tokenizer.chat_template is None
    assert loaded.tokenizer.decode(loaded.tokenizer.encode("the end")) == "the end"


def test_damaged_tokenizer(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    for text in ("{", "{}", '{"model": {"type": "BPE"}}'):
        (folder / "tokenizer.json").write_text(text)
        with pytest.raises(ModelError, match=r"tokenizer of m is damaged") as caught:
            load_model(folder)
        assert caught.value.__cause__ is not None


def test_weights_that_do_not_fit_the_configuration(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    for changes in ({"hidden_size": 128}, {"num_hidden_layers": 4}, {"num_hidden_layers": 2}):
        (folder / "config.json").write_text(json.dumps(config | changes))
        with pytest.raises(ModelError, match="m can't be loaded") as caught:
            load_model(folder)
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__ is not None


def test_gguf_has_to_be_imported_first(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="import it first"):
        load_model(tiny_gguf(tmp_path / "tiny.gguf"))


def test_fingerprint_changes_with_what_matters(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    first = fingerprint(folder)
    assert fingerprint(tiny_folder(tmp_path / "copy")) == first
    assert load_model(folder).fingerprint == first
    assert fingerprint(tiny_folder(tmp_path / "q", bits=4)) != first
    assert fingerprint(tiny_folder(tmp_path / "r", rope_theta=5000.0)) != first


def test_loading_opens_no_connection(tmp_path: Path) -> None:
    code = """
import socket, sys
def refuse(*args, **kwargs):
    raise SystemExit("touched the network")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from pathlib import Path
from veloxquant_mlx.models.load import load_model
print(load_model(Path(sys.argv[1])).compute)
"""
    import os

    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_"))}
    folder = tiny_folder(tmp_path / "m")
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
