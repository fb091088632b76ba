"""Icons, Info.plist and the Linux desktop's files are what the systems ask for."""

import plistlib
import shutil
import stat
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import identity
import pytest
from PySide6.QtGui import QColor, QImage
from recipe import COMMAND, IDENTIFIER


@pytest.fixture(scope="module")
def icons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("icnsutil", reason="needs the packaging extra")
    return identity.write_icons(tmp_path_factory.mktemp("icons"))


@pytest.fixture(scope="module")
def share(icons: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("app with spaces $HOME 100%") / "share"
    for place, content in identity.linux_files(icons).items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(content)
    return folder


def test_the_mac_s_icon_fills_all_ten_slots(icons: Path) -> None:
    import icnsutil

    icon = str(icons / "icon.icns")
    slots = icnsutil.IcnsFile(icon).media
    assert set(slots) == {"icp4", "ic11", "icp5", "ic12", "ic07", "ic13", "ic08", "ic14", "ic09", "ic10"}
    assert list(icnsutil.IcnsFile.verify(icon)) == []
    largest = QImage.fromData(slots["ic10"])
    assert largest.width() == largest.height() == 1024
    assert largest.pixelColor(20, 512).alpha() == 0, "macOS wants room around it"
    assert largest.pixelColor(512, 140) != QColor(0, 0, 0, 0)


def test_the_windows_icon_has_its_sizes(icons: Path) -> None:
    from PIL import Image

    with Image.open(icons / "icon.ico") as icon:
        assert icon.info["sizes"] == {(size, size) for size in identity.ICO_SIZES}


def test_pngs_are_drawn_at_their_size_and_the_same_each_time(icons: Path) -> None:
    for size in identity.PNG_SIZES:
        image = QImage(str(icons / f"icon-{size}.png"))
        assert (image.width(), image.height()) == (size, size)
        assert image.pixelColor(size // 2, size // 8).alpha() > 0
    assert identity.png(64) == (icons / "icon-64.png").read_bytes()


def test_the_plist_says_what_macos_needs_in_its_types() -> None:
    info = plistlib.loads(plistlib.dumps(identity.info_plist()))
    assert info["NSHighResolutionCapable"] is True
    assert info["NSRequiresAquaSystemAppearance"] is False
    assert info["CFBundleShortVersionString"] == info["CFBundleVersion"] == identity.version()
    handled = {kind for entry in info["CFBundleDocumentTypes"] for kind in entry["LSItemContentTypes"]}
    assert handled == {"public.folder", identity.GGUF_TYPE}
    declared = info["UTImportedTypeDeclarations"][0]
    assert declared["UTTypeIdentifier"] == identity.GGUF_TYPE
    assert declared["UTTypeTagSpecification"]["public.filename-extension"] == ["gguf"]


def test_the_menu_entry_is_valid(share: Path) -> None:
    tool = shutil.which("desktop-file-validate")
    if tool is None:
        pytest.skip("desktop-file-validate is not installed (desktop-file-utils on Debian)")
    done = subprocess.run([tool, share / f"applications/{COMMAND}.desktop"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_metainfo_is_valid(share: Path) -> None:
    tool = shutil.which("appstreamcli")
    if tool is None:
        pytest.skip("appstreamcli is not installed (appstream on Debian)")
    asked = [tool, "validate", "--no-net", share / f"metainfo/{IDENTIFIER}.metainfo.xml"]
    done = subprocess.run(asked, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_metainfo_names_this_release_and_the_entry(share: Path) -> None:
    root = ET.parse(share / f"metainfo/{IDENTIFIER}.metainfo.xml").getroot()
    release = root.find("releases/release")
    assert release is not None
    assert (release.get("version"), release.get("date")) == identity.release()
    assert root.findtext("id") == IDENTIFIER
    assert root.findtext("launchable") == f"{COMMAND}.desktop"


def test_the_file_type_is_known_by_its_first_bytes(share: Path) -> None:
    kind = ET.parse(share / f"mime/packages/{COMMAND}.xml").getroot()[0]
    assert kind.get("type") == "application/x-gguf"
    spaces = {"m": "http://www.freedesktop.org/standards/shared-mime-info"}
    match = kind.find("m:magic/m:match", spaces)
    assert match is not None and match.get("value") == "GGUF"


def test_the_app_puts_itself_into_the_menu_and_out_again(share: Path, tmp_path: Path) -> None:
    folder = share.parent
    shutil.copy2(identity.HERE / "linux" / "install.sh", folder)
    program = folder / COMMAND
    program.write_text('#!/bin/sh\nprintf "%s" "$1" > "$OUT"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    home = tmp_path / "home"
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "OUT": str(tmp_path / "out")}
    subprocess.run(["sh", folder / "install.sh"], env=environment, check=True)
    entry = home / ".local/share/applications" / f"{COMMAND}.desktop"
    line = next(line for line in entry.read_text().splitlines() if line.startswith("Exec="))
    written = str(program).replace("$", "\\\\$").replace("%", "%%")
    assert line == f'Exec="{written}" %f'
    assert (home / f".local/share/icons/hicolor/48x48/apps/{COMMAND}.png").is_file()
    if tool := shutil.which("desktop-file-validate"):
        assert subprocess.run([tool, entry], capture_output=True).returncode == 0
    subprocess.run(["sh", folder / "install.sh", "--remove"], env=environment, check=True)
    left = [path.name for path in (home / ".local/share").rglob("*") if COMMAND in path.name]
    assert left == []
