"""One module per API. Importing this package registers them all."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

MODULES = [module.name for module in iter_modules(__path__)]

for name in MODULES:
    import_module(f"{__name__}.{name}")
