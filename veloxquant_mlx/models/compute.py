"""In which precision a loaded model computes: decided per device, then carried out lazily."""

import os
from dataclasses import dataclass
from typing import Any

import psutil

from ..errors import ModelError
from .disk import readable

DEVICE = "VELOXQUANT_DEVICE"
MARGIN = 768 << 20
"""Left to the cache, the activations and everything else on the machine, bytes."""


@dataclass(frozen=True, slots=True)
class Compute:
    """How a model will compute."""

    words: str
    unpack: bool
    """Dequantize the weights."""
    widen: bool
    """Cast every floating array to float32."""


def free_memory() -> int:
    """Memory a new process could have without swapping, bytes."""
    return int(psutil.virtual_memory().available)


def settle_device() -> None:
    """Compute on the processor, even where there is Metal, if ``VELOXQUANT_DEVICE`` is ``cpu``."""
    if os.environ.get(DEVICE) == "cpu":
        import mlx.core as mx

        mx.set_default_device(mx.cpu)


def choose(model: Any, parameters: int, stored: int, *, anyway: bool = False) -> Compute:
    """Choose for MLX's default device.

    ``parameters`` counts unpacked values, ``stored`` the bytes as they lie on disk. On Metal the model
    stays as it is. On a CPU float32 is 20 to 50 times faster than 16 bits or packed weights, so
    weights are unpacked where memory allows. Raises ModelError when not even the packed model fits, unless
    it shall be tried ``anyway``.
    """
    import mlx.core as mx

    if mx.default_device() == mx.gpu and mx.metal.is_available():
        return Compute(f"Metal {_float_name(model)}", unpack=False, widen=False)
    free = free_memory()
    if parameters * 4 + MARGIN <= free:
        return Compute("CPU float32", unpack=True, widen=True)
    if stored + MARGIN > free and not anyway:
        raise ModelError(
            f"This model takes {readable(stored)} and {readable(free)} of memory are free: close other "
            "programs or choose a smaller model."
        )
    lack = f"{readable(parameters * 4)} needed to unpack, {readable(free)} free"
    if _is_quantized(model):
        return Compute(f"CPU float32, weights stay packed and slow ({lack})", unpack=False, widen=True)
    return Compute(f"CPU {_float_name(model)}, slow ({lack})", unpack=False, widen=False)


def limit_memory(cache: int, wired: int) -> None:
    """Set what MLX keeps of freed memory, and what stays resident for a GPU, bytes; 0 is none.

    Without Metal nothing is wired.
    """
    import mlx.core as mx

    mx.set_cache_limit(cache)
    if mx.metal.is_available():
        recommended = mx.device_info().get("max_recommended_working_set_size")
        mx.set_wired_limit(min(wired, int(recommended)) if recommended else wired)


def apply(model: Any, compute: Compute) -> Any:
    """Carry the choice out without evaluating anything; returns the model."""
    import mlx.core as mx
    from mlx_lm.utils import dequantize_model

    if compute.widen:
        # Scales first: unpacking in 16 bits would round every weight.
        model.set_dtype(mx.float32)
    if compute.unpack:
        model = dequantize_model(model)
        model.set_dtype(mx.float32)
    return model


def _is_quantized(model: Any) -> bool:
    return any(hasattr(module, "bits") for _, module in model.named_modules())


def _float_name(model: Any) -> str:
    """Name of the type most arrays of the model have."""
    from ..shapes import common_float

    return str(common_float(model) or "float32").rpartition(".")[2]
