"""Kinds of MAC arrays, one a file: how their multipliers are used, and what a box of work costs on them."""
