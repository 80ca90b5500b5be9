"""TOSA's conformance generator and reference model, in an environment of their own: the judges of npusim's numbers."""
