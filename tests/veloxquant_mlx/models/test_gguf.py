"""Importing GGUF files: what comes out computes the same, what can't come out leaves nothing."""

import errno
import json
import os
import shutil
import struct
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from tests.gguf_writer import model_metadata, model_tensors, tiny_gguf, write_gguf
from tests.tiny import VOCABULARY, tiny_config, tiny_model
from veloxquant_mlx import paths
from veloxquant_mlx.errors import Cancelled, ModelError
from veloxquant_mlx.models.find import describe
from veloxquant_mlx.models.gguf import import_gguf, read_header
from veloxquant_mlx.models.gguf_config import llama3_factors
from veloxquant_mlx.models.load import load_model


def _everything_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_imported_model_computes_what_the_original_does(family: str, tmp_path: Path) -> None:
    import mlx.core as mx

    folder = import_gguf(tiny_gguf(tmp_path / "tiny.gguf", family))
    assert folder == paths.models_dir() / "tiny"
    tokens = mx.array([[5, 100, 7, 33, 250, 12, 12, 90]])
    expected = tiny_model(family)(tokens)
    found = load_model(folder).model(tokens)
    assert mx.allclose(found, expected, rtol=1e-4, atol=1e-4).item()


@pytest.mark.parametrize("kind", ["F32", "F16", "Q4_0", "Q4_1", "Q8_0"])
def test_weights_mean_what_the_file_says_and_stay_packed(kind: str, tmp_path: Path) -> None:
    config = tiny_config("qwen3")
    tensors = model_tensors(tiny_model("qwen3"), config, kind)
    # A second type in the same file has to be named per module.
    tensors["token_embd.weight"] = (tensors["token_embd.weight"][0], "Q8_0")
    tensors["blk.1.ffn_up.weight"] = (tensors["blk.1.ffn_up.weight"][0], "F16")
    meant = write_gguf(tmp_path / "m.gguf", model_metadata(config), tensors)
    folder = import_gguf(tmp_path / "m.gguf", tmp_path / "out")
    model = load_model(folder).model.model
    close = {"rtol": 1e-6, "atol": 1e-6}
    layer = model.layers[1]
    np.testing.assert_allclose(np.array(model.embed_tokens.weight), meant["token_embd.weight"], **close)
    np.testing.assert_allclose(np.array(layer.mlp.up_proj.weight), meant["blk.1.ffn_up.weight"], **close)
    np.testing.assert_allclose(np.array(layer.self_attn.q_proj.weight), meant["blk.1.attn_q.weight"], **close)
    np.testing.assert_allclose(np.array(layer.mlp.down_proj.weight), meant["blk.1.ffn_down.weight"], **close)
    if kind in ("Q4_0", "Q4_1"):
        quantization = json.loads((folder / "config.json").read_text())["quantization"]
        assert (quantization["group_size"], quantization["bits"]) == (32, 4)
        assert quantization["model.embed_tokens"] == {"group_size": 32, "bits": 8}
        assert quantization["model.layers.1.mlp.up_proj"] is False
        info = describe(folder)
        assert info.parameters == sum(values.size for values in meant.values())
        assert info.size_bytes < info.parameters * 1.3


def test_untied_output_and_end_tokens(tmp_path: Path) -> None:
    config = tiny_config("llama", tie_word_embeddings=False)
    tensors = model_tensors(tiny_model("llama", tie_word_embeddings=False), config)
    write_gguf(tmp_path / "m.gguf", model_metadata(config), tensors, version=2)
    loaded = load_model(import_gguf(tmp_path / "m.gguf", tmp_path / "out"))
    assert loaded.config["tie_word_embeddings"] is False
    assert loaded.tokenizer.eos_token_ids == {VOCABULARY - 1, VOCABULARY - 3}


def test_llama3_factors_become_its_scaling(tmp_path: Path) -> None:
    config = tiny_config("llama")
    tensors = model_tensors(tiny_model("llama"), config)
    factors = np.array(llama3_factors(32, 10000.0, 8.0), np.float32)
    tensors["rope_freqs.weight"] = (factors, "F32")
    write_gguf(tmp_path / "m.gguf", model_metadata(config), tensors)
    made = json.loads((import_gguf(tmp_path / "m.gguf", tmp_path / "out") / "config.json").read_text())
    assert made["rope_scaling"]["rope_type"] == "llama3"
    assert made["rope_scaling"]["factor"] == 8.0
    tensors["rope_freqs.weight"] = (factors * np.linspace(1, 2, 16, dtype=np.float32), "F32")
    write_gguf(tmp_path / "m.gguf", model_metadata(config), tensors)
    with pytest.raises(ModelError, match="own factors"):
        import_gguf(tmp_path / "m.gguf", tmp_path / "other")


def test_llama_cpp_rule_for_llama3_factors() -> None:
    factors = llama3_factors(128, 500000.0, 8.0)
    assert factors[0] == 1.0
    assert factors[-1] == 8.0
    assert factors == sorted(factors)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general__architecture": "gemma3"}, "'gemma3'"),
        ({"general__architecture": None}, "'unknown'"),
        ({"llama__block_count": None}, "llama.block_count"),
        ({"llama__block_count": 900}, "blk.3.attn_q.weight"),
        ({"llama__embedding_length": 96}, "wrong shape"),
        ({"llama__attention__layer_norm_rms_epsilon": None}, "layer_norm_rms_epsilon"),
        ({"llama__rope__scaling__type": "longrope"}, "'longrope'"),
        ({"llama__rope__dimension_count": 16}, "part of each head"),
        ({"llama__expert_count": 8}, "mixture of experts"),
        ({"split__count": 3}, "several"),
        ({"tokenizer__ggml__pre": "tekken"}, "'tekken'"),
        ({"tokenizer__ggml__model": "t5"}, "'t5'"),
        ({"tokenizer__ggml__tokens": None}, "no tokenizer"),
        ({"tokenizer__ggml__merges": ["nospace"]}, "merges"),
        ({"tokenizer__ggml__merges": ["qq zz"]}, "merges tokens it doesn't have"),
    ],
)
def test_what_cannot_be_imported_is_named(changes: dict, words: str, tmp_path: Path) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf", **changes)
    with pytest.raises(ModelError) as caught:
        import_gguf(file)
    message = str(caught.value)
    assert words in message
    assert message.endswith(".")
    assert "\n" not in message
    assert not paths.models_dir().exists() or _everything_below(paths.models_dir()) == []


