"""Files of the outside world, read into operator graphs: one folder a format."""
