"""Signing and delivery, as the commands that would be run: none of them has been run on a Mac."""

import plistlib
import subprocess
import sys
from pathlib import Path

import deliver
import pytest

MACH = bytes.fromhex("cffaedfe") + bytes(28)
IDENTITY = "Developer ID Application: Somebody (TEAM)"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    contents = tmp_path / "VeloxQuant Studio.app" / "Contents"
    for place in ("MacOS/veloxquant-studio", "Frameworks/libtop.dylib", "Frameworks/mlx/lib/libmlx.dylib"):
        (contents / place).parent.mkdir(parents=True, exist_ok=True)
        (contents / place).write_bytes(MACH)
    (contents / "Resources").mkdir()
    (contents / "Resources" / "words.txt").write_text("no code")
    (contents / "Frameworks" / "libmlx.dylib").symlink_to("mlx/lib/libmlx.dylib")
    return contents.parent


def signed(commands: list[list[str]]) -> list[str]:
    return [Path(c[-1]).name for c in commands if c[0] == "codesign" and "--sign" in c]


def test_what_lies_deepest_is_signed_first_and_the_app_last(app: Path) -> None:
    commands = deliver.signing(app, deliver.AD_HOC)
    assert signed(commands) == ["libmlx.dylib", "libtop.dylib", "VeloxQuant Studio.app"]
    assert commands[-1][:2] == ["codesign", "--verify"]


def test_ad_hoc_has_no_hardened_runtime_and_asks_apple_nothing(app: Path, tmp_path: Path) -> None:
    commands = deliver.commands(app, tmp_path / "out.dmg", deliver.AD_HOC, None)
    words = {word for command in commands for word in command}
    assert not {"runtime", "--entitlements", "notarytool", "stapler", "--timestamp"} & words
    assert commands[-1][0] == "hdiutil" and commands[-1][-1] == str(tmp_path / "out.dmg")


def test_a_developer_id_hardens_and_notarizes_app_and_image(app: Path, tmp_path: Path) -> None:
    image = tmp_path / "out.dmg"
    commands = deliver.commands(app, image, IDENTITY, "profile")
    signing = [c for c in commands if c[0] == "codesign" and "--sign" in c]
    assert all(IDENTITY in c and "--timestamp" in c for c in signing)
    assert all("runtime" in c for c in signing[:-1])
    assert ["--entitlements" in c for c in signing] == [False, False, True, False]
    steps = [c[1] if c[0] == "xcrun" else c[0] for c in commands]
    first, image_made = steps.index("notarytool"), steps.index("hdiutil")
    assert first < steps.index("stapler") < image_made < steps.index("notarytool", image_made)
    assert commands[-1][0] == "spctl"
    assert not any("password" in word for c in commands for word in c)


def test_the_entitlements_are_the_two_that_are_explained() -> None:
    given = plistlib.loads(deliver.ENTITLEMENTS.read_bytes())
    assert given == {
        "com.apple.security.cs.allow-unsigned-executable-memory": True,
        "com.apple.security.cs.disable-library-validation": True,
    }


def test_only_a_busy_disk_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(deliver, "BUSY_SECONDS", 0.0)
    counted = tmp_path / "count"
    for name in ("hdiutil", "codesign"):
        # Works from the third time on.
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\necho x >> "{counted}"\n[ $(wc -l < "{counted}") -ge 3 ]\n')
        script.chmod(0o755)
    deliver.run(["hdiutil", "create"])
    assert counted.read_text() == "x\n" * 3
    counted.unlink()
    with pytest.raises(subprocess.CalledProcessError):
        deliver.run(["codesign"])
    assert counted.read_text() == "x\n"


def test_a_dry_run_prints_and_runs_nothing(app: Path) -> None:
    script = Path(deliver.__file__)
    asked = [
        sys.executable,
        str(script),
        "--dry-run",
        "--app",
        str(app),
        "--identity",
        IDENTITY,
        "--notary",
        "p",
    ]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert all(line.startswith("+ ") for line in lines)
    assert sum("notarytool submit" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["--app", "/nowhere"], "build it first"), (["--notary", "p"], "give --identity too")],
)
def test_what_cannot_be_done_is_said_in_a_sentence(app: Path, arguments: list[str], sentence: str) -> None:
    asked = [sys.executable, deliver.__file__, "--dry-run", "--app", str(app), *arguments]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and sentence in done.stderr