@pytest.mark.parametrize("kind", ["Q4_K", "BF16"])
def test_other_tensor_types_are_named(kind: str, tmp_path: Path) -> None:
    config = tiny_config("llama")
    tensors = model_tensors(tiny_model("llama"), config)
    tensors["blk.0.ffn_up.weight"] = (tensors["blk.0.ffn_up.weight"][0], kind)
    write_gguf(tmp_path / "m.gguf", model_metadata(config), tensors)
    with pytest.raises(ModelError, match=kind):
        import_gguf(tmp_path / "m.gguf")
    assert read_header(tmp_path / "m.gguf").tensors


def test_damaged_files_are_refused_before_mlx_sees_them(tmp_path: Path) -> None:
    whole = tiny_gguf(tmp_path / "whole.gguf", "llama", "Q4_1").read_bytes()
    file = tmp_path / "damaged.gguf"
    huge = struct.pack("<Q", 1 << 60)
    cases = {
        "empty file": b"",
        "doesn't begin": b"GG",
        "doesn't begin like": b"ggml" + whole[4:],
        "version": whole[:4] + struct.pack("<I", 1) + whole[8:],
        "tensors and": whole[:8] + huge + whole[16:],
        "settings": whole[:16] + huge + whole[24:],
        "declares a text": whole[:24] + huge + whole[32:],
        "beyond its end": whole[:-4096],
        "middle of its header": whole[:22],
    }
    for words, data in cases.items():
        file.write_bytes(data)
        with pytest.raises(ModelError, match=words):
            read_header(file)
        with pytest.raises(ModelError):
            import_gguf(file)
    assert not paths.models_dir().exists()


def test_any_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    whole = tiny_gguf(tmp_path / "whole.gguf").read_bytes()
    file = tmp_path / "cut.gguf"
    for length in [*range(0, 4000, 37), *range(4000, len(whole) - 32, 4099)]:
        file.write_bytes(whole[:length])
        with pytest.raises(ModelError):
            read_header(file)


def test_flipped_bytes_in_the_header_never_escape(tmp_path: Path) -> None:
    whole = bytearray(tiny_gguf(tmp_path / "whole.gguf").read_bytes())
    generator = np.random.default_rng(5)
    file = tmp_path / "flipped.gguf"
    refused = 0
    for place in generator.integers(0, 11000, 300):
        data = bytearray(whole)
        data[place] ^= 1 << int(generator.integers(0, 8))
        file.write_bytes(data)
        try:
            read_header(file)
        except ModelError:
            refused += 1
    assert refused > 20


@pytest.mark.parametrize("stop_after", [1, 3, 20, 40])
def test_cancel_leaves_nothing(stop_after: int, tmp_path: Path) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf", "llama", "Q4_0")
    calls = 0

    def progress(fraction: float | None, words: str) -> None:
        nonlocal calls
        calls += 1
        if calls == stop_after:
            raise Cancelled

    with pytest.raises(Cancelled):
        import_gguf(file, progress=progress)
    assert not paths.models_dir().exists() or _everything_below(paths.models_dir()) == []


def test_progress_rises_to_one(tmp_path: Path) -> None:
    seen: list[float] = []
    import_gguf(
        tiny_gguf(tmp_path / "tiny.gguf"), progress=lambda fraction, words: seen.append(fraction or 0)
    )
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_full_disk_before_and_during(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf")
    usage = namedtuple("usage", "total used free")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage(1 << 30, 1 << 30, 1000))
        with pytest.raises(ModelError, match="make room"):
            import_gguf(file)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ModelError, match="is full: make room"):
            import_gguf(file)
    assert _everything_below(paths.models_dir()) == []
    assert import_gguf(file).is_dir()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_disk_that_refuses_a_weight_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary = Path.open

    def to_full(self: Path, mode: str = "r", **kwargs: object) -> object:
        return ordinary(Path("/dev/full") if self.suffix == ".safetensors" else self, mode, **kwargs)

    file = tiny_gguf(tmp_path / "tiny.gguf")
    monkeypatch.setattr(Path, "open", to_full)
    with pytest.raises(ModelError, match="is full"):
        import_gguf(file)
    assert _everything_below(paths.models_dir()) == []


def test_unwritable_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("not a folder")
    monkeypatch.setenv("VELOXQUANT_HOME", str(blocker))
    with pytest.raises(ModelError, match=r"Writing to .* failed"):
        import_gguf(tiny_gguf(tmp_path / "tiny.gguf"))


def test_only_imported_folders_are_replaced(tmp_path: Path) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "letter.txt").write_text("keep me")
    with pytest.raises(ModelError, match="already exists"):
        import_gguf(file, precious)
    assert (precious / "letter.txt").read_text() == "keep me"
    first = import_gguf(file)
    assert import_gguf(file) == first
