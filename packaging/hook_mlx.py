"""Run before anything else in the packaged app: where MLX finds what it looks for."""

import ctypes
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path


class _BeforeMLX:
    """Loads MLX's library by its own path before ``mlx.core`` does.

    MLX looks for its Metal library beside the path that libmlx was loaded from; PyInstaller's loader would
    take a link at the top of the bundle. Not done at the start, since the window does not wait for MLX.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "mlx.core":
            sys.meta_path.remove(self)
            folder = Path(sys._MEIPASS) / "mlx" / "lib"  # type: ignore[attr-defined]
            for library in sorted(folder.glob("libmlx.*")):
                ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        return None


sys.meta_path.insert(0, _BeforeMLX())

if sys.platform.startswith("linux"):
    # It would call the machine's C++ compiler, which may be missing or of any age.
    os.environ.setdefault("MLX_DISABLE_COMPILE", "1")
    # Programs that the app starts (a browser for a link) need their own libraries.
    if "LD_LIBRARY_PATH_ORIG" in os.environ:
        os.environ["LD_LIBRARY_PATH"] = os.environ.pop("LD_LIBRARY_PATH_ORIG")
    else:
        os.environ.pop("LD_LIBRARY_PATH", None)
