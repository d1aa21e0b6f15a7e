"""Generate docs/api.md from the comments in proto/rainbow/v2; `make proto` runs it, and a test compares the result."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILES = ("jobs", "clusters", "agents", "access")
HEAD = """\
# API reference: `rainbow.v2`

Generated from `proto/rainbow/v2/*.proto` by `tools/generate_api_reference.py` (`make proto`); a test keeps it current.

The API is gRPC, on the same port as the prototype's services. Send the credential as metadata
`authorization: Bearer rbw_...`. The server also offers the standard health service and reflection.
[access.md](access.md) says who may call what, [python.md](python.md) describes the client.

- Times are seconds since the epoch, durations are seconds, unless the field says otherwise.
- An absent `optional` field is unknown. An empty string, or 0, in a field that is not `optional` means "not given".
- Field numbers are never reused. Unknown fields are ignored.
"""
TYPES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string", 12: "bytes", 13: "uint32",
}  # fmt: skip
MESSAGE, ENUM, REPEATED = 11, 14, 3
SERVICE_PATH, MESSAGE_PATH, METHOD_PATH, FIELD_PATH = 6, 4, 2, 2  # field numbers in descriptor.proto


def page() -> str:
    """Return the whole page."""
    return "\n".join((HEAD, *(line for file in _descriptors() for line in _file(file)))).rstrip() + "\n"


def _descriptors() -> list[Any]:
    """Return the descriptors of our .proto files, with the source info that holds the comments."""
    from google.protobuf import descriptor_pb2
    from grpc_tools import protoc

    names = [f"rainbow/v2/{name}.proto" for name in FILES]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "set"
        include = f"-I{ROOT / 'proto'}"
        if protoc.main(["protoc", include, "--include_source_info", f"--descriptor_set_out={out}", *names]) != 0:
            sys.exit("protoc failed")
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    by_name = {file.name: file for file in files}
    return [by_name[name] for name in names]


def _file(file: Any) -> Iterator[str]:
    comments = {tuple(at.path): _comment(at) for at in file.source_code_info.location}
    for number, service in enumerate(file.service):
        yield f"## Service `{service.name}`\n"
        if text := comments.get((SERVICE_PATH, number)):
            yield f"{text}\n"
        yield "| RPC | request | response | |\n|---|---|---|---|"
        for place, method in enumerate(service.method):
            text = comments.get((SERVICE_PATH, number, METHOD_PATH, place), "")
            request = f"{'stream of ' * method.client_streaming}{_link(method.input_type)}"
            response = f"{'stream of ' * method.server_streaming}{_link(method.output_type)}"
            yield f"| `{method.name}` | {request} | {response} | {_cell(text)} |"
        yield ""
    for number, message in enumerate(file.message_type):
        yield from _message(message, (MESSAGE_PATH, number), comments)


def _message(message: Any, path: tuple[int, ...], comments: dict[tuple[int, ...], str]) -> Iterator[str]:
    yield f"### {message.name}\n"
    if text := comments.get(path):
        yield f"{text}\n"
    if not message.field:
        yield "No fields.\n"
        return
    yield "| field | type | no. | |\n|---|---|---|---|"
    entries = {nested.name: nested.field for nested in message.nested_type if nested.options.map_entry}
    for place, field in enumerate(message.field):
        text = comments.get((*path, FIELD_PATH, place), "")
        yield f"| `{field.name}` | {_type(message, field, entries)} | {field.number} | {_cell(text)} |"
    yield ""


def _type(message: Any, field: Any, entries: dict[str, Sequence[Any]]) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2]) if field.type == MESSAGE else None
    if entry:
        return f"map of {_plain(entry[0])} to {_plain(entry[1])}"
    words = _plain(field)
    if field.label == REPEATED:
        return f"repeated {words}"
    if field.proto3_optional:
        return f"optional {words}"
    if field.HasField("oneof_index"):
        return f"{words} (one of `{message.oneof_decl[field.oneof_index].name}`)"
    return words


def _plain(field: Any) -> str:
    return _link(field.type_name) if field.type in (MESSAGE, ENUM) else TYPES[field.type]


def _link(type_name: str) -> str:
    name = type_name.rpartition(".")[2]
    return f"[{name}](#{name.lower()})"


def _comment(at: Any) -> str:
    return " ".join(f"{at.leading_comments} {at.trailing_comments}".split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write docs/api.md."""
    (ROOT / "docs/api.md").write_text(page(), encoding="utf-8")
    print("wrote docs/api.md")


if __name__ == "__main__":
    main()
