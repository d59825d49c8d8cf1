"""Draws one random program with its schedule."""

from __future__ import annotations

from tests.differential.algorithms import Algorithm
from tests.differential.choices import Choices
from tests.differential.gpu_schedules import GpuScheduler
from tests.differential.program import Program
from tests.differential.schedules import Scheduler


def generate(choices: Choices, stored: bool = False, gpu: bool = False) -> Program:
    """Draws a program; the same decisions give the same program.

    Args:
        choices: The decisions.
        stored: Draw for storage: more Funcs, many of them pointwise, few of them inlined.
        gpu: Schedule for a target with a GPU.
    """
    algorithm = Algorithm(choices, stored)
    algorithm.draw()
    scheduler = GpuScheduler if gpu else Scheduler
    scheduler(choices, algorithm).draw()
    algorithm.size_inputs()
    return algorithm.program
