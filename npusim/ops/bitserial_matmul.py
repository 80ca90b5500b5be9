"""A bit-serial product of matrices: numbers of 1 to 8 bits, ternary or bipolar ones, plane by plane on single bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from npusim.ops._popcount import BitserialOp
from npusim.ops._popcount_product import PopcountProduct


@dataclass(frozen=True, slots=True, kw_only=True)
class BitserialMatmul(BitserialOp, PopcountProduct):
    """Sums of products of a and b, exact, from the ones counted in pairs of bit planes (BISMO, arXiv:1806.08862).

    ``input_*`` is about a, ``weight_*`` about b; encodings, output types and thresholds as for every bit-serial
    operator.
    """

    input_kind: str = "integer"
    weight_kind: str = "integer"
    input_bits: int | None = None
    weight_bits: int | None = None

    name = "bitserial_matmul"
    rules: ClassVar[Mapping[str, str]] = {**BitserialOp.rules, **PopcountProduct.rules}
