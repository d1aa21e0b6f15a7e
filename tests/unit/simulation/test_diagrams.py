"""The diagrams in docs/protocol.md are those of the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

TOOL = Path(__file__).parents[3] / "tools" / "draw_states.py"


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_states", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_diagrams_are_current() -> None:
    assert tool().main(["--check"]) == 0, "run: python tools/draw_states.py"


def test_every_arrow_of_the_tables_is_drawn() -> None:
    draw = tool()
    assert "    queued --> bound: bound" in draw.job()
    assert "    cancelling --> expired: expired" in draw.job()
    assert "    accepted --> confirmed: confirm" in draw.held()
    assert "    submitted --> running" in draw.attempt()
