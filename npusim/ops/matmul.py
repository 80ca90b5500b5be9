"""MATMUL: a product of two activations (TOSA 1.0; the draft of 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from npusim.ops._product import MatrixProduct
from npusim.ops._sliding import DIALECT_RULE, check_dialect


@dataclass(frozen=True, slots=True)
class Matmul(MatrixProduct):
    """Dialect ``tosa``: a [N,H,C] times b [N,C,W] -> [N,H,W]; ``seed``: a [M,K] times b [K,N] -> [M,N]."""

    dialect: str = "tosa"

    name = "matmul"
    rules: ClassVar = {**MatrixProduct.rules, **DIALECT_RULE}

    def layouts(self) -> tuple[str, str]:
        check_dialect(self, self.dialect)
        return ("N H C", "N C W") if self.dialect == "tosa" else ("M K", "K N")
