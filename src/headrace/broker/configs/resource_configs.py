"""The configs that were set for named resources other than topics: groups, brokers, subscriptions to client metrics.

Each kind has one file, since such a name may be any text and is no file name; they change seldom, and a resource may
have some before it exists.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from headrace.broker.configs.definitions import ConfigDefinition
from headrace.broker.rejections import RequestRejected
from headrace.errors import HeadraceError
from headrace.log.filesystem import FileSystem
from headrace.protocol.error_codes import ErrorCode

KindT = TypeVar("KindT")


def read_saved(files: FileSystem, path: str, kind: type[KindT], *, hint: str) -> KindT:
    """The content of a JSON file; empty if the file is missing."""
    try:
        # The decoder of msgspec rejects infinity, which a quota may be.
        return msgspec.convert(json.loads(files.read_whole(path)), kind)
    except FileNotFoundError:
        return kind()
    except (ValueError, msgspec.ValidationError) as error:
        raise HeadraceError(f"{path} is damaged: {error}", hint=hint) from error


class ResourceConfigs:
    def __init__(
        self,
        files: FileSystem,
        data_dir: str,
        *,
        file_name: str,
        definition: Callable[[str], ConfigDefinition],
        names_max: int,
    ) -> None:
        self._files = files
        self._path = os.path.join(data_dir, "metadata", file_name)
        self._definition = definition
        self._names_max = names_max
        self._by_name = read_saved(
            files,
            self._path,
            dict[str, dict[str, str]],
            hint="restore it from a copy, or remove it: all configs in it are default then",
        )

    def of(self, name: str) -> Mapping[str, str]:
        """The configs that are set for a resource; others have their defaults."""
        return self._by_name.get(name, {})

    def names(self) -> list[str]:
        """The resources with configs."""
        return [*self._by_name]

    def check(self, name: str, configs: Mapping[str, str]) -> None:
        """Raise what `replace` would raise for the configs of one resource."""
        for config, text in configs.items():
            self._definition(config).parse(text)

    def replace(self, changes: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the configs of some resources, in one write."""
        changed = dict(self._by_name)
        for name, configs in changes.items():
            self.check(name, configs)
            if configs:
                changed[name] = dict(configs)
            else:
                changed.pop(name, None)
        if len(changed) > max(self._names_max, len(self._by_name)):
            raise RequestRejected(
                ErrorCode.POLICY_VIOLATION,
                f"{len(changed)} would have configs of their own, {self._names_max} may",
                hint="delete configs that are not used any more, or raise groups_max or client_metrics_max",
            )
        # Without indentation, because only that is encoded in C, and the file may be large.
        self._files.write_whole(self._path, json.dumps(changed).encode())
        self._by_name = changed
