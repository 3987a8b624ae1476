"""Random JSON values for a schema: good ones, ones with something odd in them, damaged ones, and pieces of several.

`Random` makes them, not hypothesis: a property needs thousands of values, and which of them fails is in the message.
"""

from __future__ import annotations

import json
import math
import random
import string
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

TYPES = ("string", "boolean", "byte", "short", "integer", "long", "double", "timestamp", "date")
NAMES = ("a", "at", "A b", "ä.ö", "", "user", "😀", "null", "a/b")

_Choice = TypeVar("_Choice")

Schema = Mapping[str, str]
"""The type of each field."""

_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_NUMBERS = """
0 -0 1 -1 1.0 -0.0 1e2 1E+2 1e-2 1e400 1e-400 5e-324 01 -01 +1 .5 1. - -- 0x1 1_000 1e 1e+
NaN -NaN nan Inf -Inf Infinity -Infinity +Infinity INF -INF
127 128 -129 255 256 32768 65536 2147483648 -2147483649 9223372036854775808 18446744073709551616
9007199254740993 123456789012345678901234567890 1.7976931348623159e308 2.4703282292062328e-324
"""
_WORDS = """
true false null True nul nulll x # //1 #1 /*c*/1 1/*c*/ 'x' '"'
{} [] [[]] [,] [1,] {,} {"a":1} [1,{"a":"b"},null] {"a":{"at":[]}} [NaN] [-Inf] {"x":Infinity}
"""
_TEXTS = r"""
"" "1" "1.0" "true" "null" "NaN" "Infinity" "-INF" "x" "x "x\" "\\" "\"" "\/\b\f\n\r\t" "\x" "\\u0041"
"\ud800" "\udc00" "\ud83d\ude00" "\ude00\ud83d" "\ud83dA" "\ud83d\u0041" "\u0000" "\u00" "\u12g4"
"Info" ",Inf" ":NaN" ["-Inf"] "}" "{" "},{" "]" "}\n{" "\ufffd"
"""
_RAW_CHARACTERS = "\ufffd\u2028\x7f\x01\n\t\0\x0b\ufeff\u00a0"
_LARGE = (
    *("[" * depth + "]" * depth for depth in (40, 999, 1000)),
    *("1" * digits for digits in (1000, 1001)),
    *("0." + "1" * digits for digits in (998, 999)),
    *(f'"{character * 1200}"' for character in "x1"),
    "[" * 40 + "]" * 39,
    '{"a":' * 1000 + "1" + "}" * 1000,
)
_ODD_TOKENS = [
    *_NUMBERS.split(),
    *_WORDS.split(),
    *_TEXTS.split(),
    *(f'"{character}"' for character in _RAW_CHARACTERS),
    *(f"{character}1" for character in _RAW_CHARACTERS),
    *_LARGE,
]
_BYTES = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"]

_PIECES_BETWEEN_SPACES = rb"""
{ } { } [ ] " , : 1 null {} }{ },{ "} {" \ \" "a" "x" "a":1 "x":1 "a":"x" "x":{ "x":[ ]} ]}
"""
_PIECES = [
    *_PIECES_BETWEEN_SPACES.split(),
    *(b" ", b"\n", b"}\n{", b"\0", b"{}\0", b'"x":"', b" null ", b"{} {}"),
]
_BEFORE = [b" ", b"\n", b"\xef\xbb\xbf", b"\0", b"x", b"{", b"[", b"null", b""]
_AFTER = [b" ", b"\r\n", b"   ", b"\0", b"}", b"{}", b" {}", b"\n{}", b" null {}", b" x}", b"]", b",{}"]

_EXPONENTS = [0, 1, 15, 22, 23, 300, 308, 309, -5, -300, -308, -323, -324]
_ZONES = "z +1:00 +0100 +01 +18:00 +17:59 -18:00 +19:00 -00:00 UTC CET +01:00:00"
_DIGITS = "0 00 0000 9 99 9999 24 29 30 31 32 60 1 001 -1 x 13"


