"""Draws one random program with its schedule."""

from __future__ import annotations

from tests.differential.algorithms import Algorithm
from tests.differential.choices import Choices
from tests.differential.program import Program
from tests.differential.schedules import Scheduler


def generate(choices: Choices) -> Program:
    """Draws a program; the same decisions give the same program."""
    algorithm = Algorithm(choices)
    algorithm.draw()
    Scheduler(choices, algorithm).draw()
    algorithm.size_inputs()
    return algorithm.program
