"""docs/numbers.md agrees with the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import write_numbers

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_current() -> None:
    written = (ROOT / "docs/numbers.md").read_text(encoding="utf-8")
    assert written == write_numbers.page(), "run `python -m tools.write_numbers docs/numbers.md`"


def test_a_constant_with_a_unit_is_found() -> None:
    names = {number.name: number.value for number in write_numbers.fixed()}
    assert names["MAX_JOBS_PER_CALL"] == 10_000
    assert len(names) > 100


def test_every_number_has_a_reason() -> None:
    numbers = [
        *write_numbers.fixed(),
        *(number for _, numbers in write_numbers.without_option() for number in numbers),
        *(number for _, _, numbers in write_numbers.settable() for number in numbers),
    ]
    bare = [f"{n.module}: {n.name}" for n in numbers if len(n.comment.split()) < 2]  # one word is only a unit
    assert not bare, "write the reason behind the number: NAME = 1  # reason"


def test_arithmetic_on_an_earlier_number_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = numbers_of("DAY_SECONDS = 86_400\nMAX_SECONDS = 2 * DAY_SECONDS  # two days\n", tmp_path, monkeypatch)
    assert names == {"DAY_SECONDS": (86_400, ""), "MAX_SECONDS": (172_800, "two days")}


def test_a_pair_of_numbers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="on a line of its own"):
        numbers_of("A, B = 1, 2  # one reason for both\n", tmp_path, monkeypatch)
    assert numbers_of('_A, _B = 1, 2\nC, D = "c", "d"\n', tmp_path, monkeypatch) == {}


def numbers_of(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[float, str]]:
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model/one.py").write_text(text)
    monkeypatch.setattr(write_numbers, "SOURCE", folder)
    return {number.name: (number.value, number.comment) for number in write_numbers.fixed()}
