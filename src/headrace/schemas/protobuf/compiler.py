"""Text -> descriptors, by protoc in a process of its own: text of clients must not take this one down."""

from __future__ import annotations

import functools
import importlib.resources
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from headrace.schemas.errors import InvalidSchema

MAIN = "default.proto"
"""The name of the file that is compiled; schemas of a registry have none."""

TIMEOUT_S = 10.0
"""protoc takes less than a second for any schema that people write."""

ERROR_CHARS_MAX = 500

_PLACE = re.compile(r"\S+\.proto:")
"""What a line with a problem begins with; protoc writes warnings too."""


def compile_proto(text: str, imports: Mapping[str, str]) -> FileDescriptorSet:
    """The file and all that it imports, which comes first. `imports` are texts by the paths that files import."""
    with tempfile.TemporaryDirectory(prefix="headrace-proto-") as folder:
        root = Path(folder)
        for path, content in {**_common_types(), **imports, MAIN: text}.items():
            target = root / _checked(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
        output = root / "descriptors.bin"
        _run_protoc(root, output)
        try:
            return FileDescriptorSet.FromString(output.read_bytes())
        except DecodeError as error:
            raise InvalidSchema("the descriptors can't be read", hint="simplify the schema") from error


def _run_protoc(root: Path, output: Path) -> None:
    own = importlib.util.find_spec("grpc_tools")
    if own is None or own.origin is None:
        raise InvalidSchema("Protobuf needs protoc", hint="pip install 'headrace[schemas]'")
    command = [
        sys.executable,
        "-I",
        "-m",
        "grpc_tools.protoc",
        f"-I{root}",
        f"-I{Path(own.origin).parent / '_proto'}",
    ]
    command += [f"--descriptor_set_out={output}", "--include_imports", MAIN]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise InvalidSchema(f"protoc took more than {TIMEOUT_S:.0f} s", hint="simplify the schema") from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").replace(f"{root}/", "").splitlines()
        problems = [each for each in lines if _PLACE.match(each)]
        raise InvalidSchema(
            "; ".join(problems)[:ERROR_CHARS_MAX] or f"protoc ended with {done.returncode}",
            hint="check the text; each import needs a reference",
        )


@functools.cache
def _common_types() -> dict[str, str]:
    """Google's dates, money, addresses: other registries bring them too, so schemas have no references to them."""
    if importlib.util.find_spec("google.type") is None:
        return {}
    files = importlib.resources.files("google.type").iterdir()
    return {f"google/type/{each.name}": each.read_text() for each in files if each.name.endswith(".proto")}


def _checked(path: str) -> str:
    """Within the folder."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.name or "\0" in path or len(path) > 200:
        raise InvalidSchema(f"{path!r:.100} is not a path of an import", hint="such as company/order.proto")
    return path


def main_file(descriptors: FileDescriptorSet) -> FileDescriptorProto:
    return next(each for each in descriptors.file if each.name == MAIN)
