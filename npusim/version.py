"""The version of npusim."""

VERSION = "0.1.0"
