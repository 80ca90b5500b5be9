"""What the actions of a chip cost in energy and its parts in area: the optional ``energy`` section of its YAML."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from npusim.config import NonNegative, record

COMPONENTS = {
    "mac": "mac",
    "hop_byte": "hops",
    "accumulator_byte": "accumulators",
    "popcount_word": "popcount",
    "vector_operation": "vector",
    "output_element": "output_pipeline",
    "sram_read_byte": "sram",
    "sram_write_byte": "sram",
    "dram_byte": "dram",
    "host_byte": "host_link",
    "cycle": "leakage",
}
"""Every action that costs energy, and the component that reports count it under. The action ``mac`` comes with the
element types: ``mac.i8xi8``."""


@record
class PartAreas:
    """Area of the parts that are modelled, in square micrometres; control, wires and pads have none."""

    multiplier: Annotated[NonNegative, Field(description="with its adder and registers")]
    popcount_bit: Annotated[NonNegative, Field(description="of a word, on each lane")]
    lane: Annotated[NonNegative, Field(description="of a vector unit")]
    sram_byte: Annotated[
        NonNegative, Field(description="of the SRAM and of memories for partial sums, with what drives the cells")
    ]


@record
class ActionEnergies:
    """Energy of every action, in femtojoules: an energy is a sum of counts times these.

    An entry may be left out for what the chip never does. An action that a program does take and that has no entry is
    an error; what is meant to be free is stated as 0. The entries are those of this chip: an SRAM of another size, or
    longer words, have entries of their own.

    A multiplication counts on padding, too. An operand is read from SRAM as often as its unit takes it up, in whole
    words of a bank: the traffic that holds the unit's port. Sums within a tile stay in registers that belong to the
    multipliers. Hops are counted between the elements of systolic grids; an array of another kind with traffic of its
    own is refused where it meets an energy table.
    """

    mac: Annotated[
        dict[str, NonNegative],
        Field(description="a multiplication and the addition to its sum, by element types as in macs_per_cycle"),
    ] = Field(default_factory=dict)
    hop_byte: Annotated[
        NonNegative | None, Field(description="a byte that an element of a systolic grid passes to its neighbour")
    ] = None
    accumulator_byte: Annotated[
        NonNegative | None, Field(description="a byte read from or written to an array's own memory for partial sums")
    ] = None
    popcount_word: Annotated[
        NonNegative | None, Field(description="xnor, count and addition of a word on one lane")
    ] = None
    vector_operation: Annotated[NonNegative | None, Field(description="a cycle of an instruction, on one lane")] = None
    output_element: Annotated[
        NonNegative | None, Field(description="an accumulator through the output pipeline, whatever the operators")
    ] = None
    sram_read_byte: Annotated[
        NonNegative | None, Field(description="in whole words of a bank, those for stores to DRAM included")
    ] = None
    sram_write_byte: Annotated[
        NonNegative | None, Field(description="in whole words of a bank, those of loads from DRAM included")
    ] = None
    dram_byte: Annotated[NonNegative | None, Field(description="moved, in whole bursts")] = None
    host_byte: Annotated[NonNegative | None, Field(description="moved over the host link, in whole bursts")] = None
    cycle: Annotated[NonNegative | None, Field(description="leakage of the whole chip")] = None

    def entry(self, action: str) -> int | None:
        """Femtojoules of an action of COMPONENTS; None if there is no such entry."""
        name, _, types = action.partition(".")
        found: dict[str, int] | int | None = getattr(self, name)
        return found.get(types) if isinstance(found, dict) else found


@record
class EnergyTable:
    """What actions of the chip cost in energy, and its parts in area; each may be left out: not modelled."""

    femtojoules: Annotated[ActionEnergies | None, Field(description="by action; null: energy is not modelled")] = None
    square_micrometres: Annotated[PartAreas | None, Field(description="by part; null: area is not modelled")] = None


def entry_key(action: str) -> str:
    """Where the entry of an action stands in the chip's YAML.

    >>> entry_key("mac.i8xi8")
    'energy.femtojoules.mac.i8xi8'
    """
    return f"energy.femtojoules.{action}"
