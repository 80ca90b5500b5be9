"""The pictures of a report, as PNG bytes that are equal for equal reports; matplotlib is imported when one is drawn."""

from npusim.report.plots.latency import latency_plot
from npusim.report.plots.occupancy import occupancy_plot
from npusim.report.plots.roofline import roof_of, roofline_plot
from npusim.report.plots.timeline import timeline_plot
from npusim.report.plots.utilization import utilization_plot

__all__ = ["latency_plot", "occupancy_plot", "roof_of", "roofline_plot", "timeline_plot", "utilization_plot"]
