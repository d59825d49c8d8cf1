"""The reference evaluator: what an algorithm means, whatever its schedule.

It shares nothing with lowering: no symbolic bounds, no loops, no storage. Regions are found by
evaluating coordinates to numbers, and values are whole numpy arrays.
"""

from bayplan.reference.evaluate import evaluate

__all__ = ["evaluate"]
