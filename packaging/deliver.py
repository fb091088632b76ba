"""Sign the macOS app and pack it into a disk image; with a Developer ID also have Apple notarize it.

    python packaging/deliver.py                                          ad-hoc: for this Mac and testers
    python packaging/deliver.py --identity "Developer ID Application: NAME (TEAM)" --notary PROFILE
    python packaging/deliver.py --dry-run [...]                          print the commands, run none

PROFILE is a keychain profile made once with ``xcrun notarytool store-credentials``. Needs macOS and Xcode's
command-line tools, but for ``--dry-run``. None of it has been run on a Mac yet: packaging/README.md.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

from bundle import DIST
from machfiles import mach_files
from recipe import BUILD, NAME, ROOT, version

ENTITLEMENTS = ROOT / "packaging" / "entitlements.plist"
AD_HOC = "-"
BUSY_TRIES, BUSY_SECONDS = 6, 5.0


def main() -> int:
    """Sign, pack, and with an identity notarize."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--app", type=Path, default=DIST / f"{NAME}.app")
    parser.add_argument("--identity", default=AD_HOC, help="a Developer ID; without it ad-hoc")
    parser.add_argument("--notary", metavar="PROFILE", help="keychain profile for notarytool")
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    options = parser.parse_args()
    if not options.app.is_dir():
        sys.exit(f"{options.app} is not there: build it first with packaging/bundle.py.")
    if options.notary and options.identity == AD_HOC:
        sys.exit("Apple notarizes only what a Developer ID has signed: give --identity too.")
    image = BUILD / f"VeloxQuant-Studio-{version()}-macos-arm64.dmg"
    for command in commands(options.app, image, options.identity, options.notary):
        print("+", shlex.join(command), flush=True)
        if not options.dry_run:
            run(command)
    return 0


def run(command: list[str]) -> None:
    """Run one of them to its end. Raises CalledProcessError.

    ``hdiutil`` may find its own new disk held by the system's virus scanner ("Resource busy"): that passes.
    """
    tries = BUSY_TRIES if command[0] == "hdiutil" else 1
    while subprocess.run(command, check=tries == 1).returncode:
        tries -= 1
        time.sleep(BUSY_SECONDS)


def commands(app: Path, image: Path, identity: str, profile: str | None) -> list[list[str]]:
    """Every command in its order. Without an identity the app is signed ad-hoc and nothing is notarized."""
    staging, archive = image.parent / "dmg", image.with_suffix(".zip")
    planned = signing(app, identity)
    if profile:
        # The app's own ticket: it is stapled before it goes into the image, so that it starts offline.
        planned += [
            ["ditto", "-c", "-k", "--keepParent", str(app), str(archive)],
            *notarizing(archive, app, profile),
        ]
    planned += [
        ["rm", "-rf", str(staging), str(image)],
        ["mkdir", "-p", str(staging)],
        ["ditto", str(app), str(staging / app.name)],
        ["ln", "-s", "/Applications", str(staging / "Applications")],
        [
            "hdiutil", "create", "-ov", "-volname", NAME, "-srcfolder", str(staging), "-fs", "HFS+",
            "-format", "ULFO", str(image),
        ],
    ]  # fmt: skip
    if identity != AD_HOC:
        planned.append(["codesign", "--force", "--timestamp", "--sign", identity, str(image)])
    if profile:
        planned += notarizing(image, image, profile)
        planned.append(["spctl", "--assess", "--type", "execute", "--verbose=4", str(app)])
    return planned


def signing(app: Path, identity: str) -> list[list[str]]:
    """From the innermost library outwards, the app itself last; then the check."""
    sign = ["codesign", "--force", "--sign", identity]
    if identity == AD_HOC:
        sign.append("--timestamp=none")
        outer = sign
    else:
        sign += ["--timestamp", "--options", "runtime"]
        outer = [*sign, "--entitlements", str(ENTITLEMENTS)]
    main = app / "Contents" / "MacOS"
    inner = [path for path in mach_files(app) if main not in path.parents]
    inner.sort(key=lambda path: (-len(path.parts), str(path)))
    return [
        *([*sign, str(path)] for path in inner),
        [*outer, str(app)],
        ["codesign", "--verify", "--deep", "--strict", "--verbose=2", str(app)],
    ]


def notarizing(sent: Path, stapled: Path, profile: str) -> list[list[str]]:
    """Send to Apple, wait for the answer, and fasten the ticket."""
    return [
        ["xcrun", "notarytool", "submit", str(sent), "--keychain-profile", profile, "--wait"],
        ["xcrun", "stapler", "staple", str(stapled)],
        ["xcrun", "stapler", "validate", str(stapled)],
    ]


if __name__ == "__main__":
    if sys.platform != "darwin" and "--dry-run" not in sys.argv[1:] and shutil.which("codesign") is None:
        sys.exit("Signing needs macOS; --dry-run prints what would be run.")
    sys.exit(main())
