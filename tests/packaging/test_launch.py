"""The packaged app's program stands in for Python where the starter model is fetched."""

import subprocess
import sys
from pathlib import Path

LAUNCH = Path(__file__).resolve().parents[2] / "packaging" / "launch.py"


def test_it_answers_to_pip_as_python_does() -> None:
    asked = ["-m", "pip", "--version"]
    python = subprocess.run([sys.executable, *asked], capture_output=True, text=True, check=True)
    app = subprocess.run([sys.executable, str(LAUNCH), *asked], capture_output=True, text=True, check=True)
    assert app.stdout == python.stdout
    wrong = [sys.executable, str(LAUNCH), "-m", "pip", "no-such-command"]
    assert subprocess.run(wrong, capture_output=True, check=False).returncode == 1
