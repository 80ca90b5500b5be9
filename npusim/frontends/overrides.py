"""Takes apart the ``key=value`` texts of ``--set`` and sorts them by the file that they change."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.errors import ConfigError

WORKLOAD_KEYS = ("mapping", "seed", "name", "level", "model_options")
"""First steps of the keys that change the workload; ``chip.name`` is the way to the chip's key of the same name."""


def split_overrides(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """The overrides of the workload and those of the chip, each in order; the latter without the prefix ``chip.``.

    >>> split_overrides(["mapping.fuse=false", "sram.banks=8", "chip.name=mine", "seed=3"])
    (['mapping.fuse=false', 'seed=3'], ['sram.banks=8', 'name=mine'])
    """
    workload = [o for o in overrides if o.partition("=")[0].split(".")[0] in WORKLOAD_KEYS]
    return workload, [o.removeprefix("chip.") for o in overrides if o not in workload]


def key_values(overrides: Sequence[str]) -> list[tuple[str, str]]:
    """Key and value of each override; ConfigError naming every one that has no ``=``.

    >>> key_values(["sram.size_bytes=64 KiB"])
    [('sram.size_bytes', '64 KiB')]
    """
    wrong = [o for o in overrides if "=" not in o]
    if wrong:
        raise ConfigError([f"--set {o}: has no '='; write key=value, such as mapping.fuse=false" for o in wrong])
    return [(key.strip(), value) for key, _, value in (o.partition("=") for o in overrides)]
