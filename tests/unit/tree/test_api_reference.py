"""docs/api.md agrees with the comments in proto/rainbow/v2."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def generator(monkeypatch):
    """The tool, if protoc is installed."""
    pytest.importorskip("grpc_tools", reason="optional: with the newest versions the generator is not installed")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import generate_api_reference

    yield generate_api_reference
    sys.modules.pop("generate_api_reference")


def test_the_api_reference_is_current(generator):
    assert (ROOT / "docs/api.md").read_text(encoding="utf-8") == generator.page(), "run `make proto`"


def test_every_rpc_message_and_field_has_a_comment(generator):
    empty = [line for line in generator.page().splitlines() if line.startswith("| `") and line.endswith("|  |")]
    blocks = generator.page().split("\n### ")[1:]
    silent = [block.splitlines()[0] for block in blocks if block.splitlines()[2].startswith(("|", "No fields"))]
    assert (empty, silent) == ([], [])
