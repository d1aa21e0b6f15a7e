"""Signed jobs: whatever a stolen server changes, the site notices."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow.model.errors import Denied, Invalid
from rainbow.model.signature import LONGEST, Statement, digest_of, nonce_of, read_keys, sign, verify

SPEC = '{"rainbow":1,"tasks":[{"command":["true"]}]}'
KEY, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
NOW = 1_800_000_000.0
STATEMENT = Statement(
    spec=digest_of(SPEC),
    owner="ana",
    clusters=("perl", "eks-*"),
    not_before=NOW - 10,
    not_after=NOW + 10,
    nonce="0123456789abcdef" * 2,
)
KEYS = {"ana": (KEY.public_key().public_bytes_raw(),), "bob": (OTHER.public_key().public_bytes_raw(),)}
JOB: dict[str, Any] = {"spec": SPEC, "owner": "ana", "cluster": "perl", "now": NOW, "keys": KEYS}
TEXT = sign(STATEMENT, KEY.private_bytes_raw())


def test_what_was_signed_is_taken() -> None:
    assert verify(TEXT, **JOB) == STATEMENT
    assert verify(TEXT, **JOB | {"cluster": "eks-7"}) == STATEMENT
    assert nonce_of(TEXT) == STATEMENT.nonce


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec": SPEC.replace("true", "rm")}, "not the one that was signed"),
        ({"owner": "bob"}, "not signed with a key"),
        ({"owner": "carol"}, "not signed with a key"),
        ({"cluster": "corona"}, "not for corona"),
        ({"now": NOW - 11}, "this time"),
        ({"now": NOW + 10}, "this time"),
        ({"used": 1}, "1 runs"),
        ({"keys": {}}, "not signed with a key"),
        ({"keys": {"ana": KEYS["bob"]}}, "not signed with a key"),
        ({"keys": {"bob": KEYS["ana"]}, "owner": "bob"}, "for jobs of ana"),
    ],
)
def test_anything_else_is_refused_with_the_reason(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Denied, match=why):
        verify(TEXT, **JOB | change)


def test_a_statement_of_another_key_is_refused() -> None:
    with pytest.raises(Denied):
        verify(sign(STATEMENT, OTHER.private_bytes_raw()), **JOB)
    with pytest.raises(Denied):
        verify(sign(replace(STATEMENT, runs=9), OTHER.private_bytes_raw()), **JOB)


@given(at=st.integers(0, len(TEXT) - 1), sign_=st.characters(codec="utf-8"))
@settings(max_examples=300)
def test_no_letter_of_it_can_be_changed_to_mean_something_else(at: int, sign_: str) -> None:
    changed = TEXT[:at] + sign_ + TEXT[at + 1 :]
    try:
        assert verify(changed, **JOB) == STATEMENT  # base64's last letter has bits that mean nothing
    except Denied:
        assert changed != TEXT


@given(text=st.text(max_size=200))
@settings(max_examples=200)
def test_noise_is_refused_and_never_a_fault(text: str) -> None:
    with pytest.raises(Denied):
        verify(text, **JOB)


def test_a_sites_file_lists_keys_by_owner() -> None:
    line = base64.b64encode(KEYS["ana"][0]).decode()
    assert read_keys(f"# staff\nana ed25519 {line}  # laptop\nana ed25519 {line}\n") == {"ana": KEYS["ana"] * 2}
    for wrong in ("ana", f"ana rsa {line}", "ana ed25519 AAAA"):
        with pytest.raises(Invalid, match="line 1"):
            read_keys(wrong)


def test_a_signature_has_an_end() -> None:
    with pytest.raises(Invalid):
        replace(STATEMENT, not_after=NOW + LONGEST + 1)
    with pytest.raises(Invalid):
        replace(STATEMENT, not_after=float("inf"))
