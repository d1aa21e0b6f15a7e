"""Write plain data as YAML that every reader, of YAML 1.1 or 1.2, reads back as the same data."""

from __future__ import annotations

import yaml

from rainbow_sched.documents.yaml_reader import plain_scalar
from rainbow_sched.model.errors import Invalid


class _Dumper(yaml.SafeDumper):
    """PyYAML quotes text that YAML 1.1 would read as a number; this also quotes what YAML 1.2 would."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        """Return the node of a text, quoted unless a plain scalar means the same."""
        try:
            plain = plain_scalar(text) is text
        except Invalid:
            plain = False
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else "'")

    def ignore_aliases(self, data: object) -> bool:
        """Write a value again instead of referring to it: `documents/reader.py` refuses anchors."""
        return True


_Dumper.add_representer(str, _Dumper.represent_str)


def to_yaml(document: object) -> str:
    """Return the document as ASCII text; keys keep their order."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=False)
    return text
