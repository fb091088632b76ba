"""Two methods with every type of field, whose arithmetic can be done in the head."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from veloxquant_mlx.config import KVCacheConfig, SlotShape, param
from veloxquant_mlx.errors import QuantizerConfigError
from veloxquant_mlx.telemetry import ByteCount


@dataclass(frozen=True)
class FakeConfig(KVCacheConfig):
    """Every row takes ``fake_bits`` bits per value, and sinks 16."""

    label: ClassVar[str] = "Fake"
    summary: ClassVar[str] = "A method for tests."
    paper: ClassVar[str] = "arXiv:0000.00000"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"Small": {"fake_bits": 2}, "Plain": {}}

    fake_bits: int = param(4, label="Bits", help="Bits of one code.", unit="bits", low=1, high=8, step=1)
    fake_window: int = param(64, label="Window", help="Rows.", unit="tokens", low=16, high=256, step=16)
    fake_share: float = param(0.7, label="Share", help="A share.", low=0.5, high=1.0, step=0.05)
    fake_group: int = param(32, label="Group", help="Channels.", unit="channels", choices=(16, 32, 64))
    fake_search: bool = param(True, label="Search", help="Search the share.")
    fake_sinks: int = param(4, label="Sinks", help="First rows.", unit="rows", low=0, high=128, step=1)
    fake_schedule: tuple[int, ...] | Literal["auto"] = param(
        (8, 4, 2, 1, 1, 0, 0, 0), label="Schedule", help="Bits per band.", unit="bits", low=0, high=8,
        extension=True,
    )  # fmt: skip
    fake_marks: tuple[int, ...] = param((), label="Marks", help="Any numbers.", extension=True)
    fake_limit: int | None = param(
        None, label="Limit", help="A limit.", unit="tokens", low=1, high=100, step=1, extension=True
    )

    def check(self) -> None:
        """A group wider than the window, and more sinks than it holds, are refused."""
        if self.fake_group == 64 and self.fake_window == 16:
            raise QuantizerConfigError(
                "fake_group", f"fake_group must not be larger than the fake_window of {self.fake_window}."
            )
        if self.fake_sinks > self.fake_window:
            raise QuantizerConfigError(
                "fake_sinks", f"fake_sinks must be at most fake_window ({self.fake_window})."
            )

    def misfit(self, shape: SlotShape) -> str | None:
        """Sinks need as many channels."""
        few = self.fake_sinks > shape.key_dim
        return f"heads of {shape.key_dim} channels, fewer than the sinks; lower them" if few else None

    def inactive(self) -> dict[str, str]:
        """The share is searched."""
        return {"fake_share": "Search is on: the share is found."} if self.fake_search else {}

    def predict(self, tokens: int, shape: SlotShape) -> ByteCount:
        """Codes only."""
        values = tokens * shape.heads * (shape.key_dim + shape.value_dim)
        return ByteCount(codes=values * self.fake_bits // 8)
