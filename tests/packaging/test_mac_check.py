"""What can be seen of a macOS app without starting it is seen."""

import plistlib
import struct
from pathlib import Path

import identity
import mac_check
import machfiles
import pytest
from recipe import COMMAND

pytest.importorskip("macholib", reason="needs the packaging extra")
X86_64 = 0x01000007
_BUILD_VERSION, _LOAD, _WEAK, _RPATH = 0x32, 0xC, 0x80000018, 0x8000001C


def mach(
    libraries: tuple[str, ...] = (),
    search: tuple[str, ...] = (),
    weak: tuple[str, ...] = (),
    minimum: tuple[int, int] = (14, 0),
    processor: int = machfiles.ARM64,
) -> bytes:
    """The header of a library as the linker writes it, with nothing behind."""
    commands = [struct.pack("<6I", _BUILD_VERSION, 24, 1, minimum[0] << 16 | minimum[1] << 8, 0, 0)]
    commands += [_named(_LOAD, name, (0, 0, 0)) for name in libraries]
    commands += [_named(_WEAK, name, (0, 0, 0)) for name in weak]
    commands += [_named(_RPATH, name, ()) for name in search]
    body = b"".join(commands)
    return struct.pack("<8I", 0xFEEDFACF, processor, 0, 6, len(commands), len(body), 0, 0) + body


def _named(command: int, name: str, numbers: tuple[int, ...]) -> bytes:
    start = 12 + 4 * len(numbers)
    text = name.encode() + b"\0"
    text += bytes(-(start + len(text)) % 8)
    head = struct.pack(f"<{3 + len(numbers)}I", command, start + len(text), start, *numbers)
    return head + text


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A small app in which everything is right."""
    pytest.importorskip("icnsutil", reason="needs the packaging extra")
    contents = tmp_path / "Small.app" / "Contents"
    icons = identity.write_icons(tmp_path / "icons")
    files = {
        "Info.plist": plistlib.dumps(identity.info_plist()),
        f"MacOS/{COMMAND}": mach(("/usr/lib/libSystem.B.dylib",)),
        "Resources/icon.icns": (icons / "icon.icns").read_bytes(),
        "Frameworks/mlx/core.so": mach(("@rpath/libmlx.dylib",), ("@loader_path/lib",)),
        "Frameworks/mlx/lib/libmlx.dylib": mach(("/System/Library/Frameworks/Metal.framework/Metal",)),
        "Resources/mlx/lib/mlx.metallib": b"MTLB" + bytes(12),
    }
    for place, content in files.items():
        (contents / place).parent.mkdir(parents=True, exist_ok=True)
        (contents / place).write_bytes(content)
    (contents / "Frameworks/mlx/lib/mlx.metallib").symlink_to("../../../Resources/mlx/lib/mlx.metallib")
    (contents / "Frameworks/mlx.metallib").symlink_to("mlx/lib/mlx.metallib")
    return contents.parent


def put(app: Path, name: str, content: bytes) -> None:
    (app / "Contents" / "Frameworks" / name).write_bytes(content)


def test_an_app_in_order_has_no_fault(app: Path) -> None:
    assert list(mac_check.faults(app)) == []
    assert len(machfiles.mach_files(app)) == 3, "links and data are no code"


def test_code_for_other_processors_only_is_a_fault(app: Path) -> None:
    put(app, "lib.so", mach(processor=X86_64))
    assert list(mac_check.faults(app)) == ["Frameworks/lib.so is not for Apple silicon"]


@pytest.mark.parametrize(
    "name", ["@rpath/libgone.dylib", "@loader_path/libgone.dylib", "/opt/homebrew/lib/libgone.dylib"]
)
def test_a_library_that_is_nowhere_is_a_fault(app: Path, name: str) -> None:
    put(app, "lib.so", mach((name,), ("@loader_path",)))
    assert list(mac_check.faults(app)) == [f"Frameworks/lib.so looks for {name} in vain"]


def test_a_library_outside_the_app_does_not_count(app: Path) -> None:
    (app.parent / "liboutside.dylib").write_bytes(mach())
    put(app, "lib.so", mach(("@rpath/liboutside.dylib",), ("@loader_path/../../..",)))
    assert len(list(mac_check.faults(app))) == 1


def test_a_library_that_may_be_missing_is_no_fault(app: Path) -> None:
    put(app, "lib.so", mach(weak=("@rpath/libmaybe.dylib",)))
    assert list(mac_check.faults(app)) == []


def test_code_for_a_newer_system_than_the_plist_says_is_a_fault(app: Path) -> None:
    put(app, "lib.so", mach(minimum=(26, 0)))
    assert list(mac_check.faults(app)) == [
        "Frameworks/lib.so needs macOS 26.0, Info.plist asks for 14.0 only"
    ]


def test_a_metal_library_that_mlx_would_not_find_is_a_fault(app: Path) -> None:
    (app / "Contents" / "Resources" / "mlx" / "lib" / "mlx.metallib").unlink()
    faults = list(mac_check.faults(app))
    assert len(faults) == 2 and all("Metal library" in fault for fault in faults)


def test_a_plist_and_an_icon_that_differ_are_faults(app: Path) -> None:
    info = app / "Contents" / "Info.plist"
    info.write_bytes(plistlib.dumps(identity.info_plist() | {"NSHighResolutionCapable": "True"}))
    (app / "Contents" / "Resources" / "icon.icns").write_bytes(b"icns\0\0\0\x08")
    faults = list(mac_check.faults(app))
    assert any("NSHighResolutionCapable" in fault for fault in faults)
    assert any(fault.startswith("the icon lacks") for fault in faults)


def test_wheels_are_those_of_this_environment_and_the_mac_s_own() -> None:
    pytest.importorskip("PyInstaller", reason="needs the packaging extra")
    same, other = mac_check.wheels_wanted()
    pinned = {line.partition("==")[0].lower() for line in same}
    assert {"mlx", "mlx-lm", "numpy", "pyinstaller"} <= pinned
    assert not {"mlx-cpu", "veloxquant-studio", "pytest"} & pinned
    assert any(line.startswith("mlx-metal==") for line in other)
    qt = [line for line in other if line.startswith("PySide6")]
    if qt:
        assert "shiboken6" not in pinned, "it comes with the PySide6 that fits"


def test_what_is_assembled_says_that_it_was_never_started() -> None:
    assert "unlaunched" in mac_check.UNLAUNCHED
    assert "unlaunched" in (identity.HERE / "README.md").read_text(encoding="utf-8")
