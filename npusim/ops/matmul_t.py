"""MATMUL_T: a product of two activations, the second one stored transposed (TOSA 1.1 draft)."""

from __future__ import annotations

from dataclasses import dataclass

from npusim.ops._product import MatrixProduct


@dataclass(frozen=True, slots=True)
class MatmulT(MatrixProduct):
    """a [N,H,C] times b [D,W,C] -> [N,H,W] with sums over C; D is N, or 1: one b for the whole batch."""

    name = "matmul_t"
    transposed = True

    def layouts(self) -> tuple[str, str]:
        return ("N H C", "D W C")

    def batches_match(self, a: int, b: int) -> bool:
        return b in (1, a)
