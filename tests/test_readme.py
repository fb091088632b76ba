"""What the README shows works as it stands there."""

import re
import shlex
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.tiny import tiny_folder
from veloxquant_mlx.__main__ import _parser
from veloxquant_mlx.cache.base import CompressedKVCache

TEXT = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = [dedent(block) for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", TEXT, flags=re.MULTILINE)]
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if line.startswith("veloxquant ")]


def test_the_python_in_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tiny_folder(tmp_path / "model")
    code = next(block for block in BLOCKS if "KVCacheBuilder.for_model" in block)
    assert '"path/to/model"' in code
    names: dict[str, Any] = {}
    exec(code.replace('"path/to/model"', repr(str(folder))), names)
    assert capsys.readouterr().out.strip()
    cache = names["cache"]
    assert len(cache) == 3 and all(isinstance(slot, CompressedKVCache) for slot in cache)
    assert all(slot.offset >= len(names["prompt"]) for slot in cache)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_in_it_are_understood(command: str) -> None:
    options = _parser().parse_args(shlex.split(command)[1:])
    assert callable(options.run)


def test_it_shows_every_command() -> None:
    shown = {command.split()[1] for command in COMMANDS}
    usage = re.search(r"\{([a-z,]+)\}|^\s+COMMAND", _parser().format_help(), flags=re.MULTILINE)
    assert usage is not None
    known = set(re.findall(r"^    ([a-z]+) +\S", _parser().format_help(), flags=re.MULTILINE))
    assert known <= shown
    assert "serve" in shown
