"""Bayplan: an array compiler that knows where every temporary lives."""
