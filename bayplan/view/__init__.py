"""Reads frozen reports and draws them: text, rich tables, HTML, JSON. Never sees the compiler."""
