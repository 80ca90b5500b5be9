"""IDENTITY against its oracle, the input itself."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ops import evaluate
from npusim.ops.identity import Identity
from tests.ops.movement import MOVED, check_elements, random_operand, random_shape


@pytest.mark.parametrize("dtype", MOVED)
def test_tiles_and_whole_give_the_input(dtype: str) -> None:
    rng = np.random.default_rng(3)
    x = random_operand(rng, random_shape(rng), dtype)
    check_elements(rng, Identity(), [x], [dtype], lambda *i: x[i])


def test_scalar() -> None:
    assert evaluate("identity", [np.int16(-3)]) == -3


def test_floats_are_not_moved() -> None:
    with pytest.raises(InvalidGraphError, match="identity: no type rule for input f32"):
        evaluate("identity", [np.float32([1.5])])
