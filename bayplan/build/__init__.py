"""C compilers, the cache of compiled programs, and loading. Nothing here runs at import."""
