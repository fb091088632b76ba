"""Build the packaged app: one command on each platform.

    python3 packaging/dev.py run python packaging/bundle.py [--with-starter] [--keep] [--archive]

Makes ``build/dist/veloxquant-studio`` (Linux, x86-64), or ``build/dist/VeloxQuant Studio.app`` (macOS, Apple
silicon), and ``build/files.txt``: every file of it with its size and SHA-256, the same for the same source
and environment.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import identity
import mac_wheels
import shipped
from recipe import BUILD, COMMAND, IS_MAC, NAME, ROOT, version

DIST = BUILD / "dist"
ARCHIVE_LIMIT = 150_000_000
"""Bytes to download, without the starter model."""


def main() -> int:
    """Build, list, and pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--with-starter", action="store_true", help="put the starter model in (98 MB)")
    parser.add_argument("--keep", action="store_true", help="build nothing, take what was built before")
    parser.add_argument("--archive", action="store_true", help="also pack the folder into a .tar.xz (Linux)")
    options = parser.parse_args()
    app = built_app() if options.keep else build(options.with_starter)
    listed = BUILD / "files.txt"
    listed.write_text(file_list(app), encoding="utf-8")
    print(f"{app.relative_to(ROOT)}: {size(app) / 1e6:.0f} MB")
    if options.archive and not IS_MAC:
        packed = archive(app, BUILD / f"{COMMAND}-{version()}-linux-x86_64.tar.xz")
        takes = packed.stat().st_size
        print(f"{packed.relative_to(ROOT)}: {takes / 1e6:.0f} MB")
        if takes > ARCHIVE_LIMIT and not (app / "_internal" / "models").exists():
            print(f"bundle: that is more than {ARCHIVE_LIMIT / 1e6:.0f} MB", file=sys.stderr)
            return 1
    return 0


def built_app() -> Path:
    """Where the app of this platform is built."""
    return DIST / (f"{NAME}.app" if IS_MAC else COMMAND)


def build(with_starter: bool = False) -> Path:
    """Run PyInstaller and add what the desktop needs; returns the app's folder."""
    if IS_MAC:
        mac_wheels.exchange(shipped.needed().values())
    icons = identity.write_icons(BUILD / "icons")
    environment = os.environ | {
        # Sets are written in the order of their hashes, and files carry a time.
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": str(released()),
        "PYTHONPATH": str(ROOT),
    }
    if with_starter:
        from veloxquant_mlx.models.starter import starter_model

        environment["VELOXQUANT_STARTER"] = str(starter_model())
    command = [
        sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN",
        "--distpath", str(DIST), "--workpath", str(BUILD / "work"),
        str(ROOT / "packaging" / "studio.spec"),
    ]  # fmt: skip
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    app = built_app()
    if IS_MAC:
        # The folder that the .app was made from.
        shutil.rmtree(DIST / COMMAND, ignore_errors=True)
    else:
        for place, content in identity.linux_files(icons).items():
            target = app / "share" / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        shutil.copy2(ROOT / "packaging" / "linux" / "install.sh", app)
    return app


def released() -> int:
    """The day of the newest entry in the changelog, seconds since 1970."""
    return int(datetime.fromisoformat(identity.release()[1]).replace(tzinfo=UTC).timestamp())


def file_list(app: Path) -> str:
    """One line a file: SHA-256, size and place; links with what they point at."""
    lines = []
    for path in sorted(app.rglob("*")):
        place = path.relative_to(app).as_posix()
        if path.is_symlink():
            lines.append(f"link {os.readlink(path)} {place}")
        elif path.is_file():
            content = path.read_bytes()
            lines.append(f"{hashlib.sha256(content).hexdigest()} {len(content)} {place}")
    return "\n".join(lines) + "\n"


def size(app: Path) -> int:
    """Bytes of all files; a link counts nothing."""
    return sum(p.stat().st_size for p in app.rglob("*") if p.is_file() and not p.is_symlink())


def archive(app: Path, target: Path) -> Path:
    """Pack a folder, with nothing in it that says who packed it and when."""

    def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = released()
        return entry

    with tarfile.open(target, "w:xz", preset=6) as packed:
        packed.add(app, app.name, recursive=False, filter=anonymous)
        for path in sorted(app.rglob("*")):
            packed.add(path, f"{app.name}/{path.relative_to(app).as_posix()}", False, filter=anonymous)
    return target


if __name__ == "__main__":
    sys.exit(main())
