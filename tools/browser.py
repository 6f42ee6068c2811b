"""Install Debian's Chromium for the tests of pages, where none is installed and it can be: as root, with apt-get.

Prints what it did. It never fails: without a browser these tests are skipped, and say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 600


def main() -> None:
    if found := next(filter(None, map(shutil.which, NAMES)), None):
        print(f"browser for the tests of pages: {found}")
        return
    apt = shutil.which("apt-get")
    if apt is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        print("no browser here, and no apt-get or no root to install one with: the tests of pages will be skipped")
        return
    print("no browser here: installing Debian's chromium for the tests of pages")
    for words in (("update", "-q"), ("install", "-y", "-q", "--no-install-recommends", "chromium")):
        try:
            done = subprocess.run(
                [apt, *words], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, text=True,
                timeout=SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"apt-get {words[0]} did not end: {error}; the tests of pages will be skipped")
            return
        if done.returncode:
            print(f"apt-get {words[0]} failed: {done.stderr.strip()[-500:]}; the tests of pages will be skipped")
            return
    print(f"installed {shutil.which('chromium')}")


if __name__ == "__main__":
    main()
