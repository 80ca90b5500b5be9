"""What a person may say about the mapping: switches for the whole network, and a mapping for single layers."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from pydantic import Field

from npusim.config import Positive, record


@record
class LayerOptions:
    """A manual mapping of one layer; what is not stated is searched."""

    tile: Annotated[
        dict[str, Positive], Field(description="dimension name -> tile size; dimensions not named are searched")
    ] = field(default_factory=dict)
    order: Annotated[
        tuple[str, ...] | None, Field(description="parallel dimensions, outermost loop first; None: searched")
    ] = None
    buffers: Annotated[Annotated[int, Field(ge=1, le=3)] | None, Field(description="slots per operand; None: searched")] = (
        None
    )
    resident: Annotated[bool | None, Field(description="keep the output in SRAM for its readers; None: searched")] = None


@record
class MappingOptions:
    """Switches of the mapper."""

    fuse: Annotated[bool, Field(description="run element-wise tails behind their anchor")] = True
    residency: Annotated[bool, Field(description="keep feature maps in SRAM between layers where that pays")] = True
    prefetch: Annotated[bool, Field(description="load constants of a layer while the one before computes")] = True
    buffers: Annotated[
        Annotated[int, Field(ge=1, le=3)] | None, Field(description="slots per operand in every layer; None: searched")
    ] = None
    candidates: Annotated[Positive, Field(description="most tilings weighed per layer, loop order and buffering")] = 2048
    layers: Annotated[dict[str, LayerOptions], Field(description="manual mappings by layer name")] = field(
        default_factory=dict
    )
