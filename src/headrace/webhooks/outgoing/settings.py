"""The settings of webhooks out: the `[webhook_out]` table of headrace.toml, with the reason for each bound."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.settings import load, setting
from headrace.webhooks.outgoing.addresses import AddressRules, parse_networks
from headrace.webhooks.outgoing.back_off import BackOff


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingSettings:
    data_dir: Path = setting(
        Path("data"), doc="Folder of the definitions of webhooks and of the history of attempts."
    )
    allowed_networks: str = setting(
        "",
        doc="Networks that all targets may be in although they are not public, with commas, such as 10.1.0.0/16. "
        "`--allow-inside` is for one target.",
    )
    connect_ms_max: int = setting(
        5_000,
        minimum=1,
        doc="An attempt fails if the connection takes longer; packets that are dropped are repeated by then.",
    )
    retry_ms_first: int = setting(
        5_000, minimum=1, doc="The pause after the first failed attempt: a server that restarts is back."
    )
    retry_factor: int = setting(4, minimum=1, doc="How much longer each pause is than the last one.")
    retry_ms_max: int = setting(
        3_600_000,
        minimum=1,
        doc="The longest pause: a target that works again gets all messages within an hour.",
    )
    retry_after_ms_max: int = setting(
        14_400_000, minimum=0, doc="The longest pause that a target can ask for by Retry-After."
    )
    retry_for_ms: int = setting(
        129_600_000,
        minimum=0,
        doc="A message that fails for so long becomes a dead letter. Longer than `pause_after_ms`: if the whole target "
        "is down, it is paused before a message becomes a dead letter.",
    )
    rejected_attempts_max: int = setting(
        6,
        minimum=1,
        doc="Attempts for a message that the target rejects with 4xx, half an hour: it may be under repair.",
    )
    pause_after_ms: int = setting(
        86_400_000,
        minimum=1,
        doc="A target without a success for so long is paused. It keeps its position until it is resumed.",
    )
    pending_max: int = setting(
        10_000,
        minimum=1,
        doc="Messages of a target that are read and not delivered, also those behind a failed one of their key. "
        "At the bound, the target reads no more.",
    )
    pending_bytes_max: int = setting(
        67_108_864, minimum=1_024, doc="Their bytes; the values of a target that is down must fit memory."
    )
    attempts_bytes_max: int = setting(
        4_194_304,
        minimum=65_536,
        doc="The history of attempts of a target on disk, and the same for failed ones: some 20,000 of each.",
    )

    def back_off(self) -> BackOff:
        return BackOff(
            first_ms=self.retry_ms_first,
            factor=self.retry_factor,
            delay_ms_max=self.retry_ms_max,
            retry_after_ms_max=self.retry_after_ms_max,
        )

    def address_rules(self, *, allow_inside: bool) -> AddressRules:
        networks = parse_networks(self.allowed_networks.split(",")) if self.allowed_networks.strip() else ()
        return AddressRules(allow_inside=allow_inside, networks=networks)


def outgoing_settings(flags: dict[str, Any] | None = None) -> OutgoingSettings:
    """The settings with these flags; None is a flag that is not set."""
    return load(OutgoingSettings, section="webhook_out", flags=flags)
