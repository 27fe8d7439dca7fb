#!/usr/bin/env python3
"""Tests of scripts/setup with stand-ins for dpkg-query, apt-get, id and sudo: nothing is installed."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/setup"
# What the script may use of the real system; everything else has to be a stand-in.
REAL_TOOLS = ("bash", "env", "cat", "dirname", "mktemp", "rm", "grep", "sed", "sort", "tr", "tail", "sleep", "touch")


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="heddle-setup-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        for tool in REAL_TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.apt_log = self.root / "apt.log"
        # dpkg-query knows every package that is asked for, save those in the file `absent`.
        self.absent()
        self.stub("dpkg-query", f'''
for package in "${{@:4}}"; do
  if grep -qxF "$package" "{self.root}/absent"; then state=not-installed; else state=installed; fi
  echo "$state $package"
done''')
        self.stub("id", "echo 0")
        self.stub("apt-get", f'echo "$@" >>"{self.apt_log}"')

    def stub(self, name, body):
        path = self.bin / name
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def absent(self, *packages):
        (self.root / "absent").write_text("".join(f"{package}\n" for package in packages), encoding="utf-8")

    def setup_script(self, *options, **environment):
        return subprocess.run([shutil.which("bash"), str(SCRIPT), *options], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL,
                              env={"PATH": str(self.bin), "HEDDLE_SETUP_RETRY_SECONDS": "0",
                                   "TMPDIR": str(self.root), **environment})

    def apt_calls(self):
        return self.apt_log.read_text(encoding="utf-8").splitlines() if self.apt_log.exists() else []

    def test_silent_when_nothing_is_missing(self):
        for options in ((), ("--test",), ("--dev",), ("--vp",), ("--check",)):
            result = self.setup_script(*options)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(self.apt_calls(), [])

    def test_installs_exactly_what_is_missing(self):
        self.absent("libsystemc-dev", "catch2", "clang-tidy")
        result = self.setup_script()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("installing 2 Debian package(s): libsystemc-dev catch2", result.stderr)
        update, install = self.apt_calls()
        self.assertTrue(update.endswith(" update"))
        self.assertTrue(install.endswith(" install --no-install-recommends libsystemc-dev catch2"))

    def test_check_installs_nothing(self):
        self.absent("clang-tidy")
        self.assertEqual(self.setup_script("--check").returncode, 0)
        result = self.setup_script("--dev", "--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("missing Debian packages: clang-tidy", result.stderr)
        self.assertEqual(self.apt_calls(), [])

    def test_what_a_guest_needs_is_asked_for_only_with_vp(self):
        self.absent("qemu-system-x86", "clang-tidy")
        self.assertEqual(self.setup_script("--check").returncode, 0)
        result = self.setup_script("--vp", "--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("missing Debian packages: qemu-system-x86\n", result.stderr)
        result = self.setup_script("--vp", "--dev")
        self.assertIn("installing 2 Debian package(s): qemu-system-x86 clang-tidy", result.stderr)

    def test_a_passing_failure_is_retried(self):
        self.absent("catch2")
        self.stub("apt-get", f'''
echo "$@" >>"{self.apt_log}"
if [[ "$*" == *" install "* && ! -e "{self.root}/once" ]]; then touch "{self.root}/once"; exit 100; fi''')
        result = self.setup_script()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("trying once more", result.stderr)
        self.assertEqual(len(self.apt_calls()), 4)

    def test_no_network(self):
        self.absent("catch2")
        self.stub("apt-get", 'echo "E: Failed to fetch: the archive does not answer" >&2; exit 100')
        result = self.setup_script()
        self.assertEqual(result.returncode, 1)
        self.assertIn("Failed to fetch", result.stderr)
        self.assertIn("is there a network", result.stderr)

    def test_unknown_package(self):
        self.absent("catch2")
        self.stub("apt-get", 'echo "E: Unable to locate package catch2" >&2; exit 100')
        result = self.setup_script()
        self.assertEqual(result.returncode, 1)
        self.assertIn("the package sources of this system do not have: catch2", result.stderr)

    def test_without_root_and_sudo(self):
        self.absent("catch2")
        self.stub("id", "echo 1000")
        result = self.setup_script()
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt-get install --no-install-recommends catch2", result.stderr)
        self.assertEqual(self.apt_calls(), [])

    def test_with_sudo(self):
        self.absent("catch2")
        self.stub("id", "echo 1000")
        self.stub("sudo", '[[ "$1" == -n ]] && shift; "$@"')
        (self.bin / "true").symlink_to(shutil.which("true"))
        result = self.setup_script()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("with sudo", result.stderr)
        self.assertEqual(len(self.apt_calls()), 2)

    def test_other_distribution(self):
        (self.bin / "dpkg-query").unlink()
        result = self.setup_script()
        self.assertEqual(result.returncode, 1)
        self.assertIn("not a Debian system", result.stderr)
        self.assertIn("cmake", result.stderr)
        self.assertIn("a C++17 compiler", result.stderr)

    def test_skipped_on_request(self):
        self.absent("catch2")
        result = self.setup_script(HEDDLE_SETUP="skip")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_bad_argument(self):
        result = self.setup_script("--tests")
        self.assertEqual(result.returncode, 1)
        self.assertIn("unknown argument '--tests'", result.stderr)


if __name__ == "__main__":
    unittest.main()
