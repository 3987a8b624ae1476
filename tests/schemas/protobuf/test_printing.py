"""A descriptor -> text."""

from __future__ import annotations

import pytest
from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    struct_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from headrace.schemas.protobuf.compiler import compile_proto, main_file
from headrace.schemas.protobuf.parsing import canonical_bytes
from headrace.schemas.protobuf.printing import default_json_name, print_proto

EVERYTHING_2 = r"""
syntax = "proto2";
package a.b;
option java_package = "org.example";
option optimize_for = CODE_SIZE;
message Everything {
  option deprecated = true;
  required int32 id = 1;
  optional string name = 2 [default = "a \"quoted\" é"];
  optional bytes data = 3 [default = "\001\"x"];
  optional double ratio = 4 [default = inf];
  optional Kind kind = 5 [default = SECOND];
  repeated int32 numbers = 6 [packed = true, json_name = "N"];
  optional group Inner = 7 { optional int32 x = 1; }
  map<string, Everything> children = 8;
  oneof choice { option (unknown) = 1; string text = 9; int64 number = 10; }
  optional bool flag = 11 [default = true, deprecated = true];
  enum Kind { option allow_alias = true; FIRST = 0; SECOND = 1; ALSO = 1; reserved 5 to 7; reserved "OLD"; }
  message Nested { optional Everything.Kind kind = 1; }
  reserved 20, 30 to 40;
  reserved "gone";
  extensions 100 to 199, 1000 to max;
}
extend Everything { optional string more = 100; repeated int32 others = 101; }
service Search {
  rpc Find (Everything) returns (stream Everything) { option idempotency_level = NO_SIDE_EFFECTS; }
  rpc Follow (stream Everything) returns (Everything);
}
""".replace(" option (unknown) = 1;", "")

EVERYTHING_3 = """
syntax = "proto3";
import public "google/protobuf/timestamp.proto";
message M {
  optional int32 maybe = 1;
  google.protobuf.Timestamp at = 2;
  oneof choice { string text = 3; M other = 4; }
  map<int64, bytes> blobs = 5;
  repeated string names = 6;
  enum E { ZERO = 0; NEGATIVE = -1; }
  E e = 7;
  int32 snake_case_name = 8;
}
"""


@pytest.mark.parametrize(
    "text", [EVERYTHING_2, EVERYTHING_3, 'syntax = "proto3";'], ids=["proto2", "proto3", "empty"]
)
def test_the_text_of_a_descriptor_compiles_to_the_same_descriptor(text: str) -> None:
    file = main_file(compile_proto(text, {}))
    printed = print_proto(file)
    again = main_file(compile_proto(printed, {}))
    assert canonical_bytes(again) == canonical_bytes(file)
    assert print_proto(again) == printed


@pytest.mark.parametrize(
    "module", [any_pb2, api_pb2, descriptor_pb2, duration_pb2, struct_pb2, type_pb2, wrappers_pb2],
    ids=lambda module: str(module.__name__).rpartition(".")[2],
)  # fmt: skip
def test_googles_own_files_are_printed(module: object) -> None:
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)  # type: ignore[attr-defined]
    # In a package of its own: protoc has the original.
    moved = FileDescriptorProto.FromString(
        file.SerializeToString().replace(b"google.protobuf", b"goggle.protobuf")
    )
    for number, path in enumerate(moved.dependency):
        moved.dependency[number] = path.replace("goggle", "google")
    text = print_proto(moved).replace(".goggle.protobuf.Any", ".google.protobuf.Any")
    text = text.replace(".goggle.protobuf.SourceContext", ".google.protobuf.SourceContext")
    if module is api_pb2:
        text = text.replace(".goggle.protobuf.Option", ".google.protobuf.Option")
        text = text.replace(".goggle.protobuf.Syntax", ".google.protobuf.Syntax")
    again = main_file(compile_proto(text, {}))
    assert [each.name for each in again.message_type] == [each.name for each in file.message_type]
    assert [len(each.field) for each in again.message_type] == [len(each.field) for each in file.message_type]


@pytest.mark.parametrize(
    ("name", "json_name"), [("a", "a"), ("a_b_c", "aBC"), ("a_B", "aB"), ("_a", "A"), ("a_", "a")]
)
def test_a_json_name_follows_from_the_name(name: str, json_name: str) -> None:
    assert default_json_name(name) == json_name
    file = main_file(compile_proto(f'syntax = "proto3"; message M {{ int32 {name} = 1; }}', {}))
    assert file.message_type[0].field[0].json_name == json_name
