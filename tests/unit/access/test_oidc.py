"""Tokens of an issuer: those that are right name a person, and each of the known tricks is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rainbow_sched.model.errors import Invalid, Unauthenticated
from rainbow_sched.server.oidc import (
    KEY_EXPIRY_SECONDS,
    KEY_REFRESH_SECONDS,
    MIN_REFRESH_INTERVAL_SECONDS,
    OidcOptions,
    OidcVerifier,
)
from rainbow_sched.store.base import Tx
from tests.unit.access.calls import ask, code_of
from tests.unit.access.issuer import Issuer, running_issuer, secret_signed, text_of, unsigned
from tests.unit.access.world import a_world, give

NOW = 1_800_000_000.0
AUDIENCE = "rainbow"


@pytest.fixture(scope="module")
def shared() -> Iterator[Issuer]:
    """One issuer with a key of each kind."""
    with running_issuer() as made:
        for kind in ("RS256", "ES256", "EdDSA", "weak"):
            made.new_key(kind, kind)
        yield made


@pytest.fixture
def issuer(shared: Issuer) -> Issuer:
    """The issuer as it was at first."""
    shared.asked, shared.down, shared.others = 0, False, []
    shared.published = {"RS256", "ES256", "EdDSA", "weak"}
    return shared


def claims(issuer: Issuer, **changes: Any) -> dict[str, Any]:
    """What a good token says."""
    base = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ines", "exp": NOW + 300, "nbf": NOW - 5, "groups": ["Staff"]}
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


def checker(issuer: Issuer, **changes: Any) -> OidcVerifier:
    """Rainbow's side."""
    return OidcVerifier(OidcOptions(issuer=issuer.url, audience=AUDIENCE, groups={"Staff": "staff"}, **changes))


@pytest.mark.parametrize("kind", ["RS256", "ES256", "EdDSA"])
async def test_a_good_token_names_its_person_and_the_groups_that_are_mapped(issuer: Issuer, kind: str) -> None:
    token = issuer.token(kind, claims(issuer, groups=["Staff", "admin", 7]))
    found = await checker(issuer).identify(token, NOW)
    assert found is not None
    assert (found.name, found.groups) == ("ines", {"staff"})


async def test_what_is_no_jwt_is_left_to_others(issuer: Issuer) -> None:
    for text in ("", "rbw_usr_abcdefabcdef_" + "x" * 43, "a.b", "a.b.c.d", "a.!.c", "x" * 20_000 + ".b.c"):
        assert await checker(issuer).identify(text, NOW) is None
    assert issuer.asked == 0


BAD_CLAIMS: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://evil.example"},
    "another audience": {"aud": "someone-else"},
    "a list without us": {"aud": ["a", "b"]},
    "no audience": {"aud": None},
    "expired": {"exp": NOW - 61},
    "no expiry": {"exp": None},
    "an expiry that is no number": {"exp": "never"},
    "an expiry that is true": {"exp": True},
    "an infinite expiry": {"exp": 1e400},
    "not yet": {"nbf": NOW + 61},
    "issued in the future": {"iat": NOW + 61},
    "no user": {"sub": None},
    "the administrator": {"sub": "admin"},
    "a reserved name": {"sub": "anonymous"},
    "a cluster's name": {"sub": "cluster:perl"},
    "control characters": {"sub": "a\x1b[2J"},
    "a list as user": {"sub": ["ines"]},
}


@pytest.mark.parametrize("what", BAD_CLAIMS)
async def test_a_token_with_wrong_claims_is_refused(issuer: Issuer, what: str) -> None:
    token = issuer.token("ES256", claims(issuer, **BAD_CLAIMS[what]))
    with pytest.raises(Unauthenticated):
        await checker(issuer).identify(token, NOW)


async def test_clocks_may_differ_by_a_minute(issuer: Issuer) -> None:
    token = issuer.token("ES256", claims(issuer, exp=NOW - 59, nbf=NOW - 100, aud=["x", AUDIENCE]))
    assert await checker(issuer).identify(token, NOW) is not None


async def test_no_signature_a_wrong_one_and_a_public_key_as_secret_are_refused(issuer: Issuer) -> None:
    good = claims(issuer)
    head, body, signature = issuer.token("RS256", good).split(".")
    other = issuer.token("RS256", claims(issuer, sub="bob")).split(".")[1]
    tricks = [
        *(unsigned(good, alg) + "AA" for alg in ("none", "None", "NONE", "nOnE", "")),
        issuer.confused("RS256", good),
        issuer.confused("ES256", good),
        f"{head}.{other}.{signature}",
        f"{head}.{body}.{text_of(b'0' * 256)}",
        issuer.token("RS256", good, {"kid": "ES256"}),
        issuer.token("ES256", good, {"alg": "RS256"}),
        issuer.token("ES256", good, {"alg": "ES384"}),
        issuer.token("ES256", good, {"alg": ["ES256"]}),
        issuer.token("ES256", good, {"crit": ["b64"], "b64": False}),
        issuer.token("ES256", good, {"crit": ["b64"], "b64": True}),
        issuer.token("ES256", good, {"kid": "../../etc/passwd"}),
        issuer.token("ES256", good, {"kid": {"a": 1}}),
        issuer.token("weak", good),
        f"{head}.{text_of(b'[1]')}.{signature}",
        f"{head}.{text_of(b'[' * 5000)}.{signature}",
    ]
    checking = checker(issuer)
    for trick in tricks:
        with pytest.raises(Unauthenticated):
            await checking.identify(trick, NOW)


