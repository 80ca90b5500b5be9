"""Random TOSA graphs on which npusim and TOSA's reference model must agree, and how a failing one is made small."""
