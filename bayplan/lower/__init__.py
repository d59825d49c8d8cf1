"""From algorithm and schedule to loops; one pass a file, `pipeline.py` lists them."""
