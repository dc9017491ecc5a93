"""Lesson 2, DistributedDataParallel basics."""

from __future__ import annotations

from ddp_course.exercises.base import Exercise, Question
from ddp_course.exercises.lesson_02.gradients import AverageGradient

TITLE = "DistributedDataParallel basics"
NOTEBOOK = "02_ddp_basics"
EXERCISES: list[Exercise] = [AverageGradient()]
QUIZ: list[Question] = []
