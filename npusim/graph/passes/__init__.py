"""Passes over graphs: one frozen dataclass a file; a valid graph goes in, a valid graph (or its regions) comes out."""
