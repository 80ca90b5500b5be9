"""What a person may say about the mapping: switches for the whole network, and a mapping for single layers."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from pydantic import Field

from npusim.config import NonNegative, Positive, record


@record
class LayerOptions:
    """A manual mapping of one layer; what is not stated is searched."""

    tile: Annotated[
        dict[str, Positive], Field(description="dimension name -> tile size; dimensions not named are searched")
    ] = field(default_factory=dict)
    order: Annotated[
        tuple[str, ...] | None,
        Field(
            description="dimensions, outermost loop first; others follow, the reduced ones innermost; a reduced one "
            "outside parallel ones keeps the partial sums of all their tiles; null: searched"
        ),
    ] = None
    buffers: Annotated[
        Annotated[int, Field(ge=1, le=64)] | None, Field(description="slots per operand; null: searched")
    ] = None
    reload: Annotated[
        bool, Field(description="load the operands of every tile anew, those that the tile before had as well")
    ] = False
    unit: Annotated[
        str | None, Field(description="name of the unit that takes the layer; null: the first that can")
    ] = None
    unrolling: Annotated[
        str | NonNegative | None,
        Field(
            description="how the unit's array lays out the loops: a name as in the report, a place in the chip's list, "
            "or im2col; null: the fastest for each tile"
        ),
    ] = None
    resident: Annotated[bool | None, Field(description="keep the output in SRAM for its readers; null: searched")] = (
        None
    )


@record
class MappingOptions:
    """Switches of the mapper."""

    fuse: Annotated[bool, Field(description="run element-wise tails behind their anchor")] = True
    residency: Annotated[bool, Field(description="keep feature maps in SRAM between layers where that pays")] = True
    prefetch: Annotated[bool, Field(description="load constants of a layer while the one before computes")] = True
    overlap: Annotated[
        bool, Field(description="a layer may begin before the one before is complete; false: one after the other")
    ] = True
    buffers: Annotated[
        Annotated[int, Field(ge=1, le=64)] | None, Field(description="slots per operand in every layer; null: searched")
    ] = None
    candidates: Annotated[Positive, Field(description="most tilings weighed per layer, loop order and buffering")] = 256
    smaller_memories: Annotated[
        bool | None,
        Field(
            description="also plan for every smaller power of two of SRAM and keep the plan that simulates fastest, so "
            "that more SRAM never costs cycles; null: for networks of up to 16 layers"
        ),
    ] = None
    layers: Annotated[dict[str, LayerOptions], Field(description="manual mappings by layer name")] = field(
        default_factory=dict
    )
