"""Kinds, lives, plan and report of temporaries; usable without any target."""
