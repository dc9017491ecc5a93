"""The files that build the course agree: pyproject.toml, constraints.txt, environment.yml, Makefile, README.md."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ddp_course import doctor

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONSTRAINTS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1] not in ("#", "")]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())
README = (ROOT / "README.md").read_text()
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def applies(requirement: Requirement, python: str) -> bool:
    return not requirement.marker or requirement.marker.evaluate({"python_version": python, "extra": ""})


def pins(python: str) -> dict[str, str]:
    """Package → version that constraints.txt gives for this Python. Fails on a package pinned twice."""
    found: dict[str, str] = {}
    for line in CONSTRAINTS:
        pin = Requirement(line)
        if applies(pin, python):
            (version,) = pin.specifier
            assert version.operator == "==", f"{line}: not a pin"
            assert canonicalize_name(pin.name) not in found, f"{pin.name} is pinned twice for Python {python}"
            found[canonicalize_name(pin.name)] = version.version
    return found


def direct() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(text) for text in [*PROJECT["dependencies"], *(one for extra in extras for one in extra)]]


def test_the_supported_pythons_are_the_ones_tested_here() -> None:
    wanted = SpecifierSet(PROJECT["requires-python"])
    assert [python for python in ("3.9", *PYTHONS, "3.14") if python in wanted] == list(PYTHONS)


@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_is_pinned_within_its_range(python: str) -> None:
    pinned = pins(python)
    for requirement in direct():
        if applies(requirement, python):
            version = pinned.get(canonicalize_name(requirement.name))
            assert version, f"{requirement.name} has no pin for Python {python}"
            assert version in requirement.specifier, f"{requirement} does not admit the pin {version}"


def test_what_is_installed_here_is_what_is_pinned() -> None:
    """So the tests that pass here passed with these versions, and no dependency of a dependency is left open."""
    python = "{}.{}".format(*sys.version_info)
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=True,
    )
    pinned = pins(python)
    here = {canonicalize_name(n): v for n, _, v in (line.partition("==") for line in listed.stdout.split())}
    theirs = {"pip", "ddp-course", "triton", "appnope"}
    torch_pins_them = ("nvidia-", "cuda-")
    for name in sorted(here.keys() - theirs):
        if not name.startswith(torch_pins_them):
            assert pinned.get(name) == here[name].partition("+")[0], f"{name} {here[name]} is installed"


def test_learners_install_no_authoring_or_test_tool() -> None:
    base = {Requirement(text).name for text in PROJECT["dependencies"]}
    extras = {Requirement(text).name for extra in PROJECT["optional-dependencies"].values() for text in extra}
    assert not base & extras


def test_each_dependency_says_what_it_is_for() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    lines = text[text.index("dependencies = [") : text.index("[project.scripts]")].splitlines()
    bare = [line for line in lines if line.startswith("    ") and not re.search(r",\s+# \w", line)]
    assert not bare


def test_conda_gives_the_same_environment() -> None:
    assert ENVIRONMENT["name"] == PROJECT["name"]
    *conda, pip_part = ENVIRONMENT["dependencies"]
    (python,) = [Requirement(text) for text in conda if text.startswith("python")]
    assert set(python.specifier) == set(SpecifierSet(PROJECT["requires-python"]))
    assert conda[1:] == ["pip"], "everything else comes from pip, so that constraints.txt pins it"
    assert pip_part == {"pip": ["-c constraints.txt", "-e ."]}


def test_the_pip_part_of_the_conda_environment_is_what_is_installed(tmp_path: Path) -> None:
    """pip, given those lines as conda gives them, finds nothing to install but the package itself."""
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("\n".join(ENVIRONMENT["dependencies"][-1]["pip"]).replace("-c ", f"-c {ROOT}/"))
    options = ["--dry-run", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "-r", str(requirements)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Would install (ddp-course-\S+|ddp_course-\S+)$", done.stdout, re.M), done.stdout


def make(*arguments: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_make_lab_passes_options_on_and_keeps_the_token_and_the_loopback_address() -> None:
    said = make("--dry-run", "lab", "ARGS=--no-browser --port 8890").stdout
    (command,) = [line for line in said.splitlines() if "jupyter lab" in line]
    assert command.endswith("--no-browser --port 8890")
    assert not [word for word in ("token", "password", "ip=", "--ip", "allow_origin") if word in command]


@pytest.mark.parametrize(
    "target", ["lab", "test", "test-fast", "test-slow", "lint", "notebooks", "bench", "screenshots"]
)
def test_every_target_builds_what_it_needs_on_a_fresh_machine(target: str, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    said = make("--dry-run", target, folder=tmp_path).stdout
    assert "-m venv" in said and "-e ." in said
    assert ("[authoring,test]" in said) == (target != "lab"), "learners install only the base"


def test_an_unsupported_python_is_named_with_the_way_out(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.18\nexit 1\n')
    old.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    done = make("lab", folder=tmp_path, PYTHON=str(old))
    assert done.returncode != 0
    assert "needs Python 3.10 to 3.13" in done.stderr and "Python 3.9.18" in done.stderr
    assert "PYTHON=python3.11 make lab" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_the_readme_has_the_doctors_advice_word_for_word() -> None:
    section = README.partition("## Troubleshooting")[2].partition("\n## ")[0]
    told = dict(re.findall(r"^\| `(.+?)` \| (.+) \|$", section, re.M))
    assert told == doctor.ADVICE


def test_no_file_names_a_package_registry() -> None:
    hosts = re.compile(r"(pypi\.(org|python)|pythonhosted|download\.pytorch|index-url|find-links|registry\.npmjs)")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        file = ROOT / name
        if file.suffix not in (".png", ".ipynb") and file.is_file() and file != Path(__file__):
            assert not (found := hosts.search(file.read_text(errors="ignore"))), f"{name} names {found}"
