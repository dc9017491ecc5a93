"""Lesson 2, DistributedDataParallel basics."""

from __future__ import annotations

from ddp_course.exercises.base import Exercise, Question
from ddp_course.exercises.lesson_02.by_hand import DdpBuckets, DdpByHand
from ddp_course.exercises.lesson_02.gradients import AverageGradient
from ddp_course.exercises.lesson_02.layout import PredictBuckets
from ddp_course.exercises.lesson_02.resuming import Resume
from ddp_course.exercises.lesson_02.sampling import ExactEvaluation
from ddp_course.exercises.lesson_02.stepping import Accumulate

TITLE = "DistributedDataParallel basics"
NOTEBOOK = "02_ddp_basics"
EXERCISES: list[Exercise] = [
    ExactEvaluation(),
    AverageGradient(),
    DdpByHand(),
    DdpBuckets(),
    PredictBuckets(),
    Accumulate(),
    Resume(),
]
QUIZ: list[Question] = []
