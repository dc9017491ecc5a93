"""The quick check of lesson 4."""

from __future__ import annotations

from ddp_course.exercises.base import Question

QUIZ: list[Question] = []
