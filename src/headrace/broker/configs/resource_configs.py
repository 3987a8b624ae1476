"""The configs that were set for named resources other than topics: groups, brokers, subscriptions to client metrics.

Each kind has one file, since such a name may be any text and is no file name; they change seldom, and a resource may
have some before it exists.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from headrace.broker.configs.topic_configs import ConfigType
from headrace.errors import HeadraceError
from headrace.log.filesystem import FileSystem


class ResourceConfig(Struct, frozen=True, kw_only=True):
    """What a kind of resource can be configured with, by name."""

    name: str
    type: ConfigType
    default: str
    doc: str
    parse: Callable[[str], Any]


class RefusedConfig(HeadraceError):
    """A change that Kafka answers with INVALID_REQUEST; for a topic it would be INVALID_CONFIG."""


class TooManyResources(HeadraceError):
    """More resources with configs than the limit."""


class ResourceConfigs:
    def __init__(
        self,
        files: FileSystem,
        data_dir: str,
        *,
        file_name: str,
        check: Callable[[Mapping[str, str]], None],
        names_max: int,
    ) -> None:
        self._files = files
        self._path = os.path.join(data_dir, "metadata", file_name)
        self._check = check
        self._names_max = names_max
        self._by_name: dict[str, dict[str, str]] = self._read()

    def of(self, name: str) -> Mapping[str, str]:
        """The configs that are set for a resource; others have their defaults."""
        return self._by_name.get(name, {})

    def names(self) -> list[str]:
        """The resources with configs."""
        return [*self._by_name]

    def check(self, name: str, configs: Mapping[str, str]) -> None:
        """Raise what `replace` would raise for the configs of one resource."""
        self._check(configs)

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
            raise TooManyResources(
                f"{len(changed)} would have configs of their own, {self._names_max} may",
                hint="delete configs that are not used any more, or raise groups_max or client_metrics_max",
            )
        # Without indentation, because only that is encoded in C, and the file may be large.
        self._files.write_whole(self._path, json.dumps(changed).encode())
        self._by_name = changed

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            saved = json.loads(self._files.read_whole(self._path))
            return {str(name): {**configs} for name, configs in saved.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError) as error:
            raise HeadraceError(
                f"{self._path} is damaged: {error}",
                hint="restore it from a copy, or remove it: all configs in it are default then",
            ) from error
