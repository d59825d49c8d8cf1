"""Types, expression and statement nodes, walkers, printer, verifier, errors of the user's line."""
