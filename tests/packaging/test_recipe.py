"""What goes into the packaged app and what stays out."""

import re
from importlib.metadata import version
from pathlib import Path

import identity
import pytest
import recipe


@pytest.mark.parametrize(
    "name",
    [
        "transformers.models.llama.tokenization_llama",
        "transformers.models.llama.configuration_llama",
        "transformers.models.auto.modeling_auto",
        "transformers/models/auto/processing_auto.py",
        "PySide6/Qt/plugins/platforms/libqxcb.so",
        "PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "mlx/lib/libmlx.so",
        "mlx_lm.models.llama",
        "libxcb-cursor.so.0",
        "assets/icon.svg",
    ],
)
def test_what_is_used_stays(name: str) -> None:
    assert recipe.wanted(name)


@pytest.mark.parametrize(
    "name",
    [
        "transformers.models.llama.modeling_llama",
        "transformers/models/llama/modeling_llama.py",
        "transformers.models.clip.image_processing_clip",
        "PySide6/Qt/plugins/platformthemes/libqgtk3.so",
        "PySide6/Qt/plugins/platforms/libqvnc.so",
        "PySide6/Qt/translations/qt_de.qm",
        "libGL.so.1",
        "libcudart.so.13",
        "mlx/include/mlx/array.h",
        "assets/screenshots/window-dark.png",
    ],
)
def test_what_is_not_used_goes(name: str) -> None:
    assert not recipe.wanted(name)


def test_a_link_goes_with_what_it_points_at_and_the_rest_is_in_order() -> None:
    entries = [
        ("libz.so.1", "/usr/lib/libz.so.1", "BINARY"),
        ("libQt6Quick.so.6", "PySide6/Qt/lib/libQt6Quick.so.6", "SYMLINK"),
        ("PySide6/Qt/lib/libQt6Quick.so.6", "/somewhere/libQt6Quick.so.6", "BINARY"),
        ("libQt6Core.so.6", "PySide6/Qt/lib/libQt6Core.so.6", "SYMLINK"),
        ("PySide6/Qt/lib/libQt6Core.so.6", "/somewhere/libQt6Core.so.6", "BINARY"),
    ]
    kept = [place for place, _, _ in recipe.pruned(entries)]
    assert kept == ["PySide6/Qt/lib/libQt6Core.so.6", "libQt6Core.so.6", "libz.so.1"]


METADATA = ("mlx_lm-0.3.dist-info", "pytest-9.dist-info", "mlx_lm.egg-info")


def test_metadata_of_tools_and_of_the_checkout_stay_out() -> None:
    entries = [(f"{name}/METADATA", "", "DATA") for name in METADATA]
    entries.append(("mlx_lm/models/llama.py", "", "DATA"))
    kept = [place.partition("/")[0] for place, _, _ in recipe.of_the_needed(entries, ["mlx-lm"])]
    assert kept == ["mlx_lm-0.3.dist-info", "mlx_lm"]


def test_what_an_installer_noted_stays_out() -> None:
    assert not recipe.wanted("numpy-2.0.dist-info/RECORD")
    assert not recipe.wanted("veloxquant_studio-0.1.dist-info/direct_url.json")
    assert recipe.wanted("numpy-2.0.dist-info/METADATA")


def test_a_copy_of_the_source_has_what_a_build_reads(tmp_path: Path) -> None:
    recipe.copy_source(tmp_path / "copy")
    there = tmp_path / "copy"
    assert (there / "packaging" / "studio.spec").is_file() and (there / "pyproject.toml").is_file()
    copied = {path.relative_to(there).as_posix() for path in there.rglob("*")}
    assert {f"{folder}/{Path(source).name}" for source, folder in recipe.data_files()} <= copied
    assert not any("__pycache__" in place or place.startswith("build") for place in copied)


def test_the_project_s_own_files_are_all_there() -> None:
    places = {f"{folder}/{Path(source).name}" for source, folder in recipe.data_files()}
    assert {"assets/icon.svg", "assets/fonts/LICENSE-Inter.txt", "studio/core/preset.schema.json"} <= places
    assert any(place.startswith("veloxquant_mlx/texts/") for place in places)
    assert any(place.endswith("/report.schema.json") for place in places)
    assert not any("screenshots" in place or "__pycache__" in place for place in places)


def test_the_version_has_one_place_and_the_changelog_follows() -> None:
    assert recipe.version() == version("veloxquant-studio") == identity.release()[0]
    written = re.compile(rf"\b{re.escape(recipe.version())}\b")
    sources = [*(recipe.ROOT / "studio").rglob("*.py"), *(recipe.ROOT / "packaging").rglob("*.py")]
    assert [path.name for path in sources if written.search(path.read_text("utf-8"))] == []


def test_what_the_app_must_find_is_what_is_here() -> None:
    told = recipe.contents(starter=False)
    assert {"skvq", "svdq", "svdq_skvq", "affine", "plain"} <= set(told["methods"])
    assert "llama" in told["model_modules"] and len(told["model_modules"]) > 100
    assert told["version"] == recipe.version() and told["starter"] is False
