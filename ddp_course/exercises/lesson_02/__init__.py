"""Lesson 2, DistributedDataParallel basics."""

from __future__ import annotations

from ddp_course.exercises.base import Exercise
from ddp_course.exercises.lesson_02.by_hand import DdpBuckets, DdpByHand
from ddp_course.exercises.lesson_02.gradients import AverageGradient
from ddp_course.exercises.lesson_02.labs_counting import EpochForgotten, NoSyncPlaces
from ddp_course.exercises.lesson_02.labs_drifting import HeadAfterWrap, ModuleInTraining, UnusedParameters
from ddp_course.exercises.lesson_02.labs_waiting import EarlyStop, RankZeroOnly, UnevenBatches
from ddp_course.exercises.lesson_02.layout import PredictBuckets
from ddp_course.exercises.lesson_02.quiz import QUIZ
from ddp_course.exercises.lesson_02.resuming import Resume
from ddp_course.exercises.lesson_02.sampling import ExactEvaluation
from ddp_course.exercises.lesson_02.stepping import Accumulate

__all__ = ["EXERCISES", "NOTEBOOK", "QUIZ", "TITLE"]

TITLE = "DistributedDataParallel basics"
NOTEBOOK = "02_ddp_basics"
EXERCISES: list[Exercise] = [
    RankZeroOnly(),
    ExactEvaluation(),
    EpochForgotten(),
    UnevenBatches(),
    AverageGradient(),
    DdpByHand(),
    DdpBuckets(),
    ModuleInTraining(),
    HeadAfterWrap(),
    UnusedParameters(),
    PredictBuckets(),
    Accumulate(),
    NoSyncPlaces(),
    EarlyStop(),
    Resume(),
]
