"""A random graph as the integers that were drawn to make it, so that smaller integers make a smaller graph."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Draws integers and remembers them in ``made``.

    With ``replay`` it gives those again, cut to the range asked for, and then the least ones. Whatever makes things
    from it treats the least integer, and the first option, as the simplest.
    """

    def __init__(self, seed: str = "", replay: Sequence[int] | None = None) -> None:
        self.made: list[int] = []
        self._random = random.Random(seed)
        self._replay = replay

    def integer(self, low: int, high: int) -> int:
        """An integer in ``low..high``."""
        if self._replay is None:
            offset = self._random.randint(0, high - low)
        else:
            at = len(self.made)
            offset = min(self._replay[at], high - low) if at < len(self._replay) else 0
        self.made.append(offset)
        return low + offset

    def sample(self, options: Sequence[T]) -> T:
        """One of ``options``."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, often: int, of: int) -> bool:
        """True ``often`` times ``of`` many; False is simpler."""
        return self.integer(0, of - 1) >= of - often


def shrink(made: Sequence[int], fails: Callable[[Sequence[int]], bool], tries: int) -> list[int]:
    """Fewer and smaller choices that still fail; ``fails`` is asked at most ``tries`` times.

    Cuts out spans, ever shorter, and makes each choice 0, half of itself or one less, for as long as anything helps.
    """
    best = list(made)
    left = tries

    def better(candidate: list[int]) -> bool:
        nonlocal best, left
        if left <= 0 or (len(candidate), candidate) >= (len(best), best):
            return False
        left -= 1
        if not fails(candidate):
            return False
        best = candidate
        return True

    helped = True
    while helped and left > 0:
        helped = False
        for span in (64, 16, 8, 4, 2, 1):
            at = 0
            while at < len(best):
                if better(best[:at] + best[at + span :]):
                    helped = True
                else:
                    at += span
        for at in range(len(best)):
            for smaller in (lambda x: 0, lambda x: x // 2, lambda x: x - 1):
                while at < len(best) and best[at] and better([*best[:at], smaller(best[at]), *best[at + 1 :]]):
                    helped = True
    return best
