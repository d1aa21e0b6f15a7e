"""docs/numbers.md agrees with the source."""

from __future__ import annotations

from pathlib import Path

from tools import write_numbers

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_current() -> None:
    written = (ROOT / "docs/numbers.md").read_text(encoding="utf-8")
    assert written == write_numbers.page(), "run `python -m tools.write_numbers docs/numbers.md`"


def test_a_constant_with_a_unit_is_found() -> None:
    names = {number.name: number.value for number in write_numbers.fixed()}
    assert names["MAX_JOBS_PER_CALL"] == 10_000
    assert len(names) > 100
