"""Cases distilled from public reports about other compilers, each under the name of its id."""
