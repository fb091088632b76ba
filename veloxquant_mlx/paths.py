"""The folders this project writes to, following the platform's customs.

``VELOXQUANT_HOME`` moves all of them below one folder (tests, portable use).
"""

import os
import sys
from pathlib import Path

import platformdirs

_APP = "VeloxQuant Studio" if os.name == "nt" or os.uname().sysname == "Darwin" else "veloxquant-studio"


def _home() -> Path | None:
    moved = os.environ.get("VELOXQUANT_HOME")
    return Path(moved).expanduser() if moved else None


def data_dir() -> Path:
    """Models and everything a person would miss if it were gone. Not created here."""
    home = _home()
    return home / "data" if home else platformdirs.user_data_path(_APP, appauthor=False)


def models_dir() -> Path:
    """Folder that holds the converted models, one folder each."""
    return data_dir() / "models"


def packed_models_dir() -> Path | None:
    """Folder of the models that a packaged app carries, not to be written to; None elsewhere."""
    packed = getattr(sys, "_MEIPASS", None)
    return None if packed is None else Path(packed) / "models"


def log_dir() -> Path:
    """Folder of the log files. Not created here."""
    home = _home()
    return home / "logs" if home else platformdirs.user_log_path(_APP, appauthor=False)
