"""Workloads: YAML files, or bare model files, into a verified graph with its data."""

from npusim.frontends.overrides import split_overrides
from npusim.frontends.workload.data import load_array, random_array, tensor_type
from npusim.frontends.workload.load import load_workload
from npusim.frontends.workload.workload import Workload

__all__ = ["Workload", "load_array", "load_workload", "random_array", "split_overrides", "tensor_type"]
