"""Wheels that ask for a newer macOS than the app are noticed."""

from email.message import Message
from importlib.metadata import Distribution
from typing import Any, cast

import mac_wheels


class _Installed:
    version = "1.2"

    def __init__(self, name: str, *tags: str) -> None:
        self.metadata = Message()
        self.metadata["Name"] = name
        self._wheel = "Wheel-Version: 1.0\n" + "".join(f"Tag: {tag}\n" for tag in tags)

    def read_text(self, name: str) -> str | None:
        return self._wheel if name == "WHEEL" else None


def test_only_wheels_for_a_newer_system_are_exchanged() -> None:
    installed: list[Any] = [
        _Installed("mlx", "cp312-cp312-macosx_15_0_arm64"),
        _Installed("mlx-metal", "py3-none-macosx_26_0_arm64"),
        _Installed("numpy", "cp312-cp312-macosx_14_0_arm64"),
        _Installed("psutil", "cp36-abi3-macosx_11_0_arm64"),
        _Installed("both", "py3-none-macosx_26_0_arm64", "py3-none-macosx_11_0_arm64"),
        _Installed("pure", "py3-none-any"),
        _Installed("ours"),
    ]
    assert mac_wheels.too_new(cast(list[Distribution], installed)) == ["mlx==1.2", "mlx-metal==1.2"]
    assert mac_wheels.PLATFORM == "macosx_14_0_arm64"
