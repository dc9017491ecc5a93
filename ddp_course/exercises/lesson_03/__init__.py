"""Lesson 3, SyncBatchNorm and sharded state."""

from __future__ import annotations

from ddp_course.exercises.base import Exercise
from ddp_course.exercises.lesson_03.checkpointing import ShardedCheckpoint
from ddp_course.exercises.lesson_03.labs_norm import BatchOfOne, ConversionIgnored, RankZeroEvaluates
from ddp_course.exercises.lesson_03.labs_sharded import FullStateOnRankZero, OptimizerBeforeSharding
from ddp_course.exercises.lesson_03.layer import ShardedLinear
from ddp_course.exercises.lesson_03.predicting import BytesPerRank
from ddp_course.exercises.lesson_03.quiz import QUIZ
from ddp_course.exercises.lesson_03.statistics import GlobalStatistics
from ddp_course.exercises.lesson_03.sync_norm import SyncBatchNorm
from ddp_course.exercises.lesson_03.zero import UnconsolidatedState, ZeroOne

__all__ = ["EXERCISES", "NOTEBOOK", "QUIZ", "TITLE"]

TITLE = "SyncBatchNorm and sharded state"
NOTEBOOK = "03_syncbatchnorm_and_sharded_state"
EXERCISES: list[Exercise] = [
    BatchOfOne(),
    GlobalStatistics(),
    SyncBatchNorm(),
    ConversionIgnored(),
    RankZeroEvaluates(),
    BytesPerRank(),
    ZeroOne(),
    UnconsolidatedState(),
    ShardedLinear(),
    OptimizerBeforeSharding(),
    ShardedCheckpoint(),
    FullStateOnRankZero(),
]
