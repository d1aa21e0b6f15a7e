"""What is written as YAML is read back as the same data, by this program and by PyYAML (YAML 1.1)."""

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from rainbow_sched.documents.reader import read
from rainbow_sched.documents.yaml_writer import to_yaml

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
numberlike = st.from_regex(r"[-+]?[0-9.]{1,4}([eE][-+]?[0-9]{1,2})?", fullmatch=True)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | numberlike
    | st.sampled_from(["yes", "null", "~", "<<", "=", "0x1F", "017", "1_000", "1:30", "2026-11-16", ".inf", "&a", "*a"])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)


@given(values)
@example({"cluster": "1e+5", "token": "1.5e3", "name": ".5e3"})
def test_written_yaml_is_read_back_the_same(value):
    text = to_yaml({"key": value})
    assert read(text).data == {"key": value}
    assert yaml.safe_load(text) == {"key": value}


def test_a_value_that_is_used_twice_is_written_twice():
    twice = [1, 2]
    assert read(to_yaml({"a": twice, "b": twice})).data == {"a": [1, 2], "b": [1, 2]}
