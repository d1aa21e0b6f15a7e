"""The config file: search order, reading, and writing without losing a key."""

import os
import stat

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.client import config
from rainbow_sched.client.config import Config
from rainbow_sched.client.settings import Overrides, Tls, addresses, read_secret, resolve
from rainbow_sched.model.errors import Invalid, NotFound

PROTOTYPE = """\
scheduler:
    secret: chocolate
    name: rainbow-cluster
    user: vanessa
    algorithms:
        selection: {name: random, options: {}}
        match: {name: match}
cluster: {name: keebler, secret: 2fd0-secret}
graphdatabase:
    name: memory
    host: 127.0.0.1:50051
    options: {host: "127.0.0.1:50099"}
clusters:
    - {name: keebler, token: rainbow}
    - {name: blue, token: sky, colour: azure}
mystery: [1, {two: 3}]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rainbow-config.yaml"
    path.write_text(PROTOTYPE)
    return path


def test_the_prototypes_file_is_read_as_it_is(file):
    found = resolve(Overrides(config_path=str(file)), {})
    assert str(found.servers[0]) == "127.0.0.1:50099"
    assert found.cluster == "keebler"
    assert found.cluster_secret == "2fd0-secret"
    assert found.cluster_tokens == {"keebler": "rainbow", "blue": "sky"}
    assert found.registration_secret == "chocolate"


def test_a_change_keeps_every_other_key_in_its_place(file):
    before = yaml.safe_load(PROTOTYPE)
    changed = config.load(file).with_value("s3", "cluster", "secret").with_cluster_token("blue", "new")
    config.save(changed.with_cluster_token("red", "t"), file)
    after = yaml.safe_load(file.read_text())
    assert list(after) == list(before)
    assert after["mystery"] == before["mystery"]
    assert after["scheduler"] == before["scheduler"]
    assert after["cluster"] == {"name": "keebler", "secret": "s3"}
    assert after["clusters"] == [
        {"name": "keebler", "token": "rainbow"},
        {"name": "blue", "token": "new", "colour": "azure"},
        {"name": "red", "token": "t"},
    ]


words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(
    values=st.dictionaries(words, plain, max_size=5),
    keys=st.lists(words, min_size=1, max_size=3),
)
def test_other_values_in_a_file_survive_a_change(tmp_path_factory, values, keys):
    path = tmp_path_factory.mktemp("config") / "c.yaml"
    config.save(Config(values), path)
    config.save(config.load(path).with_value("set", *keys), path)
    after = config.load(path)
    assert after.get(*keys) == "set"
    assert {key: value for key, value in after.values.items() if key != keys[0]} == {
        key: value for key, value in values.items() if key != keys[0]
    }
    assert [key for key in after.values if key != keys[0]] == [key for key in values if key != keys[0]]


def test_a_saved_file_is_for_its_owner_alone_even_if_it_was_open(file):
    file.chmod(0o644)
    assert config.load(file).exposed()
    config.save(config.load(file), file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not config.load(file).exposed()
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_a_failed_save_leaves_the_old_file_and_no_scratch(file, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        config.save(Config({"a": 1}), file)
    assert file.read_text() == PROTOTYPE
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_the_flag_beats_the_environment_beats_the_file_beats_the_default(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "..")
    file.write_text("server: 127.0.0.1:1\ntoken: from-file\n")
    environment = {"RAINBOW_SERVER": "127.0.0.1:2", "RAINBOW_TOKEN": "from-env", "RAINBOW_CONFIG": str(file)}
    assert str(resolve(Overrides(server="127.0.0.1:3"), environment).servers[0]) == "127.0.0.1:3"
    assert str(resolve(None, environment).servers[0]) == "127.0.0.1:2"
    by_file = resolve(None, {"RAINBOW_CONFIG": str(file)})
    assert (str(by_file.servers[0]), by_file.token, by_file.origins["token"]) == ("127.0.0.1:1", "from-file", "config")
    nothing = resolve(None, {"HOME": str(tmp_path)})
    assert (str(nothing.servers[0]), nothing.origins["server"]) == ("127.0.0.1:50051", "default")


def test_the_file_is_looked_for_in_the_order_of_the_documentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "HOME": "/nowhere"}
    assert config.find(None, environment) is None
    ours = config.user_path(environment)
    config.save(Config({"a": 1}), ours)
    assert config.find(None, environment) == ours
    here = tmp_path / "rainbow-config.yaml"
    here.write_text("b: 2\n")
    assert config.find(None, environment).resolve() == here
    named = tmp_path / "other.yaml"
    named.write_text("c: 3\n")
    assert config.find(None, environment | {"RAINBOW_CONFIG": str(named)}) == named
    assert config.find(str(here), environment | {"RAINBOW_CONFIG": str(named)}) == here


def test_a_file_that_was_named_must_be_there(tmp_path):
    with pytest.raises(NotFound, match="rainbow config init"):
        config.find(str(tmp_path / "no.yaml"), {})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: &x 1\nb: *x\n", "anchors"),
        ("- 1\n- 2\n", "keys and values"),
        ("a: [\n", "not YAML"),
        ("[" * 60 + "]" * 60, "nested deeper than 32 levels"),
    ],
)
def test_what_is_not_a_config_is_refused_with_the_file_named(tmp_path, text, why):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(Invalid, match=why) as refused:
        config.load(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "target", "tls"),
    [
        ("127.0.0.1:50051", "127.0.0.1:50051", False),
        ("localhost", "localhost:50051", False),
        (":50052", "127.0.0.1:50052", False),
        ("[::1]:7", "[::1]:7", False),
        ("rainbow.lab.edu", "rainbow.lab.edu:50051", True),
        ("10.0.0.1:1", "10.0.0.1:1", True),
        ("http://rainbow.lab.edu:1", "rainbow.lab.edu:1", False),
        ("https://127.0.0.1:1/", "127.0.0.1:1", True),
    ],
)
def test_only_loopback_or_an_explicit_http_goes_unencrypted(text, target, tls):
    (found,) = addresses(text)
    assert (found.target, found.tls) == (target, tls)


@pytest.mark.parametrize("text", ["", "ftp://x", "host:0", "host:99999", "host:abc"])
def test_an_address_that_is_none_says_what_one_is(text):
    with pytest.raises(Invalid, match=r"server|port"):
        addresses(text)


def test_an_authority_given_means_tls_even_on_loopback():
    assert resolve(None, {"RAINBOW_CA": "ca.pem", "HOME": "/nowhere"}).servers[0].tls


def test_a_client_certificate_needs_its_key():
    with pytest.raises(Invalid, match="both files"):
        Tls(cert="c.pem")


def test_a_secret_file_holds_one_line(tmp_path):
    path = tmp_path / "secret"
    path.write_text("abc\n")
    assert read_secret(str(path), "the secret") == "abc"
    path.write_text("a\nb\n")
    with pytest.raises(Invalid, match="on one line"):
        read_secret(str(path), "the secret")


def _own_server(tmp_path, mode=0o600):
    path = tmp_path / "rainbow" / "admin.token"
    path.parent.mkdir(exist_ok=True)
    path.write_text("rbu_own\n")
    path.chmod(mode)
    return {"XDG_DATA_HOME": str(tmp_path)}


def test_the_token_of_the_users_own_server_is_used_when_no_other_is_given(tmp_path):
    found = resolve(None, _own_server(tmp_path))
    assert (found.token, found.origins["token"]) == ("rbu_own", "local server")
    given = resolve(None, _own_server(tmp_path) | {"RAINBOW_TOKEN": "mine"})
    assert (given.token, given.origins["token"]) == ("mine", "environment")


@pytest.mark.parametrize("server", ["rainbow.lab.edu", "127.0.0.1,rainbow.lab.edu", "http://10.0.0.1:50051"])
def test_the_token_of_the_users_own_server_goes_to_no_other_machine(tmp_path, server):
    assert resolve(Overrides(server=server), _own_server(tmp_path)).token == ""


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_token_file_that_others_can_open_is_not_used(tmp_path, mode):
    assert resolve(None, _own_server(tmp_path, mode)).token == ""


def test_no_own_server_is_no_token(tmp_path):
    assert resolve(None, {"XDG_DATA_HOME": str(tmp_path)}).token == ""
    assert resolve(None, {}).token == ""
