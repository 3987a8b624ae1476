"""The HTTP API of compatibility levels and modes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Request, Response

from headrace.gateway.registry.exchange import Exchange, is_set, json_response
from headrace.gateway.registry.registry import Registry
from headrace.gateway.registry.requests import ConfigBody, ModeBody


class SettingsRoutes:
    def __init__(self, registry: Registry, exchange: Exchange) -> None:
        self._registry = registry
        self._exchange = exchange

    @property
    def table(self) -> list[tuple[str, str, Callable[..., Awaitable[Response]]]]:
        return [
            ("GET", "/config", self.get_config),
            ("PUT", "/config", self.set_config),
            ("DELETE", "/config", self.delete_config),
            ("GET", "/config/{subject}", self.get_config_of),
            ("PUT", "/config/{subject}", self.set_config_of),
            ("DELETE", "/config/{subject}", self.delete_config_of),
            ("GET", "/mode", self.get_mode),
            ("PUT", "/mode", self.set_mode),
            ("GET", "/mode/{subject}", self.get_mode_of),
            ("PUT", "/mode/{subject}", self.set_mode_of),
            ("DELETE", "/mode/{subject}", self.delete_mode_of),
        ]

    # Compatibility levels

    async def get_config(self) -> Response:
        """The compatibility level of all subjects"""
        return json_response(
            {"compatibilityLevel": await self._exchange.in_thread(lambda: self._registry.compatibility(None))}
        )

    async def set_config(self, request: Request) -> Response:
        """Set the compatibility level of all subjects"""
        return await self._set_config(None, request)

    async def delete_config(self) -> Response:
        """Reset the compatibility level of all subjects"""
        return await self._delete_config(None)

    async def get_config_of(self, subject: str, defaultToGlobal: str = "false") -> Response:
        """The compatibility level of a subject"""
        found = await self._exchange.in_thread(
            lambda: self._registry.compatibility(subject, default_to_global=is_set(defaultToGlobal))
        )
        return json_response({"compatibilityLevel": found})

    async def set_config_of(self, subject: str, request: Request) -> Response:
        """Set the compatibility level of a subject"""
        return await self._set_config(subject, request)

    async def delete_config_of(self, subject: str) -> Response:
        """Reset the compatibility level of a subject"""
        return await self._delete_config(subject)

    async def _set_config(self, subject: str | None, request: Request) -> Response:
        async with self._exchange.body(request, ConfigBody) as body:
            found = await self._exchange.in_thread(
                lambda: self._registry.set_compatibility(subject, body.compatibility)
            )
        return json_response({"compatibility": found})

    async def _delete_config(self, subject: str | None) -> Response:
        """Confluent's client and Redpanda's API have the one name, franz-go's client and Karapace the other."""
        found = await self._exchange.in_thread(lambda: self._registry.delete_compatibility(subject))
        return json_response({"compatibilityLevel": found, "compatibility": found})

    # Modes

    async def get_mode(self) -> Response:
        """The mode of all subjects"""
        return json_response({"mode": await self._exchange.in_thread(lambda: self._registry.mode(None))})

    async def set_mode(self, request: Request, force: str = "false") -> Response:
        """Set the mode of all subjects"""
        return await self._set_mode(None, request, force)

    async def get_mode_of(self, subject: str, defaultToGlobal: str = "false") -> Response:
        """The mode of a subject"""
        found = await self._exchange.in_thread(
            lambda: self._registry.mode(subject, default_to_global=is_set(defaultToGlobal))
        )
        return json_response({"mode": found})

    async def set_mode_of(self, subject: str, request: Request, force: str = "false") -> Response:
        """Set the mode of a subject"""
        return await self._set_mode(subject, request, force)

    async def delete_mode_of(self, subject: str) -> Response:
        """Reset the mode of a subject"""
        return json_response(
            {"mode": await self._exchange.in_thread(lambda: self._registry.delete_mode(subject))}
        )

    async def _set_mode(self, subject: str | None, request: Request, force: str) -> Response:
        async with self._exchange.body(request, ModeBody) as body:
            found = await self._exchange.in_thread(
                lambda: self._registry.set_mode(subject, body.mode, force=is_set(force))
            )
        return json_response({"mode": found})
