"""Facts about programs, no changes: simplification, intervals and bounds, uses, monotonicity."""
