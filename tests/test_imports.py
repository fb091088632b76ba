"""Who may import whom: the rules of the house, read from the source."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LIBRARY = sorted((ROOT / "veloxquant_mlx").rglob("*.py"))
CORE = sorted((ROOT / "studio" / "core").rglob("*.py"))
SCREEN = sorted((ROOT / "studio" / "ui").rglob("*.py"))
STUDIO = sorted((ROOT / "studio").rglob("*.py"))
METHODS = sorted((ROOT / "veloxquant_mlx" / "cache").glob("*_cache.py"))

STACKS = {"svdq_skvq_cache": {"svdq_cache", "skvq_cache"}}
"""Methods made of others."""

KNOWS_MLX_LM = {
    "veloxquant_mlx/attention.py",
    "veloxquant_mlx/builder.py",
    "veloxquant_mlx/cache/affine_cache.py",
    "veloxquant_mlx/cache/base.py",
    "veloxquant_mlx/cache/mixed.py",
    "veloxquant_mlx/cache/plain_cache.py",
    "veloxquant_mlx/fidelity/compare.py",
    "veloxquant_mlx/generation.py",
    "veloxquant_mlx/models/compute.py",
    "veloxquant_mlx/models/load.py",
    "veloxquant_mlx/models/slots.py",
    "veloxquant_mlx/rewind.py",
    "veloxquant_mlx/server.py",
    "veloxquant_mlx/storage.py",
    "veloxquant_mlx/shapes.py",
}

HEAVY = {"mlx", "mlx_lm", "transformers", "tokenizers", "huggingface_hub"}


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def _typing_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _walk(node: ast.AST, inside_functions: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if _typing_only(child):
            continue
        if not inside_functions and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield child
        yield from _walk(child, inside_functions)


@cache
def imports(file: Path, *, inside_functions: bool = True) -> set[str]:
    """Full dotted names a file imports at run time, ``from a import b`` as ``a.b``."""
    package = list(file.relative_to(ROOT).with_suffix("").parts[:-1])
    found: set[str] = set()
    for node in _walk(ast.parse(file.read_text()), inside_functions):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def tops(file: Path, *, inside_functions: bool = True) -> set[str]:
    return {name.partition(".")[0] for name in imports(file, inside_functions=inside_functions)}


def broken(files: list[Path], forbidden: set[str], *, inside_functions: bool = True) -> dict[str, set[str]]:
    found = {name_of(file): tops(file, inside_functions=inside_functions) & forbidden for file in files}
    return {name: names for name, names in found.items() if names}


def test_the_walk_sees_every_way_to_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    file = tmp_path / "pack" / "deep" / "module.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import os.path, sys as system\nfrom .near import thing\nfrom ..far import other\n"
        "from .. import top\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import hidden\n"
        "try:\n    import tried\nexcept ImportError:\n    pass\n"
        "def f():\n    import late\n    class C:\n        import later\n"
    )
    eager = {
        "os.path",
        "sys",
        "pack.deep.near.thing",
        "pack.far.other",
        "pack.top",
        "typing.TYPE_CHECKING",
        "tried",
    }
    assert imports(file, inside_functions=False) == eager
    assert imports(file) == eager | {"late", "later"}


def test_the_folders_are_where_the_rules_look() -> None:
    assert len(LIBRARY) > 20
    assert len(CORE) > 3
    assert len(SCREEN) > 10
    assert len(METHODS) >= 3


def test_the_library_knows_neither_the_studio_nor_qt() -> None:
    assert broken(LIBRARY, {"studio", "PySide6", "shiboken6", "pyqtgraph"}) == {}


def test_a_method_s_file_knows_no_other_method() -> None:
    methods = {file.stem for file in METHODS}
    for file in METHODS:
        others = methods - {file.stem} - STACKS.get(file.stem, set())
        named = {part for name in imports(file) for part in name.split(".")}
        assert not named & others, name_of(file)


def test_nothing_but_the_folder_lists_the_methods() -> None:
    """A new method is a new file: no other file of the library may name one."""
    methods = {file.stem for file in METHODS}
    for file in [*LIBRARY, *STUDIO]:
        if file not in METHODS:
            named = {part for name in imports(file) for part in name.split(".")}
            assert not named & methods, name_of(file)


def test_the_core_knows_no_qt() -> None:
    assert broken(CORE, {"PySide6", "shiboken6", "pyqtgraph"}) == {}


def test_the_screen_imports_nothing_heavy_when_it_is_imported() -> None:
    assert broken(SCREEN, HEAVY, inside_functions=False) == {}


def test_only_the_engine_may_import_them_later() -> None:
    others = [file for file in SCREEN if file.name != "engine.py"]
    assert broken(others, HEAVY) == {}


def test_the_screen_does_not_know_the_session() -> None:
    for file in SCREEN:
        eager = file.name == "engine.py"
        named = imports(file, inside_functions=not eager)
        assert not {name for name in named if name.startswith("studio.core.session")}, name_of(file)


def test_threads_are_the_engine_s_alone() -> None:
    allowed = {"studio/ui/engine.py", "studio/core/log.py"}
    modules = {"threading", "_thread", "concurrent", "multiprocessing", "asyncio"}
    found = broken([*LIBRARY, *STUDIO], modules)
    for file in [*LIBRARY, *STUDIO]:
        if {name.rpartition(".")[2] for name in imports(file)} & {"QThread", "QThreadPool", "QRunnable"}:
            found.setdefault(name_of(file), set())
    assert found.keys() <= allowed


def test_the_log_uses_threading_for_its_hook_alone() -> None:
    source = (ROOT / "studio" / "core" / "log.py").read_text()
    uses = [
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "threading"
    ]
    assert set(uses) == {"excepthook"}


def test_pyqtgraph_belongs_to_the_charts() -> None:
    charts = ROOT / "studio" / "ui" / "charts"
    outside = [file for file in STUDIO if charts not in file.parents]
    assert broken(outside, {"pyqtgraph"}) == {}


def test_panels_do_not_import_one_another() -> None:
    panels = {"chat", "models_panel", "cache_panel", "charts_host", "statusbar", "topbar"}
    for file in (file for file in SCREEN if file.stem in panels):
        named = {name.split(".")[2] for name in imports(file) if name.startswith("studio.ui.")}
        assert not named & (panels - {file.stem}), name_of(file)


def test_few_files_know_mlx_lm() -> None:
    found = broken([*LIBRARY, *STUDIO], {"mlx_lm"})
    assert found.keys() <= KNOWS_MLX_LM


@pytest.mark.parametrize("module", ["studio.app", "studio.ui.window", "studio.__main__"])
def test_the_first_window_waits_for_nothing_heavy(module: str) -> None:
    heavy = ("mlx", "mlx_lm", "transformers", "tokenizers", "huggingface_hub", "pyqtgraph")
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_library_s_names_come_without_mlx_lm() -> None:
    code = (
        "import sys, veloxquant_mlx as v; v.KVCacheConfig; print('mlx_lm' in sys.modules, "
        "v.KVCacheBuilder.__name__, v.snapshot.__name__, 'mlx_lm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "KVCacheBuilder", "snapshot", "True"]
