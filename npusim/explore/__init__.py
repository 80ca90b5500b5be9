"""Studies of many runs: design spaces, Pareto fronts, validation against measurements."""
