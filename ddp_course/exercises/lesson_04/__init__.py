"""Lesson 4, launching with torchrun."""

from __future__ import annotations

from ddp_course.exercises.base import Exercise
from ddp_course.exercises.lesson_04.own_launcher import OwnLauncher
from ddp_course.exercises.lesson_04.quiz import QUIZ
from ddp_course.exercises.lesson_04.rank_arithmetic import RankArithmetic

__all__ = ["EXERCISES", "NOTEBOOK", "QUIZ", "TITLE"]

TITLE = "Launching with torchrun"
NOTEBOOK = "04_launching_with_torchrun"
EXERCISES: list[Exercise] = [
    OwnLauncher(),
    RankArithmetic(),
]
