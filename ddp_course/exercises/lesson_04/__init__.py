"""Lesson 4, launching with torchrun."""

from __future__ import annotations

from ddp_course.exercises.base import Exercise
from ddp_course.exercises.lesson_04.first_failure import FirstFailure
from ddp_course.exercises.lesson_04.from_zero import FromZero
from ddp_course.exercises.lesson_04.labs_failing import HiddenTraceback, MissingRank
from ddp_course.exercises.lesson_04.labs_launching import LocalRankArgument, MoreRanksThanGpus, PortInUse
from ddp_course.exercises.lesson_04.labs_nodes import EachAlone
from ddp_course.exercises.lesson_04.no_restart import NoRestart
from ddp_course.exercises.lesson_04.overlap import OverlappedStep
from ddp_course.exercises.lesson_04.own_launcher import OwnLauncher
from ddp_course.exercises.lesson_04.quiz import QUIZ
from ddp_course.exercises.lesson_04.rank_arithmetic import RankArithmetic
from ddp_course.exercises.lesson_04.samples import SamplesLeft
from ddp_course.exercises.lesson_04.sbatch import SbatchScript
from ddp_course.exercises.lesson_04.surviving import Survive

__all__ = ["EXERCISES", "NOTEBOOK", "QUIZ", "TITLE"]

TITLE = "Launching with torchrun"
NOTEBOOK = "04_launching_with_torchrun"
EXERCISES: list[Exercise] = [
    OwnLauncher(),
    PortInUse(),
    LocalRankArgument(),
    RankArithmetic(),
    MoreRanksThanGpus(),
    EachAlone(),
    NoRestart(),
    FromZero(),
    Survive(),
    SamplesLeft(),
    HiddenTraceback(),
    FirstFailure(),
    MissingRank(),
    SbatchScript(),
    OverlappedStep(),
]
