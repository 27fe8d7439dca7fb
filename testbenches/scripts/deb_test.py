#!/usr/bin/env python3
"""The Debian package in a Debian that has nothing else: it installs with what it says it needs, and the platform of
docs/howto/embed.md is built and run there.

HEDDLE_BUILD names the build folder, in which everything has been built. It takes root, debootstrap and a mirror (by
default debootstrap's own; HEDDLE_DEBIAN_MIRROR), and is skipped without them. Packages are kept in the build folder.
"""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from package_test import BUILD, EMBED, blocks, named_files

MIRROR = [os.environ[name] for name in ("HEDDLE_DEBIAN_MIRROR",) if name in os.environ]
SUITE = "bookworm"
KEPT = BUILD / "debian-packages"


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@unittest.skipUnless(shutil.which("debootstrap"), "SKIPPED: debootstrap is missing (apt-get install debootstrap)")
@unittest.skipUnless(os.geteuid() == 0, "SKIPPED: a chroot takes root")
class DebianPackageTest(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="heddle-debian-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        KEPT.mkdir(exist_ok=True)
        try:
            run("debootstrap", f"--cache-dir={KEPT}", "--variant=minbase", SUITE, self.root, *MIRROR)
        except AssertionError as error:
            if "Failed getting release file" in str(error) or "Couldn't download" in str(error):
                self.skipTest("SKIPPED: the mirror does not answer")
            raise

    def inside(self, command):
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C",
                 "DEBIAN_FRONTEND": "noninteractive"}
        return run("chroot", self.root, "bash", "-c", f"set -e\n{command}", env=clean)

    def test_it_installs_and_its_example_runs(self):
        made = self.root / "made"
        run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", made, cwd=self.root)
        for name, text in named_files(EMBED).items():
            (self.root / "root" / name).write_text(text, encoding="utf-8")
        archives = self.root / "var/cache/apt/archives"
        for package in KEPT.glob("*.deb"):
            shutil.copy(package, archives)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        self.inside("apt-get update -q && apt-get install -y -q --no-install-recommends /made/*.deb g++ python3")
        for package in archives.glob("*.deb"):
            shutil.copy(package, KEPT)
        said = self.inside(f"cd /root\n{blocks(EMBED, 'sh')[1]}")
        self.assertIn(blocks(EMBED, "text")[0], said)
        self.assertIn("small", self.inside("heddle show presets"))
        self.assertIn("h100-sxm", self.inside("cd /root; python3 -c 'import heddle; print(heddle.presets())'"))
        self.inside("apt-get purge -y -q heddle")
        self.assertEqual([str(path) for path in (self.root / "usr").rglob("*heddle*")], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)  # tells why it is skipped
