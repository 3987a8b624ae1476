"""Packages from npm, installed once into the cache folder."""

from __future__ import annotations

import fcntl
import functools
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.java import cache_folder

INSTALL_S_MAX = 240


@functools.cache
def npm_folder(package: str, version: str) -> Path:
    """A folder whose scripts can import the package. The test is skipped if there is no Node.js, or no registry."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip(f"needs Node.js and npm, for {package}")
    folder = cache_folder() / "npm" / f"{package}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "install.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers of a test run begin together
        if not (folder / "node_modules" / package).exists():
            options = ("--no-audit", "--no-fund", "--ignore-scripts", "--silent")
            try:
                subprocess.run(
                    ["npm", "install", *options, "--prefix", str(folder), f"{package}@{version}"],
                    check=True,
                    capture_output=True,
                    timeout=INSTALL_S_MAX,
                )
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                pytest.skip(f"npm could not install {package} {version}")
    return folder
