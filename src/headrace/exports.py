"""The public names of a package, imported at first use: a job with a topic sink imports no database driver."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_exports(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package, from the public names of each of its modules. A name of another
    package's module begins with `headrace.`.

    Type checkers and editors do not run them: the package imports the same names under `TYPE_CHECKING`.
    """
    modules = {
        name: module if module.startswith("headrace.") else f"{package}.{module}"
        for module, own in names.items()
        for name in own
    }

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return load, lambda: sorted({*vars(sys.modules[package]), *modules})
