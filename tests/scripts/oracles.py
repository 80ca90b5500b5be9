"""What tests of the comparisons with other tools share."""

from __future__ import annotations

import numpy as np

from npusim.errors import InvalidGraphError
from scripts.live_oracle import Oracle, computed, judged, loaded


def spoilt(oracle: Oracle, seed: int) -> str | None:
    """What the comparison says of a network's numbers, changed by 0.5 in the last output; None for a refused one.

    Before that: the network is refused for a known reason only, and what npusim computes is found equal to itself.
    """
    case = oracle.random_case(np.random.default_rng((5, seed)))
    try:
        theirs = computed(loaded(oracle, case), case, tiles=False)
    except InvalidGraphError:
        assert judged(oracle, case, [], tiles=False) == "refused"
        return None
    assert judged(oracle, case, theirs, tiles=False) in (("equal",) if case.exact else ("equal", "close"))
    theirs[-1] = theirs[-1] + 0.5
    return judged(oracle, case, theirs, tiles=False)
