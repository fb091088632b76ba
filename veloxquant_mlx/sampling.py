"""How the next token is chosen from what the model thinks likely. Declared here, done by mlx_lm."""

from dataclasses import dataclass

from .declared import Declared, param


@dataclass(frozen=True)
class Sampling(Declared):
    """What is chosen for a reply. At temperature 0 the likeliest token wins, whatever else is set."""

    temperature: float = param(
        0.0, label="Temperature", low=0.0, high=2.0, step=0.05,
        help="0 always takes the likeliest token, so that two caches can be compared; 0.7 is livelier.",
    )  # fmt: skip
    top_p: float = param(
        1.0, label="Top-p", low=0.01, high=1.0, step=0.01,
        help="Choose among the likeliest tokens that together have this probability; 1 leaves all in.",
    )  # fmt: skip
    top_k: int = param(
        0, label="Top-k", unit="tokens", low=0, high=500, step=1,
        help="Choose among this many of the likeliest tokens; 0 leaves all in.",
    )  # fmt: skip
    min_p: float = param(
        0.0, label="Min-p", low=0.0, high=1.0, step=0.01,
        help="Leave out tokens less likely than this share of the likeliest one; 0 leaves all in.",
    )  # fmt: skip
    repetition_penalty: float = param(
        1.0, label="Repetition penalty", low=1.0, high=2.0, step=0.01,
        help="Make the last 64 tokens less likely to come again; 1 leaves them alone. Costs a little time.",
    )  # fmt: skip
    seed: int | None = param(
        None, label="Seed", low=0, high=999_999, step=1,
        help="The same seed gives the same reply again; without one every reply is different.",
    )  # fmt: skip
    max_tokens: int = param(
        1024, label="Longest reply", unit="tokens", low=16, high=16_384, step=16,
        help="A reply ends there and can be continued.",
    )  # fmt: skip

    def inactive(self) -> dict[str, str]:
        """Without a temperature nothing is drawn by chance."""
        if self.temperature > 0:
            return {}
        return dict.fromkeys(
            ("top_p", "top_k", "min_p", "seed"), "At temperature 0 nothing is drawn by chance."
        )
