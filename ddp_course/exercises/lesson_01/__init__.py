"""Lesson 1, data vs model parallelism."""

from __future__ import annotations

from ddp_course.exercises.base import Exercise
from ddp_course.exercises.lesson_01.cost import AllReduceCost
from ddp_course.exercises.lesson_01.identity import WhoAmI
from ddp_course.exercises.lesson_01.labs_collectives import MismatchedLengths, SendRecvOrder
from ddp_course.exercises.lesson_01.labs_training import SamplerLeftOut, SumLoss
from ddp_course.exercises.lesson_01.parts import AllReduceFromParts
from ddp_course.exercises.lesson_01.quiz import QUIZ
from ddp_course.exercises.lesson_01.ring import RingAllReduce
from ddp_course.exercises.lesson_01.stepping import OneProcessStep
from ddp_course.exercises.lesson_01.tensor import ColumnThenRow

__all__ = ["EXERCISES", "NOTEBOOK", "QUIZ", "TITLE"]

TITLE = "Data vs model parallelism"
NOTEBOOK = "01_data_vs_model_parallelism"
EXERCISES: list[Exercise] = [
    WhoAmI(),
    MismatchedLengths(),
    AllReduceFromParts(),
    SamplerLeftOut(),
    SumLoss(),
    OneProcessStep(),
    SendRecvOrder(),
    RingAllReduce(),
    AllReduceCost(),
    ColumnThenRow(),
]
