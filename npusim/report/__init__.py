"""Pure functions of a run's result: the report as data, tables, plots and files."""
