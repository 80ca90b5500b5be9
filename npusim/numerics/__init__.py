"""Exact integer arithmetic on numpy arrays; knows no operator."""
