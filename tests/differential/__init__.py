"""Random programs under random schedules: evaluator, halide wheel and bayplan must agree."""