class JsonValues:
    """Values for one schema."""

    def __init__(self, schema: Schema, seed: int) -> None:
        self._schema = schema
        self._random = random.Random(seed)

    def good(self) -> bytes:
        """A value that is of the schema, and written as usual."""
        names = [name for name in self._schema if self._chance(0.9)]
        self._random.shuffle(names)
        members = {name: self._good_token(self._schema[name]) for name in names}
        if self._chance(0.3):
            members["other"] = self._choose(['"x"', "1.5", "null", '{"a":[1,{"a":null}]}', "[]", '"\\u00e4"'])
        space = self._choose(["", "", " ", "\n  "])
        body = f",{space}".join(
            f"{json.dumps(name, ensure_ascii=False)}:{space}{token}" for name, token in members.items()
        )
        return f"{{{body}}}{self._choose(['', '', '', ' ', chr(10)])}".encode()

    def odd(self) -> bytes:
        """A value that may be good or bad."""
        value = self._with_odd_members() if self._chance(0.8) else self.good()
        if self._chance(0.15):
            value = self._choose(_BEFORE) + value
        if self._chance(0.25):
            value += self._choose(_AFTER)
        while self._chance(0.3):
            value = self._damaged(value)
        return value

    def pieces(self) -> bytes:
        """Braces, quotes and members in any order, from `{` to `}`: what might join with the values around it."""
        return b"{" + b"".join(self._choose(_PIECES) for _ in range(self._random.randrange(6))) + b"}"

    def chosen(self, makers: Sequence[Callable[[], bytes]], count: int) -> list[bytes]:
        return [self._choose(makers)() for _ in range(count)]

    def _with_odd_members(self) -> bytes:
        members = [self._filler()] if self._chance(0.03) else []
        names = [*self._schema, *self._schema, "other", "x", "\x01"]
        for _ in range(self._random.randrange(1, len(self._schema) + 3)):
            name = self._choose(names)
            is_good = name in self._schema and self._chance(0.7)
            token = self._good_token(self._schema[name]).encode() if is_good else self._odd_token()
            members.append(self._name(name) + self._space() + b":" + self._space() + token + self._space())
        return b"{" + b",".join(members) + b"}"

    def _filler(self) -> bytes:
        """Jackson reads 4,000 characters at a time: what follows is at the end of them, or just after it."""
        return b'"filler":"' + b"x" * (self._choose([4_000, 8_000]) - self._random.randrange(60)) + b'"'

    def _name(self, name: str) -> bytes:
        written = json.dumps(name, ensure_ascii=self._chance(0.2))
        if self._chance(0.1):
            characters = (f"\\u{ord(each):04x}" if ord(each) < 0x10000 else each for each in name)
            written = f'"{"".join(characters)}"'
        return written.encode()

    def _space(self) -> bytes:
        return self._choose([b"", b"", b"", b"", b"", b" ", b"\n", b"\t\r"])

    def _odd_token(self) -> bytes:
        if self._chance(0.1):
            damage = self._choose(_BYTES)
            return b'"' + damage + b'"' if self._chance(0.8) else damage
        if self._chance(0.3):
            return self._good_token(self._choose(TYPES)).encode()
        if self._chance(0.3):
            return json.dumps(self._choose([self._time, self._date])(self._odd_digits)).encode()
        if self._chance(0.3):
            return self._number().encode()
        return self._choose(_ODD_TOKENS).encode()

    def _good_token(self, type: str) -> str:
        if self._chance(0.1):
            return "null"
        if type == "boolean":
            return self._choose(["true", "false"])
        if bits := _INTEGER_BITS.get(type):
            bits = self._random.randrange(1, bits + 1)
            return str(self._random.randrange(-(1 << bits - 1), 1 << bits - 1))
        if type == "double":
            return self._double()
        if type == "timestamp":
            return json.dumps(self._time(self._digits))
        if type == "date":
            return json.dumps(self._date(self._digits))
        return json.dumps(self._text(), ensure_ascii=self._chance(0.5))

    def _double(self) -> str:
        (number,) = struct.unpack("d", self._random.randbytes(8))
        if not math.isfinite(number) or self._chance(0.5):
            number = self._random.uniform(-1000, 1000)
        return self._choose(
            [repr(number), str(round(number) or 1), f"{number:.3e}"] if abs(number) < 1e15 else [repr(number)]
        )

    def _number(self) -> str:
        """With many digits, near the middle between two doubles and at the ends of their range."""
        digits = self._digits(self._random.randrange(1, 40)).lstrip("0") or "0"
        if self._chance(0.3):
            return digits
        return f"{digits[0]}.{digits[1:] or '0'}e{self._choose(_EXPONENTS)}"

    def _text(self) -> str:
        alphabet = self._choose(
            [string.ascii_letters, string.printable, 'äß€😀\ufffd\u2028\x7f\0\x1f"\\/', '{}[],:"\\ \n']
        )
        return "".join(self._random.choices(alphabet, k=self._random.randrange(12)))

    def _time(self, digits: Callable[..., str]) -> str:
        time = f"{self._date(digits)}{self._choose('TT ')}{digits(2, 23)}:{digits(2, 59)}:{digits(2, 59)}"
        if self._chance(0.7):
            time += "." + self._digits(self._random.randrange(1, 7))
        zone = self._choose(["Z", "Z", "", f"{self._choose('+-')}{digits(2, 17)}:{digits(2, 59)}"])
        return time + zone if digits == self._digits else self._odd_time(time, zone)

    def _odd_time(self, time: str, zone: str) -> str:
        if self._chance(0.3):
            time = time[: self._choose([4, 7, 10, 11, 13, 16, 19, 20, 22])]
        if self._chance(0.2):
            time += self._choose(["0000000", "123", ".", ".1234567", "5", " ", "t"])
        if self._chance(0.3):
            zone = self._choose(["", " "]) + self._choose(_ZONES.split())
        return self._choose(["", "", "", "", " ", "+", "1"]) + time + zone

    def _date(self, digits: Callable[..., str]) -> str:
        return f"{digits(4, 9999, 1)}-{digits(2, 12, 1)}-{digits(2, 28, 1)}"

    def _digits(self, count: int, last: int | None = None, first: int = 0) -> str:
        if last is None:
            return "".join(self._random.choices(string.digits, k=count))
        return f"{self._random.randint(first, last):0{count}}"

    def _odd_digits(self, count: int, last: int | None = None, first: int = 0) -> str:
        """Sometimes out of range, or too few or many of them, or none."""
        if self._chance(0.9):
            return self._digits(count, last, first)
        return self._choose(["", *_DIGITS.split()])

    def _damaged(self, value: bytes) -> bytes:
        at, end = sorted(self._random.randrange(len(value) + 1) for _ in range(2))
        pieces: list[bytes] = [
            value[:at] + value[at + 1 :],
            value[:at] + value[end:],
            value[:end] + value[at:],
            value[:at] + self._choose(_PIECES) + value[at:],
            value[:at] + bytes([self._random.randrange(256)]) + value[at + 1 :],
            value[:at] + value[at:end].swapcase() + value[end:],
            self._random.randbytes(self._random.randrange(8)),
        ]
        return self._choose(pieces)

    def _choose(self, choices: Sequence[_Choice]) -> _Choice:
        return self._random.choice(choices)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability
