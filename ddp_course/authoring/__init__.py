"""`ddp-course build`: from `solutions/NN_name.md` to the executed notebooks in `solutions/` and `lessons/`.

Only authors need it; its libraries are the `authoring` extra.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

_DESCRIPTION = """\
Build the notebooks of the lessons from solutions/NN_name.md: solutions/NN_name.ipynb with the
solutions, lessons/NN_name.ipynb without them, both executed. Building twice gives the same bytes.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ddp-course build", description=_DESCRIPTION)
    parser.add_argument("lessons", nargs="*", metavar="NN", help="numbers of the lessons (default: all)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="write nothing; fail where a notebook is not its source's")
    mode.add_argument(
        "--fresh", action="store_true", help="also replace the stored outputs of nbval-ignore-output cells"
    )
    return parser


def main(argv: list[str] | None = None, root: Path | None = None) -> int:
    """Build or check the lessons under `root` (default: the repository around the current folder).

    Returns 0 where all is well, 1 where a lesson was refused or differs, 2 where no such lesson exists.
    """
    args = _parser().parse_args(argv)
    try:
        from ddp_course.authoring import build
    except ModuleNotFoundError as missing:
        print(
            f"ddp-course build needs {missing.name}, which is not installed: pip install -e '.[authoring]'",
            file=sys.stderr,
        )
        return 2
    try:
        lessons = build.find_lessons(root or build.find_root(Path.cwd()), args.lessons)
    except build.BuildError as error:
        print(f"ddp-course build: {error}", file=sys.stderr)
        return 2
    failures = 0
    for lesson in lessons:
        try:
            build.check(lesson) if args.check else build.build(lesson, fresh=args.fresh)
        except build.BuildError as error:
            print(f"{lesson.name}: refused\n\n{error}\n", file=sys.stderr)
            failures += 1
        else:
            print(f"{lesson.name}: {'as its source gives it' if args.check else 'built'}", flush=True)
    return 1 if failures else 0
