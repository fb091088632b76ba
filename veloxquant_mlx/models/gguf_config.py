"""From a GGUF header to ``config.json`` and to the names mlx_lm gives the weights."""

import re
from collections.abc import Iterable
from typing import Any

from ..errors import ModelError
from .gguf_header import READABLE_TYPES, Header, TensorInfo

ARCHITECTURES = ("llama", "qwen2", "qwen3")
GROUP = 32
"""Values that share one scale in every readable quantized type."""

_BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_INNER = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
_BLOCK_NAME = re.compile(r"blk\.(\d+)\.([a-z_]+)\Z")

ROPE_FACTORS = "rope_freqs.weight"
"""Tensor with one divisor per rotary frequency; Llama 3.1 and later carry it."""


def check_supported(header: Header) -> str:
    """The architecture, or ModelError in one sentence that names what is not supported."""
    architecture = header.metadata.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise ModelError(
            f"This GGUF file holds a model of architecture '{architecture or 'unknown'}'; "
            f"{_listed(ARCHITECTURES)} can be imported."
        )
    unread = sorted({t.kind for t in header.tensors if t.kind not in READABLE_TYPES})
    if unread:
        raise ModelError(
            f"This GGUF file holds tensors of type {_listed(unread)}; "
            f"{_listed(READABLE_TYPES)} can be imported."
        )
    if header.metadata.get("split.count", 1) != 1:
        raise ModelError("This GGUF file is one part of several: merge the parts into one file first.")
    if header.metadata.get(f"{architecture}.expert_count", 0):
        raise ModelError(
            f"This GGUF file holds a mixture of experts of architecture '{architecture}', not supported."
        )
    return str(architecture)


def mlx_name(name: str) -> str | None:
    """mlx_lm's name for a GGUF tensor (with its .weight, .bias, .scales or .biases), or None."""
    stem, _, suffix = name.rpartition(".")
    if suffix not in ("weight", "bias", "scales", "biases"):
        return None
    if stem in _TOP:
        return f"{_TOP[stem]}.{suffix}"
    match = _BLOCK_NAME.match(stem)
    if match is None or match[2] not in _INNER:
        return None
    return f"model.layers.{int(match[1])}.{_INNER[match[2]]}.{suffix}"


