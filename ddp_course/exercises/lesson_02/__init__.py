"""Lesson 2, DistributedDataParallel basics."""

from __future__ import annotations

from ddp_course.exercises.base import Exercise
from ddp_course.exercises.lesson_02.buckets import DdpBuckets
from ddp_course.exercises.lesson_02.by_hand import DdpByHand
from ddp_course.exercises.lesson_02.early_stop import EarlyStop
from ddp_course.exercises.lesson_02.gradients import AverageGradient
from ddp_course.exercises.lesson_02.labs_counting import EpochForgotten, NoSyncPlaces
from ddp_course.exercises.lesson_02.labs_drifting import HeadAfterWrap, ModuleInTraining
from ddp_course.exercises.lesson_02.layout import PredictBuckets
from ddp_course.exercises.lesson_02.quiz import QUIZ
from ddp_course.exercises.lesson_02.rank_0_only import RankZeroOnly
from ddp_course.exercises.lesson_02.resuming import Resume
from ddp_course.exercises.lesson_02.sampling import ExactEvaluation
from ddp_course.exercises.lesson_02.stepping import Accumulate
from ddp_course.exercises.lesson_02.uneven_batches import UnevenBatches
from ddp_course.exercises.lesson_02.unused_parameters import UnusedParameters

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
