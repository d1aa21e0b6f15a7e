"""A stolen server against a site that runs only what its users have signed: nothing runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.agent.backends import BackendSettings, load_backend
from rainbow_sched.agent.core.state import AgentLimits
from rainbow_sched.agent.runtime.journal import Journal
from rainbow_sched.agent.runtime.loop import Agent, AgentParts
from rainbow_sched.agent.runtime.site_rules import (
    USED_FILE,
    SignatureChecker,
    SiteRules,
    UsedSignatures,
    signature_checker,
)
from rainbow_sched.client.signatures import signed
from rainbow_sched.client.submission import JobSubmission
from rainbow_sched.jobspecs.canonical import from_json, to_json
from rainbow_sched.model.errors import Corrupt, Denied, Invalid
from rainbow_sched.model.job import Delivery, Terms
from rainbow_sched.model.signature import CONTEXT, MAX_SKEW_SECONDS, format_signature, parse_signature, signer_line
from rainbow_sched.protocol.messages import AttemptRef, Offer
from tests.support.backends import a_graph, a_request
from tests.unit.agent.runtime.test_loop import Desk

NOW = 1_000_000.0
ANA, BOB, EVE = (Ed25519PrivateKey.generate() for _ in range(3))


def line_of(name: str, key: Ed25519PrivateKey) -> str:
    return signer_line(name, key.public_key().public_bytes_raw())


@dataclass
class Site:
    """An agent's place that asks for signatures; ana and bob have their keys there, eve has none."""

    folder: Path
    now: float = NOW

    def __post_init__(self) -> None:
        lines = [line_of("ana", ANA), "# a comment", line_of("bob", BOB)]
        (self.folder / "signers").write_text("\n".join(lines))

    def signatures(self, **changes: object) -> SignatureChecker:
        spent = UsedSignatures(self.folder / USED_FILE, self.now)
        return SignatureChecker("here", self.folder / "signers", spent, clock=lambda: self.now, **changes)

    async def run(self, *offers: Offer) -> dict[int, str]:
        """One agent with a new journal is offered all of these; what became of each job."""
        desk = Desk(offers=list(offers))
        folder = self.folder / f"agent{len(list(self.folder.iterdir()))}"
        with Journal(folder) as journal:
            backend = load_backend("local")(BackendSettings(cluster="here", directory=folder, graph=a_graph()))
            parts = AgentParts(
                cluster="here",
                link=desk,
                backend=backend,
                journal=journal,
                limits=AgentLimits(max_wait=0.5),
                rules=SiteRules(signatures=self.signatures()),
            )
            async with asyncio.timeout(30):
                await Agent(parts, once=True).run()
        ended = {ref.job: report.reason for ref, report in desk.ends.items()}
        return ended | {ref.job: reason for ref, reason in desk.rejects.items()}

    @property
    def runs(self) -> int:
        """How often the job was started: each start leaves a file."""
        return len(list(self.folder.glob("ran.*")))

    def offer(self, job: int = 1, key: Ed25519PrivateKey = ANA, owner: str = "ana", **terms: object) -> Offer:
        """What an honest server makes of a job that `owner` signed."""
        request = a_request("sh", "-c", f"mktemp {self.folder}/ran.XXXXXX")
        array = str(terms.pop("array", ""))
        asked = JobSubmission(canonical=to_json(request), name="job", terms=Terms(**terms), array=array)
        made = signed(asked, key, owner, self.now).terms
        index = int(array.partition("-")[0]) if array else None
        labels = {**made.labels, "array_index": str(index)} if array else dict(made.labels)
        sent = {"signature": made.signature, "labels": labels, "delivery": made.delivery.value}
        return Offer(
            ref=AttemptRef(job, 1, f"t{job}"),
            name="job",
            owner=owner,
            spec=asked.canonical,
            terms=json.dumps(sent),
            priority=made.priority,
            array_index=index,
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def with_terms(offer: Offer, **changes: object) -> Offer:
    return replace(offer, terms=json.dumps({**json.loads(offer.terms), **changes}))


def another_command(offer: Offer) -> Offer:
    request = from_json(offer.spec)
    task = replace(request.tasks[0], command=(*request.tasks[0].command[:2], "echo stolen; " + offer.spec[-20:]))
    return replace(offer, spec=to_json(replace(request, tasks=(task,))))


def another_request(**changes: object) -> Callable[[Offer], Offer]:
    return lambda offer: replace(offer, spec=to_json(replace(from_json(offer.spec), **changes)))


TAMPERINGS: dict[str, Callable[[Offer], Offer]] = {
    "another command": another_command,
    "another environment": another_request(environment={"LD_PRELOAD": "evil.so"}),
    "another directory": another_request(cwd="/"),
    "another image": another_request(image="evil"),
    "a longer time": another_request(duration=9_999.0),
    "another form of the same request": lambda offer: replace(offer, spec=offer.spec + " "),
    "another name": lambda offer: replace(offer, name="other"),
    "another priority": lambda offer: replace(offer, priority=9),
    "another label": lambda offer: with_terms(offer, labels={"team": "bio"}),
    "a member of an array": lambda offer: replace(offer, array_index=3),
    "another owner": lambda offer: replace(offer, owner="bob"),
    "an owner who has no key here": lambda offer: replace(offer, owner="eve"),
    "no owner": lambda offer: replace(offer, owner=""),
    "no signature": lambda offer: with_terms(offer, signature=""),
    "no terms": lambda offer: replace(offer, terms="[]"),
    "a signature that is a list": lambda offer: with_terms(offer, signature=["x"]),
    "half a signature": lambda offer: with_terms(offer, signature=json.loads(offer.terms)["signature"][:-40]),
}


@pytest.mark.parametrize("what", TAMPERINGS)
async def test_a_job_that_the_server_changed_is_handed_back(site: Site, what: str):
    reasons = await site.run(TAMPERINGS[what](site.offer()))
    assert "sign" in reasons[1]
    assert site.runs == 0


async def test_a_job_as_it_was_signed_runs(site: Site):
    await site.run(site.offer())
    assert site.runs == 1


async def test_a_stolen_server_that_signs_itself_is_refused(site: Site):
    reasons = await site.run(site.offer(1, EVE, "ana"), site.offer(2, EVE, "eve"), site.offer(3, BOB, "ana"))
    assert len(reasons) == 3
    assert site.runs == 0


async def test_a_signature_serves_once_whatever_it_is_called_the_second_time(site: Site):
    first = site.offer(1)
    again = [replace(first, ref=AttemptRef(2, 1, "t2")), replace(first, ref=AttemptRef(1, 2, "x")), first]
    await site.run(first)
    assert site.runs == 1
    for offer in again:  # each to an agent whose journal is lost; what was used is remembered elsewhere
        reasons = await site.run(offer)
        assert "allows starting the job once" in reasons[offer.ref.job]
    assert site.runs == 1


async def test_of_two_jobs_with_one_signature_that_come_together_one_runs(site: Site):
    first = site.offer(1)
    await site.run(first, replace(first, ref=AttemptRef(2, 1, "t2")), replace(first, ref=AttemptRef(3, 1, "t3")))
    assert site.runs == 1


async def test_the_members_of_a_signed_array_run_once_each(site: Site):
    first = site.offer(1, array="1-3")
    asked = replace(first, ref=AttemptRef(2, 1, "t2"), array_index=3)
    outside = replace(first, ref=AttemptRef(3, 1, "t3"), array_index=4)
    none = replace(first, ref=AttemptRef(4, 1, "t4"), array_index=None)
    twice = replace(first, ref=AttemptRef(5, 1, "t5"))
    reasons = await site.run(first, asked, outside, none, twice)
    assert site.runs == 2
    assert "member of an array" in reasons[3]
    assert "member of an array" in reasons[4]


def test_retries_are_signed_for_and_no_more(site: Site):
    offer, held = site.offer(retries=2), site.signatures()
    for n in (1, 2, 3):
        assert held.refuses(offer) is None
        held.take(replace(offer, ref=AttemptRef(1, n, f"t{n}")))
    assert "3 times" in str(held.refuses(offer))
    with pytest.raises(Denied):
        held.take(replace(offer, ref=AttemptRef(1, 4, "t4")))


@pytest.mark.parametrize(
    ("terms", "runs"),
    [
        ({}, 1),
        ({"retries": 2}, 3),
        ({"reruns": 4}, 5),
        ({"delivery": Delivery.AT_LEAST_ONCE}, 4),
        ({"retries": 2, "reruns": 4}, 7),
        ({"retries": 100, "reruns": 100}, 201),
    ],
    ids=str,
)
def test_a_signature_is_good_for_one_run_and_each_retry_and_each_rerun(site: Site, terms: dict[str, object], runs: int):
    offer, held = site.offer(**terms), site.signatures()
    for n in range(1, runs + 1):
        assert held.refuses(offer) is None
        held.take(replace(offer, ref=AttemptRef(1, n, f"t{n}")))
    assert held.refuses(offer) is not None
    with pytest.raises(Denied):
        held.take(replace(offer, ref=AttemptRef(1, runs + 1, "one more")))


def test_a_signature_of_an_older_client_means_what_it_meant(site: Site):
    """Before reruns had a number, `--rerun --retries 2` was signed for 1 + 2 + 9 runs."""
    offer = site.offer(retries=2, reruns=3)
    statement = {
        "job": parse_signature(json.loads(offer.terms)["signature"])[0].job,
        "owner": "ana",
        "clusters": ["*"],
        "array": "",
        "not_before": NOW,
        "not_after": NOW + 7 * 86_400.0,
        "nonce": "0123456789abcdef" * 2,
        "runs": 12,
    }
    body = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    offer, held = with_terms(offer, signature=format_signature(body, ANA.sign(CONTEXT + body))), site.signatures()
    for n in range(1, 13):
        assert held.refuses(offer) is None
        held.take(replace(offer, ref=AttemptRef(1, n, f"t{n}")))
    assert "12 times" in str(held.refuses(offer))


def test_a_start_that_a_crash_cut_off_may_go_on_and_no_other(site: Site):
    offer = site.offer()
    site.signatures().take(offer)
    restarted = site.signatures()
    restarted.take(offer)
    with pytest.raises(Denied):
        restarted.take(replace(offer, ref=AttemptRef(1, 2, "x")))
    assert restarted.refuses(offer) is not None, "offered anew, it is a replay: an attempt at hand is not offered"


def test_a_signature_is_good_within_its_time_and_on_its_clusters(site: Site):
    held = site.signatures()
    assert held.refuses(site.offer(only_clusters=("elsewhere",))) is not None
    assert held.refuses(site.offer(only_clusters=("elsewhere", "he*"))) is None
    late = site.offer(start_after=NOW + 500)
    assert "not valid yet" in str(held.refuses(late))
    short = site.offer(deadline=NOW + 100)
    site.now = NOW + 500 - MAX_SKEW_SECONDS
    assert held.refuses(late) is None
    assert "has expired" in str(held.refuses(short))


def test_what_was_used_is_remembered_until_it_could_not_be_used_again(site: Site):
    offer = site.offer()
    site.signatures().take(offer)
    site.now = NOW + 7.5 * 86_400
    size = (site.folder / USED_FILE).stat().st_size
    assert "has expired" in str(site.signatures().refuses(offer))
    assert (site.folder / USED_FILE).stat().st_size == size
    site.now = NOW + 9 * 86_400
    assert "has expired" in str(site.signatures().refuses(offer))
    assert (site.folder / USED_FILE).stat().st_size == 0


def test_a_damaged_memory_of_signatures_is_refused_and_a_cut_one_is_mended(site: Site):
    held = site.signatures()
    for job in (1, 2):
        held.take(site.offer(job))
    path = site.folder / USED_FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert site.signatures().spent is not None
    assert path.read_bytes() == whole.splitlines(keepends=True)[0]
    path.write_bytes(b"x" + whole)
    with pytest.raises(Corrupt):
        site.signatures()


def test_keys_are_read_again_when_the_file_changes(site: Site):
    held = site.signatures()
    assert held.refuses(site.offer()) is None
    (site.folder / "signers").write_text(line_of("bob", BOB))
    assert "has for ana" in str(held.refuses(site.offer()))
    (site.folder / "signers").unlink()
    assert "cannot read" in str(held.refuses(site.offer(1, BOB, "bob")))


def test_a_file_of_signers_that_others_can_write_is_refused(site: Site):
    (site.folder / "signers").chmod(0o664)
    with pytest.raises(Invalid, match="must not be writable by other users"):
        signature_checker("here", site.folder, str(site.folder / "signers"), True, NOW)
    with pytest.raises(Invalid, match="--allowed-signers"):
        signature_checker("here", site.folder, "", True, NOW)
    assert signature_checker("here", site.folder, "", False, NOW) is None


def test_where_signatures_are_not_asked_for_wrong_ones_are_still_refused(site: Site):
    held = site.signatures(required=False)
    assert held.refuses(with_terms(site.offer(), signature="")) is None
    assert held.refuses(another_command(site.offer())) is not None


@settings(max_examples=150)
@given(st.data())
def test_no_altered_text_of_a_signature_is_taken(data: st.DataObject):
    key = Ed25519PrivateKey.generate()
    asked = JobSubmission(canonical="{}", name="job")
    text = signed(asked, key, "ana", NOW).terms.signature
    at = data.draw(st.integers(0, len(text) - 1))
    sign = data.draw(st.sampled_from("AQgw_-9.=\n +/"))
    altered = text[:at] + sign + text[at + 1 :]
    if altered == text:
        return
    try:
        _, body, signature = parse_signature(altered)
        key.public_key().verify(signature, b"rainbow signed job 1\0" + body)
    except (Denied, InvalidSignature):
        return
    assert parse_signature(altered)[0] == parse_signature(text)[0], "another way to write the same signature at most"