def make_config(header: Header, rope_factors: list[float] | None, end_tokens: list[int]) -> dict[str, Any]:
    """``config.json`` for mlx_lm.

    ``rope_factors`` are the values of ROPE_FACTORS where the file has it; ``end_tokens`` the ids
    that end a reply. Raises ModelError when a required setting is missing or can't be honoured.
    """
    kind = check_supported(header)
    tensors = {t.name: t for t in header.tensors}
    _check_tensors(header, tensors, kind)
    layers, hidden = _whole(header, kind, "block_count"), _whole(header, kind, "embedding_length")
    heads = _whole(header, kind, "attention.head_count")
    head_dim = _whole(header, kind, "attention.key_length", hidden // heads)
    if _whole(header, kind, "attention.value_length", head_dim) != head_dim:
        raise ModelError("This GGUF file has keys and values of different sizes, which can't be imported.")
    if _whole(header, kind, "rope.dimension_count", head_dim) != head_dim:
        raise ModelError("This GGUF file turns only a part of each head's channels, which can't be imported.")
    if kind == "qwen2" and head_dim * heads != hidden:
        raise ModelError("This GGUF file's head size doesn't fit its hidden size, which qwen2 requires.")
    kv_heads = _whole(header, kind, "attention.head_count_kv", heads)
    inner = _whole(header, kind, "feed_forward_length")
    wanted = _shapes(min(layers, len(tensors)), hidden, heads * head_dim, kv_heads * head_dim, inner, kind)
    for name, shape in wanted.items():
        if name not in tensors:
            raise ModelError(f"This GGUF file lacks the tensor {name}: download it again.")
        found = tensors[name].shape
        if len(found) != len(shape) or any(
            want not in (0, has) for want, has in zip(shape, found, strict=True)
        ):
            raise ModelError(f"This GGUF file's tensor {name} has the wrong shape: download it again.")
    context = _whole(header, kind, "context_length")
    theta = float(header.metadata.get(f"{kind}.rope.freq_base", 10000.0))
    config: dict[str, Any] = {
        "model_type": kind,
        "architectures": [{"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[kind] + "ForCausalLM"],
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "rms_norm_eps": float(_setting(header, f"{kind}.attention.layer_norm_rms_epsilon")),
        "vocab_size": tensors["token_embd.weight"].shape[0],
        "max_position_embeddings": context,
        "rope_theta": theta,
        # llama.cpp stores llama's queries and keys with the two halves of each head interleaved.
        "rope_traditional": kind == "llama",
        "tie_word_embeddings": "output.weight" not in tensors,
        "hidden_act": "silu",
    }
    if (scaling := _rope_scaling(header, kind, head_dim, theta, rope_factors)) is not None:
        config["rope_scaling"] = scaling
    if kind == "llama":
        config["attention_bias"] = "blk.0.attn_q.bias" in tensors
        config["mlp_bias"] = "blk.0.ffn_up.bias" in tensors
    if (bos := header.metadata.get("tokenizer.ggml.bos_token_id")) is not None:
        config["bos_token_id"] = bos
    config["eos_token_id"] = end_tokens[0] if len(end_tokens) == 1 else end_tokens
    if (quantization := _quantization(tensors.values())) is not None:
        config["quantization"] = quantization
    return config


def _quantization(tensors: Iterable[TensorInfo]) -> dict[str, Any] | None:
    """The most used width as the default, every other module named with its own or False."""
    kinds = {str(mlx_name(t.name)).removesuffix(".weight"): t.kind for t in tensors if len(t.shape) == 2}
    widths = [_BITS[kind] for kind in kinds.values() if kind in _BITS]
    if not widths:
        return None
    usual = max(set(widths), key=widths.count)
    result: dict[str, Any] = {"group_size": GROUP, "bits": usual}
    for module, kind in sorted(kinds.items()):
        if kind not in _BITS:
            result[module] = False
        elif _BITS[kind] != usual:
            result[module] = {"group_size": GROUP, "bits": _BITS[kind]}
    return result


def _rope_scaling(
    header: Header, kind: str, head_dim: int, theta: float, factors: list[float] | None
) -> dict[str, Any] | None:
    if factors is not None:
        scaling = {
            "rope_type": "llama3",
            "factor": max(factors),
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }
        expected = llama3_factors(head_dim, theta, max(factors))
        close = len(expected) == len(factors) and all(
            abs(a - b) <= 1e-3 * a for a, b in zip(expected, factors, strict=True)
        )
        if not close:
            raise ModelError(
                "This GGUF file stretches its context by its own factors, which can't be imported."
            )
        return scaling
    style = header.metadata.get(f"{kind}.rope.scaling.type", "none")
    factor = header.metadata.get(
        f"{kind}.rope.scaling.factor", header.metadata.get(f"{kind}.rope.scale_linear")
    )
    if style == "none" and factor in (None, 0.0, 1.0):
        return None
    if style in ("none", "linear"):
        return {"rope_type": "linear", "factor": float(factor or 1.0)}
    if style == "yarn":
        original = _whole(header, kind, "rope.scaling.original_context_length")
        return {
            "rope_type": "yarn",
            "factor": float(factor or 1.0),
            "original_max_position_embeddings": original,
        }
    raise ModelError(f"This GGUF file stretches its context by '{style}'; linear and yarn can be imported.")


def llama3_factors(head_dim: int, theta: float, factor: float) -> list[float]:
    """Divisor of each rotary frequency for Llama 3.1's rule (low 1, high 4, original length 8,192)."""
    result = []
    for index in range(0, head_dim, 2):
        turns = 8192 / (2 * 3.141592653589793 * theta ** (index / head_dim))
        blend = min(1.0, max(0.0, (turns - 1.0) / 3.0))
        result.append(1.0 / ((1 - blend) / factor + blend))
    return result


def _shapes(
    layers: int, hidden: int, queries: int, keys: int, inner: int, kind: str
) -> dict[str, tuple[int, ...]]:
    """Required tensor -> shape; 0 stands for any length."""
    block: dict[str, tuple[int, ...]] = {
        "attn_q.weight": (queries, hidden), "attn_k.weight": (keys, hidden), "attn_v.weight": (keys, hidden),
        "attn_output.weight": (hidden, queries), "attn_norm.weight": (hidden,), "ffn_norm.weight": (hidden,),
        "ffn_gate.weight": (inner, hidden), "ffn_up.weight": (inner, hidden),
        "ffn_down.weight": (hidden, inner),
    }  # fmt: skip
    if kind == "qwen2":
        block |= {"attn_q.bias": (queries,), "attn_k.bias": (keys,), "attn_v.bias": (keys,)}
    if kind == "qwen3":
        block |= {"attn_q_norm.weight": (0,), "attn_k_norm.weight": (0,)}
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (0, hidden), "output_norm.weight": (hidden,)}
    for layer in range(layers):
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    return shapes


def _check_tensors(header: Header, tensors: dict[str, TensorInfo], kind: str) -> None:
    for name, tensor in tensors.items():
        if name == ROPE_FACTORS and kind == "llama":
            continue
        if mlx_name(name) is None:
            raise ModelError(
                f"This GGUF file holds the tensor {name[:64]}, which a {kind} model doesn't have."
            )
        if tensor.kind in _BITS and len(tensor.shape) != 2:
            raise ModelError(f"This GGUF file packs the tensor {name[:64]}, which should have two axes.")


def _setting(header: Header, key: str) -> Any:
    if key not in header.metadata:
        raise ModelError(f"This GGUF file doesn't say its {key}: it can't be imported.")
    return header.metadata[key]


def _whole(header: Header, kind: str, key: str, default: int | None = None) -> int:
    name = f"{kind}.{key}"
    value = header.metadata.get(name, default) if default is not None else _setting(header, name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 31:
        raise ModelError(f"This GGUF file gives {name} a value that can't be imported.")
    return value


def _listed(words: Iterable[str]) -> str:
    *first, last = list(words)
    return f"{', '.join(first)} and {last}" if first else last
