"""The output pipeline: bias, requantisation and clamping of finished accumulators on their way to SRAM."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from npusim.config import NonNegative, Positive, Ratio, record
from npusim.hardware.base import Count
from npusim.numerics.types import ceil_div


@record
class OutputPipeline:
    """A streaming stage behind the MAC array: it runs beside the array, so a tile takes the longer of the two."""

    elements_per_cycle: Annotated[Ratio, Field(description="finished accumulators a cycle, whatever the operators")]
    operators: Annotated[tuple[str, ...], Field(description="operators it can apply; others go to the vector unit")]
    latency_cycles: Annotated[NonNegative, Field(description="from accumulator to SRAM")]
    instances_per_array: Annotated[Positive, Field(description="pipelines per MAC array")]

    def cycles(self, elements: Count) -> Count:
        """Cycles to take in ``elements`` finished accumulators."""
        rate = self.elements_per_cycle * self.instances_per_array
        return ceil_div(elements * rate.denominator, rate.numerator)
