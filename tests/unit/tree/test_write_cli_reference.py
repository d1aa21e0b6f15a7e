"""The reference of the command line in the docs is what `tools/write_cli_reference.py` writes."""

from pathlib import Path

from tools.write_cli_reference import main, page

ROOT = Path(__file__).parents[3]


def test_the_reference_in_the_docs_is_current() -> None:
    current = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert current == page(), "run: python -m tools.write_cli_reference docs/cli.md"


def test_the_page_is_written_to_the_named_file(tmp_path: Path) -> None:
    main([str(tmp_path / "page.md")])
    written = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert written == page()
    assert "### rainbow token create" in written, "commands inside groups too"
