"""The build of Qt for Python must keep Python's counts of references."""

import platform
import sys

import PySide6
from PySide6.QtCore import QObject


def test_calls_into_qt_do_not_use_up_none() -> None:
    """PySide6 6.12.0 drops a reference to None per call on Python 3.11 and ends in an abort."""
    thing = QObject()
    before = sys.getrefcount(None)
    for _ in range(200):
        thing.setObjectName("x")
    lost = before - sys.getrefcount(None)
    assert lost < 100, (
        f"PySide6 {PySide6.__version__} on Python {platform.python_version()} loses references to None: "
        "install PySide6-Essentials below 6.12, or use Python 3.12 or later."
    )
