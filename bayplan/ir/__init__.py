"""Types, expression and statement nodes, walkers, printer, verifier, errors with the user's line."""
