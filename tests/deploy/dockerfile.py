"""Reads a Dockerfile, and runs the instructions that need no container, in a folder that stands for the image's root.

`COPY`, `ENV` and `WORKDIR` are followed, and `RUN` is given to the shell with the image's paths replaced. A `RUN` that installs
packages of the system is left out: this machine has to have them.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

_OF_THE_SYSTEM = re.compile(r"\bapt-get\b")
# Folders of the image; no other paths are written by its instructions.
_PLACES = ("/opt", "/src", "/wheels", "/var/lib/changefeed")


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage: its base image, and its instructions."""

    image: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def values(self, keyword: str) -> list[str]:
        """The arguments of all instructions of a kind."""
        return [value for known, value in self.instructions if known == keyword]


def read(path: Path) -> list[Stage]:
    """Returns the stages of a Dockerfile."""
    text = re.sub(r"(?m)^\s*#.*\n", "", path.read_text(encoding="utf-8"))
    stages: list[Stage] = []
    for line in filter(str.strip, text.replace("\\\n", " ").splitlines()):
        keyword, _, value = line.partition(" ")
        if keyword == "FROM":
            image, _, name = value.partition(" AS ")
            stages.append(Stage(image, name))
        else:
            stages[-1].instructions.append((keyword, value.strip()))
    return stages


def ignored(path: str, patterns: list[str]) -> bool:
    """Whether a path of the build's context is left out by the lines of a `.dockerignore`; the last that fits decides."""
    result = False
    for pattern in patterns:
        negated, pattern = pattern.startswith("!"), pattern.removeprefix("!")
        parts = [path, *(str(parent) for parent in Path(path).parents if str(parent) != ".")]
        if any(fnmatch.fnmatch(part, pattern.removeprefix("**/")) or fnmatch.fnmatch(part, pattern) for part in parts):
            result = not negated
    return result


class Build:
    """A build of the image in a folder.

    Attributes:
        root: the folder that stands for `/`.
        environ: the environment of the last stage's instructions.
    """

    def __init__(self, context: Path, root: Path, environ: dict[str, str], patterns: list[str]) -> None:
        self.context, self.root, self.environ, self._patterns = context, root, dict(environ), patterns
        self._folder = root

    def run(self, stage: Stage) -> None:
        """Follows the instructions of a stage."""
        for keyword, value in stage.instructions:
            if keyword == "WORKDIR":
                self._folder = self.placed(value)
                self._folder.mkdir(parents=True, exist_ok=True)
            elif keyword == "ENV":
                for name, assigned in re.findall(r'(\w+)=("[^"]*"|\S+)', value):
                    self.environ[name] = os.path.expandvars(
                        self._replaced(assigned).replace("$PATH", self.environ["PATH"])
                    )
            elif keyword == "COPY":
                self._copy(shlex.split(value))
            elif keyword == "RUN" and not _OF_THE_SYSTEM.search(value):
                self._shell(value)

    def placed(self, path: str) -> Path:
        """The place of one of the image's paths in the folder."""
        return self.root / path.lstrip("/")

    def _replaced(self, text: str) -> str:
        for place in _PLACES:
            text = re.sub(rf"(?<![\w.]){place}(?=[/\s;:\"'$)]|$)", str(self.placed(place)), text)
        return text

    def _copy(self, words: list[str]) -> None:
        if words[0].startswith("--from="):
            return  # all stages are in one folder, and such copies keep their paths
        *sources, target = words
        for source in sources:
            destination = self._folder / target / (Path(source).name if (self.context / source).is_file() else "")
            origin = self.context / source
            if origin.is_file():
                assert not ignored(source, self._patterns), f"{source} is not in the context"
                destination.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(origin, destination)
                continue
            for file in sorted(path for path in origin.rglob("*") if path.is_file()):
                name = file.relative_to(self.context).as_posix()
                if not ignored(name, self._patterns):
                    copy = destination / file.relative_to(origin)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(file, copy)

    def _shell(self, command: str) -> None:
        script = self._replaced(command).replace("rm -rf /tmp/*", "true")
        done = subprocess.run(
            ["sh", "-ec", script], cwd=self._folder, env=self.environ, capture_output=True, text=True, errors="replace"
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