async def test_a_key_in_the_header_is_not_believed(issuer: Issuer) -> None:
    stranger = Issuer(url=issuer.url)
    stranger.new_key("mine", "ES256")
    header = {"jwk": stranger.document()["keys"][0], "jku": "http://127.0.0.1:1/keys", "kid": "mine"}
    with pytest.raises(Unauthenticated):
        await checker(issuer).identify(stranger.token("mine", claims(issuer), header), NOW)


async def test_a_key_set_offers_no_more_than_the_three_kinds_of_keys(issuer: Issuer) -> None:
    issuer.new_key("Ed448", "Ed448")
    published = {entry["kid"]: entry for entry in issuer.document()["keys"]}
    issuer.others = [
        {**published["ES256"], "kid": "for encryption", "use": "enc"},
        {**published["ES256"], "kid": "for another algorithm", "alg": "ES384"},
        {**published["ES256"], "kid": "curve", "crv": "P-384"},
        {"kid": "shared", "kty": "oct", "k": text_of(b"k" * 32)},
        {"kid": "broken", "kty": "RSA", "n": "!", "e": "AQAB"},
        {"kid": "empty", "kty": "EC"},
        {"kid": ["list"], "kty": ["EC"]},
    ]
    checking, good = checker(issuer), claims(issuer)
    for id in ("for encryption", "for another algorithm", "curve"):
        with pytest.raises(Unauthenticated):
            await checking.identify(issuer.token("ES256", good, {"kid": id}), NOW)
    for token in (issuer.token("Ed448", good), secret_signed("shared", b"k" * 32, good)):
        with pytest.raises(Unauthenticated):
            await checking.identify(token, NOW)
    assert await checking.identify(issuer.token("ES256", good), NOW) is not None, "the other keys count"


async def test_a_key_without_an_id_serves_tokens_without_one(issuer: Issuer) -> None:
    [nameless] = [dict(entry) for entry in issuer.document()["keys"] if entry["kid"] == "EdDSA"]
    del nameless["kid"]
    issuer.others, issuer.published = [nameless], set()
    token = issuer.token("EdDSA", claims(issuer), {"kid": ""})
    assert await checker(issuer).identify(token, NOW) is not None


@pytest.mark.parametrize("what", ["another issuer", "another audience", "expired", "no expiry", "not yet"])
async def test_wrong_claims_cause_no_fetch_of_keys(issuer: Issuer, what: str) -> None:
    with pytest.raises(Unauthenticated):
        await checker(issuer).identify(issuer.token("ES256", claims(issuer, **BAD_CLAIMS[what])), NOW)
    assert issuer.asked == 0


async def test_keys_are_kept_and_fetched_again_when_a_new_one_appears_but_not_at_an_attackers_pace(
    issuer: Issuer,
) -> None:
    checking = checker(issuer)
    old = issuer.token("ES256", claims(issuer, exp=NOW + 10 * KEY_EXPIRY_SECONDS))
    for _ in range(5):
        await checking.identify(old, NOW)
    assert issuer.asked == 1
    for n in range(50):
        with pytest.raises(Unauthenticated):
            await checking.identify(issuer.token("ES256", claims(issuer), {"kid": f"guess {n}"}), NOW + 1)
    assert issuer.asked == 1
    issuer.new_key("next", "EdDSA")
    assert (
        await checking.identify(issuer.token("next", claims(issuer)), NOW + MIN_REFRESH_INTERVAL_SECONDS + 1)
        is not None
    )
    assert issuer.asked == 2


async def test_a_withdrawn_key_ends_and_an_issuer_out_of_reach_does_not(issuer: Issuer) -> None:
    checking = checker(issuer)
    token = issuer.token("ES256", claims(issuer, exp=NOW + 10 * KEY_EXPIRY_SECONDS))
    await checking.identify(token, NOW)
    issuer.down = True
    assert await checking.identify(token, NOW + KEY_REFRESH_SECONDS + 1) is not None
    with pytest.raises(Unauthenticated):
        await checking.identify(token, NOW + KEY_EXPIRY_SECONDS + 1)
    issuer.down = False
    issuer.published.remove("ES256")
    with pytest.raises(Unauthenticated):
        await checking.identify(token, NOW + 2 * KEY_EXPIRY_SECONDS)


def test_an_issuer_without_https_is_refused() -> None:
    for url in ("http://issuer.example", "ftp://127.0.0.1", "file:///etc/passwd", "//x"):
        with pytest.raises(Invalid, match="https"):
            OidcOptions(issuer=url, audience="x")


async def test_a_person_of_the_issuer_gets_the_rights_of_account_and_groups_and_can_be_disabled(
    issuer: Issuer, tmp_path: Path
) -> None:
    oidc = OidcOptions(issuer=issuer.url, audience=AUDIENCE, groups={"Staff": "staff"})
    async with a_world(tmp_path / "world", oidc=oidc) as world:
        now = world.running.service.core.clock.now()
        token = issuer.token("EdDSA", claims(issuer, exp=now + 600, nbf=now))
        names = {"name": "staff", "create": True}
        admin = world.credentials["admin"]
        await ask(world.channel, "Access/PutGroup", admin, **names, rights={"names": ["submit:beta"]})
        who = await ask(world.channel, "Access/WhoAmI", token)
        assert (who.name, sorted(who.scopes)) == ("ines", ["job:cancel:own", "job:read:own", "submit:beta"])
        assert [c.name for c in (await ask(world.channel, "Clusters/List", token)).clusters] == ["beta"]
        assert await code_of(ask(world.channel, "Access/ListUsers", token)) == "PERMISSION_DENIED"

        def disable(tx: Tx) -> None:
            give(tx, "ines", (), (), now, disabled=True)

        await world.running.service.core.store.write(disable)
        world.running.service.core.credential_resolver.forget()
        assert await code_of(ask(world.channel, "Access/WhoAmI", token)) == "UNAUTHENTICATED"
