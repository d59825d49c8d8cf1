"""Measurements: times of the emitted code as ratios to the halide wheel, and compile times."""
