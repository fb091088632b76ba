"""A tiny random model folder, written in a moment: for proofs where no real model is at hand."""

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

VOCABULARY = 288
"""256 bytes, 29 merges and three special tokens."""

_END, _USER, _STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "bos_token_id": VOCABULARY - 3,
    "eos_token_id": VOCABULARY - 1,
}
"""What the ``config.json`` of most families asks for."""


def random_model(config: Mapping[str, Any], seed: int = 0) -> Any:
    """A random float32 model, evaluated on the calling thread; the same seed gives the same weights.

    Args:
        config: as in ``config.json``; ``model_type`` is the name of a model file of mlx_lm.
    """
    import mlx.core as mx
    from mlx.utils import tree_flatten, tree_unflatten

    module = import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(seed)
    model = module.Model(module.ModelArgs.from_dict(dict(config)))
    # Larger than the usual initial weights: the attention of the random model is not flat then.
    loud = ("q_proj.weight", "k_proj.weight")
    grown = [
        # A file may leave weights to the checkpoint and begin with zeros, which no row would get through.
        (name, mx.random.normal(value.shape) if value.ndim > 1 and not value.any().item() else value)
        for name, value in tree_flatten(model.parameters())
    ]
    model.update(
        tree_unflatten([(name, value * 3 if name.endswith(loud) else value) for name, value in grown])
    )
    model.eval()
    mx.eval(model.parameters())
    return model


def write_tokenizer(folder: Path, *, chat_template: str | None = CHAT_TEMPLATE) -> None:
    """Write a byte-level ``tokenizer.json`` and its ``tokenizer_config.json``."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    joined = "heinreantheronatenoresisitalarstndoungtimeteedaslevetodene"
    pairs = [joined[start : start + 2] for start in range(0, len(joined), 2)]
    vocabulary = {token: index for index, token in enumerate([*letters, *pairs])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[(pair[0], pair[1]) for pair in pairs]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in (_END, _USER, _STOP)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    words: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _END,
        "eos_token": _STOP,
        "model_max_length": 4096,
        "clean_up_tokenization_spaces": False,
    }
    if chat_template is not None:
        words["chat_template"] = chat_template
    (folder / "tokenizer_config.json").write_text(json.dumps(words))


def write_model(
    folder: Path, config: Mapping[str, Any], *, seed: int = 0, bits: int | None = None,
    chat_template: str | None = CHAT_TEMPLATE,
) -> Path:  # fmt: skip
    """Write a complete model folder of random weights and return it.

    ``bits`` quantizes the weights in groups of 32.
    """
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten

    folder.mkdir(parents=True, exist_ok=True)
    written = dict(config)
    model = random_model(config, seed)
    if bits is not None:
        nn.quantize(model, group_size=32, bits=bits)
        written["quantization"] = {"group_size": 32, "bits": bits}
    (folder / "config.json").write_text(json.dumps(written))
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    write_tokenizer(folder, chat_template=chat_template)
    return folder


def tiny_model_folder(folder: Path) -> Path:
    """A whole llama of three layers and some 90,000 weights in ``folder``."""
    return write_model(folder, {"model_type": "llama", **SIZES})
