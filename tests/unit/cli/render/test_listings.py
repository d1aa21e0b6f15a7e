"""Listings in every format, frozen."""

import dataclasses
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.cli.commands import accounts, audit, receive, token
from rainbow_sched.cli.render import clusters, jobs
from rainbow_sched.cli.render.listings import Column, Listing, document_text, listing_text, table
from rainbow_sched.cli.render.terminal import width
from rainbow_sched.client.access import AuditLine, AuditLog, GroupInfo, TokenInfo, UserInfo
from rainbow_sched.client.clusters import ClusterInfo, OfferInfo
from rainbow_sched.client.jobs import JobInfo
from rainbow_sched.model.errors import Invalid

LISTING = Listing(
    schema="rainbow.things/1",
    key="things",
    keys=("id", "name", "late"),
    columns=(
        Column("ID", lambda row: str(row["id"]), right=True),
        Column("NAME", lambda row: row.get("name", "")),
        Column("MORE", lambda row: "x", wide=True),
    ),
    name="id",
    fields={"shout": lambda row: row.get("name", "").upper()},
)
ROWS = [{"id": 7, "name": "a"}, {"id": 118, "name": "ü\x1b[31m"}]


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("table", " ID NAME\n  7 a\n118 ü\n"),
        ("wide", " ID NAME MORE\n  7 a    x\n118 ü    x\n"),
        ("name", "7\n118\n"),
        ("jsonl", '{"id": 7, "name": "a"}\n{"id": 118, "name": "\\u00fc\\u001b[31m"}\n'),
        (
            "json",
            '{"schema": "rainbow.things/1", "things": '
            '[{"id": 7, "name": "a"}, {"id": 118, "name": "\\u00fc\\u001b[31m"}]}\n',
        ),
        ("{id:>5}|{shout}", "    7|A\n  118|Ü\n"),
        ("{id} {late}.", "7 .\n118 .\n"),
    ],
)
def test_each_form_is_what_it_was(format, text):
    assert listing_text(LISTING, ROWS, format) == text


def test_yaml_holds_the_same_as_json():
    assert yaml.safe_load(listing_text(LISTING, ROWS, "yaml")) == json.loads(listing_text(LISTING, ROWS, "json"))


def test_an_empty_json_listing_is_still_a_document():
    assert json.loads(listing_text(LISTING, [], "json")) == {"schema": "rainbow.things/1", "things": []}


@pytest.mark.parametrize("format", ["{nope}", "{id.__class__}", "{id[0]}", "{", "{}", "{0}"])
@pytest.mark.parametrize("rows", [ROWS, []], ids=["rows", "none"])
def test_a_format_names_plain_fields_only_also_when_there_is_nothing_to_show(format, rows):
    with pytest.raises(Invalid):
        listing_text(LISTING, rows, format)


@pytest.mark.parametrize("format", ["{id:99999999999999999999}", "{id:%%%}", "{name:9999999999999}"])
def test_a_format_that_cannot_be_followed_is_refused(format):
    with pytest.raises(Invalid, match="is not a format"):
        listing_text(LISTING, ROWS, format)


@pytest.mark.parametrize(
    ("listing", "view"),
    [
        (jobs.listing(0.0), JobInfo),
        (clusters.listing(0.0), ClusterInfo),
        (receive.LISTING, OfferInfo),
        (accounts.USERS, UserInfo),
        (accounts.GROUPS, GroupInfo),
        (token.LISTING, TokenInfo),
        (audit.LISTING, AuditLine),
    ],
)
def test_a_listing_knows_every_key_that_its_rows_may_have(listing, view):
    assert set(listing.keys) == {one.name for one in dataclasses.fields(view)}


def test_machine_output_is_pure_ascii_so_that_it_cannot_harm_a_terminal():
    for format in ("json", "jsonl", "yaml"):
        assert listing_text(LISTING, [{"id": 1, "name": "\u202e\x9b中"}], format).isascii()


@settings(max_examples=80)
@given(st.lists(st.lists(st.text(max_size=12), min_size=3, max_size=3), max_size=6))
def test_columns_are_aligned_for_any_text(cells):
    columns = (
        *(Column(f"C{i}", lambda row, i=i: row[str(i)], right=i == 1) for i in range(3)),
        Column("|", lambda row: "|"),
    )
    lines = table(columns, [{str(i): cell for i, cell in enumerate(row)} for row in cells]).split("\n")[:-1]
    assert len(lines) == len(cells) + 1
    assert all(line.endswith("|") for line in lines)
    assert len({width(line) for line in lines}) == 1


def test_documents_keep_the_order_of_their_keys():
    assert document_text({"schema": "x/1", "b": 1, "a": 2}, "yaml") == "schema: x/1\nb: 1\na: 2\n"


def test_the_audit_log_is_checked_for_programs_too(capsys):
    line = AuditLine(seq=3, at=1.0, actor="ana", digest="d3")
    assert audit.print_verification(AuditLog(lines=(line,), count=3, verified=True), "json") == 0
    found = {"schema": "rainbow.audit-check/1", "verified": True, "count": 3, "digest": "d3"}
    assert json.loads(capsys.readouterr().out) == found
    assert audit.print_verification(AuditLog(lines=(line,), count=3, broken_at=2), "json") == 1
    found = {"schema": "rainbow.audit-check/1", "verified": False, "count": 3, "broken_at": 2}
    assert json.loads(capsys.readouterr().out) == found
