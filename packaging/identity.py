"""What systems know the app by: icons, macOS's Info.plist, and the Linux desktop's files."""

import io
import os
import re
from pathlib import Path
from typing import Any

from recipe import COMMAND, IDENTIFIER, MINIMUM_MACOS, NAME, ROOT, version

HERE = Path(__file__).resolve().parent
SOURCE = ROOT / "assets" / "icon.svg"
PNG_SIZES = (16, 24, 32, 48, 64, 128, 256, 512)
ICO_SIZES = (16, 24, 32, 48, 64, 256)
ICNS_SIZES = (16, 32, 128, 256, 512)
"""In points; each has a slot for screens of twice the resolution too."""
APPLE_SHARE = 0.844
"""macOS sets icons into a frame: 824 of 1024 pixels are the icon's, and the drawing leaves some itself."""

GGUF_TYPE = "org.ggml.gguf"


def png(size: int, share: float = 1.0) -> bytes:
    """The icon as a PNG of ``size`` pixels, the drawing filling ``share`` of each side."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import QBuffer, QIODevice, QRectF
    from PySide6.QtGui import QImage, QPainter
    from PySide6.QtSvg import QSvgRenderer

    image = QImage(size, size, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(0)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    margin = size * (1 - share) / 2
    QSvgRenderer(str(SOURCE)).render(painter, QRectF(margin, margin, size * share, size * share))
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]
    return bytes(buffer.data().data())


def write_icons(folder: Path) -> Path:
    """Write ``icon.icns``, ``icon.ico`` and ``icon-SIZE.png`` into ``folder`` and return it."""
    import icnsutil
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for size in PNG_SIZES:
        (folder / f"icon-{size}.png").write_bytes(png(size))
    images = [Image.open(io.BytesIO(png(size))) for size in ICO_SIZES]
    images[-1].save(
        folder / "icon.ico", sizes=[(size, size) for size in ICO_SIZES], append_images=images[:-1]
    )
    icns = icnsutil.IcnsFile()
    for size in ICNS_SIZES:
        icns.add_media(file=f"{size}x{size}.png", data=png(size, APPLE_SHARE))
        icns.add_media(file=f"{size}x{size}@2x.png", data=png(2 * size, APPLE_SHARE))
    # Without a table of contents, which some versions of macOS misread.
    icns.write(str(folder / "icon.icns"), toc=False)
    return folder


def info_plist() -> dict[str, Any]:
    """What macOS is told about the app."""
    return {
        "CFBundleName": NAME,
        "CFBundleDisplayName": NAME,
        "CFBundleIdentifier": IDENTIFIER,
        "CFBundleExecutable": COMMAND,
        "CFBundleIconFile": "icon.icns",
        "CFBundlePackageType": "APPL",
        "CFBundleInfoDictionaryVersion": "6.0",
        "CFBundleDevelopmentRegion": "en",
        "CFBundleShortVersionString": version(),
        "CFBundleVersion": version(),
        "LSApplicationCategoryType": "public.app-category.developer-tools",
        "LSMinimumSystemVersion": MINIMUM_MACOS,
        "LSArchitecturePriority": ["arm64"],
        "NSPrincipalClass": "NSApplication",
        "NSHighResolutionCapable": True,
        # False: dark mode is followed.
        "NSRequiresAquaSystemAppearance": False,
        "NSHumanReadableCopyright": "Apache License 2.0",
        "CFBundleDocumentTypes": [
            {
                "CFBundleTypeName": "Model folder",
                "CFBundleTypeRole": "Viewer",
                "LSHandlerRank": "Alternate",
                "LSItemContentTypes": ["public.folder"],
            },
            {
                "CFBundleTypeName": "GGUF model",
                "CFBundleTypeRole": "Viewer",
                "LSHandlerRank": "Alternate",
                "LSItemContentTypes": [GGUF_TYPE],
            },
        ],
        "UTImportedTypeDeclarations": [
            {
                "UTTypeIdentifier": GGUF_TYPE,
                "UTTypeDescription": "GGUF model",
                "UTTypeConformsTo": ["public.data"],
                "UTTypeTagSpecification": {"public.filename-extension": ["gguf"]},
            }
        ],
    }


def release() -> tuple[str, str]:
    """Version and date (YYYY-MM-DD) of the newest entry in the changelog."""
    text = (HERE / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", text, flags=re.MULTILINE)
    if found is None:
        raise ValueError("CHANGELOG.md has no entry of the form '## 1.2.3 (2026-01-31)'.")
    return found[1], found[2]


def linux_files(icons: Path) -> dict[str, bytes]:
    """Place below ``share/`` -> content: menu entry, AppStream metadata, file type and icons."""
    number, date = release()
    folder = HERE / "linux"
    metainfo = (folder / f"{IDENTIFIER}.metainfo.xml").read_text(encoding="utf-8")
    files = {
        f"applications/{COMMAND}.desktop": (folder / f"{COMMAND}.desktop").read_bytes(),
        f"mime/packages/{COMMAND}.xml": (folder / f"{COMMAND}-mime.xml").read_bytes(),
        f"metainfo/{IDENTIFIER}.metainfo.xml": metainfo.replace("@VERSION@", number)
        .replace("@DATE@", date)
        .encode(),
        f"icons/hicolor/scalable/apps/{COMMAND}.svg": SOURCE.read_bytes(),
    }
    for size in PNG_SIZES:
        place = f"icons/hicolor/{size}x{size}/apps/{COMMAND}.png"
        files[place] = (icons / f"icon-{size}.png").read_bytes()
    return files
