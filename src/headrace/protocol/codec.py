"""Generates the reader and the writer of a message class at one version.

The generated code is what one would write by hand for speed: neighbouring fields of fixed size are unpacked
with one `struct` call, short lengths take one comparison, and record batches are never copied. It is generated
when a version is first used, so that a start does not pay for versions that no client uses.

What bytes from outside can make it allocate is bounded twice: an array can't have more elements than the rest
of the message has room for, and a message can't have more than `ELEMENTS_MAX` of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from headrace.protocol import primitives
from headrace.protocol.primitives import MalformedMessage, read_uvarint, uvarint
from headrace.protocol.schema import Encoding, FieldSchema, bytes_min, fields_at
from headrace.protocol.types import MESSAGE_INFO, Buffer, Wire

T = TypeVar("T")
Reader = Callable[[Buffer, int, list[int]], tuple[Any, int]]
Writer = Callable[[Any, list[Buffer]], None]


ELEMENTS_MAX: Final = 1_000_000
"""Elements of all the arrays of one message together, and tagged fields.

An element can be one byte on the wire and some hundred bytes as a Python object: without this bound a frame
of 100 MB could become many gigabytes.
"""

REQUEST_ELEMENTS_MAX: Final = 100_000
"""The same for a request. Reading and answering one element takes some ten microseconds, and no other client
is served meanwhile. A fetch of 50,000 partitions has 100,000 elements at most."""

STRING_BYTES_MAX: Final = 0x7FFF
"""Bound of the length of a plain string. It holds for compact ones too, as in Kafka, because a plain response or
record may have to repeat them."""


class Codec(Struct, Generic[T], frozen=True, kw_only=True):
    """Bytes to value and back, for one message class at one version."""

    # The list holds two numbers: how many more array elements this message may have, and how many bytes of unknown tags
    # were skipped.
    read: Callable[[Buffer, int, list[int]], tuple[T, int]]
    write: Callable[[T, list[Buffer]], None]
    flexible: bool

    def decode(self, buffer: Buffer, position: int = 0, *, allow_rest: bool = False) -> T:
        """The message that starts at a position and, without `allow_rest`, ends with the buffer."""
        value, end, _ = self._read(buffer, position, ELEMENTS_MAX)
        if end != len(buffer) and not allow_rest:
            raise MalformedMessage(f"{len(buffer) - end} bytes follow the message")
        return value

    def decode_request(self, buffer: Buffer, position: int) -> tuple[T, int]:
        """The request that starts at a position, and how many bytes of the buffer it keeps in memory.

        What follows the message, and unknown tags, are freed with the buffer.
        """
        value, end, skipped_bytes = self._read(buffer, position, REQUEST_ELEMENTS_MAX)
        return value, end - position - skipped_bytes

    def _read(self, buffer: Buffer, position: int, elements_max: int) -> tuple[T, int, int]:
        tally = [elements_max, 0]
        try:
            value, end = self.read(buffer, position, tally)
        except (IndexError, struct.error) as error:
            raise primitives.truncated() from error
        except UnicodeDecodeError as error:
            raise MalformedMessage("a string is not UTF-8") from error
        return value, end, tally[1]

    def encode(self, value: T) -> bytes:
        parts: list[Buffer] = []
        self.write(value, parts)
        return b"".join(parts)


_CODECS: dict[tuple[type[Any], int, bool], Codec[Any]] = {}


def codec(cls: type[T], version: int) -> Codec[T]:
    """The codec of a message class (one declared with `@message`) at a version."""
    info = MESSAGE_INFO[cls]
    first, last = info.versions
    assert first <= version <= last, f"{cls.__name__} has no version {version}"
    flexible = info.flexible_since is not None and version >= info.flexible_since
    return struct_codec(cls, version, flexible)


def struct_codec(cls: type[T], version: int, flexible: bool) -> Codec[T]:
    """The codec of any struct, given which of the two styles of encoding its surroundings use."""
    made = _CODECS.get((cls, version, flexible))
    if made is None:
        made = _CODECS[cls, version, flexible] = Codec(
            read=_Generator(version, flexible).reader(cls),
            write=_Generator(version, flexible).writer(cls),
            flexible=flexible,
        )
    return made


class _Generator:
    """Source text of one function, the names it uses, and its indentation."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "uuid_of": primitives.uuid_of,
            "memoryview": memoryview,
            "read_uvarint": read_uvarint,
            "uvarint": uvarint,
            "truncated": primitives.truncated,
            "too_many": primitives.too_many,
            "too_long": primitives.too_long,
            "wrong_tag_size": primitives.wrong_tag_size,
            "unexpected_null": primitives.unexpected_null,
        }
        self.depth = 0
        # Set apart the variables of a struct whose reader is part of that of another struct.
        self.prefix = ""
        self.in_tag = False

    def line(self, text: str) -> None:
        self.lines.append("    " * (self.depth + 1) + text)

    def name(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def compile(self, signature: str, function: str) -> Any:
        source = "\n".join([signature, *self.lines])
        namespace = dict(self.names)
        exec(compile(source, f"<{function} version {self.version}>", "exec"), namespace)
        return namespace[function]

    # Reading

    def reader(self, cls: type[Any]) -> Reader:
        self.line("size = len(buffer)")
        value = self._read_fields(cls)
        self.line(f"return {value}, position")
        read: Reader = self.compile("def read(buffer, position, tally):", "read")
        return read

    def _read_fields(self, cls: type[Any]) -> str:
        """Reads all fields into variables; returns the expression of the struct."""
        fields = fields_at(cls, self.version)
        for field in fields:
            if field.tag is not None:
                self.line(f"{self._local(field)} = {self.name('default', field.default)}")
        self._read_plain([field for field in fields if field.tag is None])
        if self.flexible:
            self._read_tags([field for field in fields if field.tag is not None])
        values = ", ".join(f"{field.name}={self._local(field)}" for field in fields)
        return f"{self.name('cls', cls)}({values})"

    def _local(self, field: FieldSchema) -> str:
        """A field's variable, set apart from the reader's own (`count`, `size`)."""
        return f"{self.prefix}{field.name}_"

    def _read_plain(self, fields: list[FieldSchema]) -> None:
        run: list[tuple[str, Encoding]] = []
        for field in fields:
            if field.encoding.fixed_bytes is not None:
                run.append((self._local(field), field.encoding))
                continue
            self._read_run(run)
            run = []
            self._read_value(self._local(field), field.name, field.encoding)
        self._read_run(run)

    def _read_run(self, run: list[tuple[str, Encoding]]) -> None:
        if not run:
            return
        packed = struct.Struct(">" + "".join(_code(encoding) for _, encoding in run))
        targets = ", ".join(target for target, _ in run)
        self.line(f"{targets}, = {self.name('unpack', packed.unpack_from)}(buffer, position)")
        self.line(f"position += {packed.size}")
        for target, encoding in run:
            if encoding.wire is Wire.UUID:
                self.line(f"{target} = uuid_of({target})")

    def _read_value(self, target: str, label: str, encoding: Encoding) -> None:
        if encoding.struct is not None:
            self._read_struct(target, encoding)
        elif encoding.element is not None:
            self._read_array(target, label, encoding)
        elif encoding.fixed_bytes is not None:
            self._read_run([(target, encoding)])
        else:
            self._read_sized(target, label, encoding)

    def _read_struct(self, target: str, encoding: Encoding) -> None:
        assert encoding.struct is not None
        if not encoding.nullable and not self.in_tag:
            # Part of this function: a call for each element would cost as much as reading it.
            outer, self.prefix = self.prefix, f"{target}_"
            value = self._read_fields(encoding.struct)
            self.prefix = outer
            self.line(f"{target} = {value}")
            return
        read = self.name("read", struct_codec(encoding.struct, self.version, self.flexible).read)
        if not encoding.nullable:
            self.line(f"{target}, position = {read}(buffer, position, tally)")
            return
        if encoding.in_tag:
            self.line("present, position = read_uvarint(buffer, position)")
        else:
            self.line("present = buffer[position] < 0x80; position += 1")
        self.line(f"if not present: {target} = None")
        self.line(f"else: {target}, position = {read}(buffer, position, tally)")

    def _read_length(self, code: str) -> None:
        """Leaves the length in `count`: -1 for null."""
        if self.flexible:
            self.line("count = buffer[position] - 1; position += 1")
            self.line("if count >= 0x7f: count, position = read_uvarint(buffer, position - 1); count -= 1")
        else:
            packed = struct.Struct(">" + code)
            self.line(f"count, = {self.name('unpack', packed.unpack_from)}(buffer, position)")
            self.line(f"position += {packed.size}")

    def _null_or(self, target: str, label: str, encoding: Encoding) -> None:
        outcome = f"{target} = None" if encoding.nullable else f"raise unexpected_null({label!r})"
        self.line(f"if count < 0: {outcome}")
        self.line("else:")

    def _read_sized(self, target: str, label: str, encoding: Encoding) -> None:
        self._read_length("h" if encoding.wire is Wire.STRING else "i")
        self._null_or(target, label, encoding)
        self.depth += 1
        if encoding.wire is Wire.STRING and self.flexible:
            self.line(f"if count > {STRING_BYTES_MAX}: raise too_long({label!r}, count)")
        self.line("end = position + count")
        self.line("if end > size: raise truncated()")
        value = {
            Wire.STRING: "str(buffer[position:end], 'utf-8')",
            Wire.BYTES: "bytes(buffer[position:end])",
            Wire.RECORDS: "memoryview(buffer)[position:end]",
        }
        assert encoding.wire is not None
        self.line(f"{target} = {value[encoding.wire]}")
        self.line("position = end")
        self.depth -= 1

    def _read_array(self, target: str, label: str, encoding: Encoding) -> None:
        assert encoding.element is not None
        self._read_length("i")
        self._null_or(target, label, encoding)
        self.depth += 1
        least = bytes_min(encoding.element, self.version, self.flexible)
        assert least > 0, f"the elements of {label} may take no bytes: nothing would bound their number"
        self.line("tally[0] -= count")
        self.line(f"if count * {least} > size - position or tally[0] < 0: raise too_many(count)")
        items, item = f"{target}_items", f"{target}_item"
        self.line(f"{items} = []")
        self.line("for _ in range(count):")
        self.depth += 1
        self._read_value(item, label, encoding.element)
        self.line(f"{items}.append({item})")
        self.depth -= 1
        self.line(f"{target} = tuple({items})")
        self.depth -= 1

    def _read_tags(self, tagged: list[FieldSchema]) -> None:
        self.line("tags = buffer[position]; position += 1")
        self.line("if tags:")
        self.depth += 1
        self.line("if tags >= 0x80: tags, position = read_uvarint(buffer, position - 1)")
        self.line("tally[0] -= tags")
        self.line("if tags * 2 > size - position or tally[0] < 0: raise too_many(tags)")
        self.line("for _ in range(tags):")
        self.depth += 1
        self.line("tag, position = read_uvarint(buffer, position)")
        self.line("length, position = read_uvarint(buffer, position)")
        self.line("tag_end = position + length")
        self.line("if tag_end > size: raise truncated()")
        condition = "if"
        for field in tagged:
            self.line(f"{condition} tag == {field.tag}:")
            self.depth += 1
            self.in_tag = True
            self._read_value(self._local(field), field.name, field.encoding)
            self.in_tag = False
            self.line(f"if position != tag_end: raise wrong_tag_size({field.name!r})")
            self.depth -= 1
            condition = "elif"
        self.line("else: tally[1] += length" if tagged else "tally[1] += length")
        self.line("position = tag_end")
        self.depth -= 2

    # Writing

    def writer(self, cls: type[Any]) -> Writer:
        self.line("append = parts.append")
        self._write_fields("value", cls)
        write: Writer = self.compile("def write(value, parts):", "write")
        return write

    def _write_fields(self, struct: str, cls: type[Any]) -> None:
        fields = fields_at(cls, self.version)
        self._write_plain(struct, [field for field in fields if field.tag is None])
        if self.flexible:
            self._write_tags(struct, [field for field in fields if field.tag is not None])

    def _write_plain(self, struct: str, fields: list[FieldSchema]) -> None:
        run: list[tuple[str, Encoding]] = []
        for field in fields:
            if field.encoding.fixed_bytes is not None:
                run.append((f"{struct}.{field.name}", field.encoding))
                continue
            self._write_run(run)
            run = []
            self._write_value(f"{struct}.{field.name}", field.name, field.encoding)
        self._write_run(run)

    def _write_run(self, run: list[tuple[str, Encoding]]) -> None:
        if not run:
            return
        packed = struct.Struct(">" + "".join(_code(encoding) for _, encoding in run))
        values = ", ".join(_fixed(source, encoding) for source, encoding in run)
        self.line(f"append({self.name('pack', packed.pack)}({values}))")

    def _write_value(self, source: str, label: str, encoding: Encoding) -> None:
        if encoding.struct is not None:
            self._write_struct(source, encoding)
        elif encoding.element is not None:
            self._write_array(source, label, encoding)
        elif encoding.fixed_bytes is not None:
            self._write_run([(source, encoding)])
        else:
            self._write_sized(source, label, encoding)

    def _write_struct(self, source: str, encoding: Encoding) -> None:
        assert encoding.struct is not None
        if not encoding.nullable and not self.in_tag:
            self._write_fields(source, encoding.struct)
            return
        write = self.name("write", struct_codec(encoding.struct, self.version, self.flexible).write)
        if not encoding.nullable:
            self.line(f"{write}({source}, parts)")
            return
        null = b"\0" if encoding.in_tag else b"\xff"
        self.line(f"if {source} is None: append({null!r})")
        self.line(f"else: append(b'\\x01'); {write}({source}, parts)")

    def _length(self, code: str, count: str) -> str:
        if self.flexible:
            return f"uvarint({count} + 1)"
        return f"{self.name('pack', struct.Struct('>' + code).pack)}({count})"

    def _write_null_or(self, source: str, label: str, encoding: Encoding, code: str) -> None:
        null = b"\0" if self.flexible else struct.pack(">" + code, -1)
        outcome = f"append({null!r})" if encoding.nullable else f"raise unexpected_null({label!r})"
        self.line(f"if {source} is None: {outcome}")
        self.line("else:")

    def _write_sized(self, source: str, label: str, encoding: Encoding) -> None:
        code = "h" if encoding.wire is Wire.STRING else "i"
        self._write_null_or(source, label, encoding, code)
        self.depth += 1
        self.line(f"data = {source}.encode()" if encoding.wire is Wire.STRING else f"data = {source}")
        self.line(f"append({self._length(code, 'len(data)')})")
        self.line("append(data)")
        self.depth -= 1

    def _write_array(self, source: str, label: str, encoding: Encoding) -> None:
        assert encoding.element is not None
        self._write_null_or(source, label, encoding, "i")
        self.depth += 1
        self.line(f"append({self._length('i', f'len({source})')})")
        item = f"item{self.depth}"
        self.line(f"for {item} in {source}:")
        self.depth += 1
        self._write_value(item, label, encoding.element)
        self.depth -= 2

    def _write_tags(self, struct: str, tagged: list[FieldSchema]) -> None:
        if not tagged:
            self.line("append(b'\\0')")
            return
        self.line("tags, tagged = 0, []")
        for field in tagged:
            default, source = self.name("default", field.default), f"{struct}.{field.name}"
            self.line(f"if {source} is not {default} and {source} != {default}:")
            self.depth += 1
            self.line("outer = parts; parts = []; append = parts.append; tags += 1")
            self.in_tag = True
            self._write_value(source, field.name, field.encoding)
            self.in_tag = False
            self.line("data = b''.join(parts)")
            self.line(f"tagged += (uvarint({field.tag}), uvarint(len(data)), data)")
            self.line("parts = outer; append = parts.append")
            self.depth -= 1
        self.line("append(uvarint(tags))")
        self.line("parts.extend(tagged)")


def _code(encoding: Encoding) -> str:
    assert encoding.wire is not None
    return str(encoding.wire.value)


def _fixed(source: str, encoding: Encoding) -> str:
    return f"{source}.bytes" if encoding.wire is Wire.UUID else source
