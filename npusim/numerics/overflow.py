"""What happens when a partial sum leaves its accumulator: the three policies, and the count of events."""

from __future__ import annotations

from typing import Literal

from npusim.errors import UnpredictableError
from npusim.numerics.types import DType

Policy = Literal["refuse", "wrap", "saturate"]
"""``refuse``: unpredictable by TOSA's apply_add, an error. ``wrap``: two's complement at the accumulator's width.
``saturate``: each partial sum clamped, in the order of the additions."""


class Overflow:
    """The policy of one accumulation and a collector of its events (the one mutable thing a step is handed).

    ``where`` opens the message of a refusal, for example ``layer 'conv1': conv2d``.
    """

    def __init__(self, policy: Policy = "refuse", where: str = "") -> None:
        self.policy: Policy = policy
        self.where = where
        self.events = 0

    def record(self, events: int, what: str, index: tuple[int, ...], value: int, dtype: DType) -> None:
        """Count ``events`` overflows; under ``refuse`` raise for the first: output ``index``, ``value``.

        ``what`` says which number overflowed: ``partial sum``, ``sum with bias``, ``pooling sum``.
        """
        self.events += events
        if events and self.policy == "refuse":
            raise UnpredictableError(
                f"{self.where}: {what} {value} at output index {list(index)} is outside {dtype} "
                f"({dtype.minimum}..{dtype.maximum}); TOSA leaves it unpredictable; to study hardware "
                f"that goes on, let the MAC array's accumulators.{dtype} be wrap or saturate"
            )
