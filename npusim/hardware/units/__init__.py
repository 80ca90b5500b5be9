"""The compute units: one file each."""
