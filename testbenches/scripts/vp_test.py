#!/usr/bin/env python3
"""A Linux guest in stock QEMU with the GPU as its device: scripts/vp as users run it, its ends, and its times. Skips what
needs QEMU or the guest's packages where they are missing; installs nothing."""

import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("HEDDLE_VP_PROGRAM", str(ROOT / "build/release/heddle-vp"))
COMPILER = os.environ.get("HEDDLE_PROGRAM", str(ROOT / "build/release/heddle"))
PAGE = ROOT / "docs/virtual-platform.md"
MISSING = 77
LIMIT = 240  # seconds that a guest may take on a busy machine


def command(*words):
    return [str(ROOT / "scripts/vp"), "--no-install", "--program", PROGRAM, "--compiler", COMPILER, *words]


def run(*words):
    result = subprocess.run(command(*words), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                            timeout=LIMIT)
    return result.returncode, result.stdout.replace("\r", ""), result.stderr


def of_guest(text):
    """The lines that programs of the guest wrote."""
    return [line for line in text.splitlines() if line.startswith("guest: ")]


def shown_lines():
    """What the page shows of a run, as expressions: any number stands for a number, and … for anything."""
    block = re.search(r"^```\n(guest: found.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[1]
    lines = [re.sub(r"\d+", r"\\d+", re.escape(line).replace("…", ".*")) for line in block.splitlines()]
    return [line for line in lines if line != ".*"]


def children_of(process):
    """Ids of the processes below one, with their names."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1) if entry.name.isdigit() else None
        except OSError:
            continue
        if fields and int(fields[1].split()[1]) == process:
            found[int(entry.name)] = fields[0].split("(", 1)[1]
            found.update(children_of(int(entry.name)))
    return found


class Running:
    """scripts/vp while its guest runs."""

    def __init__(self, *words):
        self.process = subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        stdin=subprocess.DEVNULL)

    def until(self, text):
        """Reads the console up to a line with the text."""
        for line in self.process.stdout:
            if text in line:
                return
        raise AssertionError(f"the guest ended without '{text}': {self.process.stderr.read()}")

    def find(self, name):
        for number, found in children_of(self.process.pid).items():
            if found.startswith(name):
                return number
        raise AssertionError(f"there is no {name} below scripts/vp")

    def end(self):
        _, errors = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, errors


def alive(number):
    try:
        return (Path("/proc") / str(number) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class GuestTest(unittest.TestCase):
    def test_launches_are_right_and_processes_kept_apart(self):
        status, console, errors = run("identify", "launches:1:1000", "condensed:10", "brought:1:30", "hostile:1:5000")
        lines = of_guest(console)
        self.assertEqual(status, 0, console + errors)
        for wanted in ("guest: device 0x4c444548", "guest: 1000 launches are right",
                       "guest: 200 launches by condensed packets are right",
                       "guest: 30 launches of kernels of a file are right",
                       "guest: hostile: 10 attacks with code of its own, all refused, and 10 times code",
                       "guest: hostile: 5000 random accesses, 50 attacks of which ",
                       "guest: launches of the other process are right beside it", "guest: end, status 0"):
            self.assertTrue(any(line.startswith(wanted) for line in lines), f"{wanted}: {lines}")
        self.assertIn("the guest has ended", errors)
        attacks = next(line for line in lines if line.startswith("guest: hostile: 5000"))
        refused, done, endless = [int(word) for word in re.search(
            r"which (\d+) were refused, (\d+) packets done, (\d+) kernels without an end$", attacks.strip()).groups()]
        self.assertGreaterEqual(refused, 49)
        self.assertEqual((done, endless), (5, 2))
        at = 0
        for shown in shown_lines():
            places = [i for i in range(at, len(lines)) if re.fullmatch(shown, lines[i].strip())]
            self.assertTrue(places, f"{PAGE.name} shows {shown}, and the guest printed {lines}")
            at = places[0] + 1

    def test_a_kernel_without_an_end_keeps_no_place(self):
        status, console, errors = run("stuck:12")
        self.assertEqual(status, 0, console + errors)
        self.assertIn("guest: 12 kernels without an end were killed", of_guest(console))

    def test_a_device_can_be_removed_in_use_and_come_back(self):
        status, console, errors = run("removed")
        self.assertEqual(status, 0, console + errors)
        self.assertIn("guest: the device was removed, and came back", of_guest(console))
        for trouble in ("BUG:", "Oops", "WARNING:"):
            self.assertNotIn(trouble, console)

    def test_a_guest_whose_kernel_stops_has_failed(self):
        status, console, errors = run("panic")
        self.assertEqual(status, 1, console + errors)
        self.assertIn("sysrq triggered crash", console)
        self.assertIn("the guest did not come to its end", errors)

    def test_with_counted_instructions_two_runs_see_the_same_times(self):
        runs = [run("--icount", "launches:5:100", "condensed:2") for _ in range(2)]
        for status, console, errors in runs:
            self.assertEqual(status, 0, console + errors)
        lines = of_guest(runs[0][1])
        self.assertTrue(any("launch 100 is right" in line for line in lines), lines)
        self.assertEqual(runs[0][1], runs[1][1])

    def test_a_device_that_has_gone_is_an_io_error(self):
        status, console, errors = run("--timing", "fast", "--vanish-after", "300", "until-gone")
        self.assertEqual(status, 0, console + errors)
        self.assertIn("guest: the device is gone: Input/output error", of_guest(console))

    def test_who_waits_alone_hears_that_the_device_is_gone(self):
        status, console, errors = run("--vanish-after", "300", "alone")
        self.assertEqual(status, 0, console + errors)
        self.assertIn("guest: one that waits alone hears that the device is gone", of_guest(console))

    def test_the_driver_refuses_a_device_that_cannot_keep_processes_apart(self):
        status, console, errors = run("--set", "gpu.mmu.enabled=false", "identify")
        self.assertEqual(status, 1, console + errors)
        self.assertIn("processes cannot be kept apart", console)
        self.assertIn("guest: FAILED: the driver does not load", of_guest(console))

    def test_a_command_that_fails_is_told_by_the_status(self):
        status, console, errors = run("--timing", "at", "launches:3:5", "condensed:1", "until-sunday")
        self.assertEqual(status, 1, console + errors)
        self.assertIn("guest: 5 launches are right", of_guest(console))
        self.assertIn("guest: 20 launches by condensed packets are right", of_guest(console))
        self.assertIn("QEMU ended with status 3", errors)

    def test_a_device_that_is_killed_takes_its_guest_with_it(self):
        running = Running("identify", "launches:1:100000")
        running.until("launch 1 is right")
        device, guest = running.find("heddle-vp"), running.find("qemu-system")
        os.kill(device, signal.SIGKILL)
        status, errors = running.end()
        self.assertEqual(status, 128 + signal.SIGKILL)
        self.assertIn("the device was ended by signal 9, and the guest with it", errors)
        self.assertFalse(alive(guest))

    def test_a_guest_that_is_killed_ends_its_device(self):
        running = Running("identify", "launches:1:100000")
        running.until("launch 1 is right")
        device, guest = running.find("heddle-vp"), running.find("qemu-system")
        os.kill(guest, signal.SIGKILL)
        status, errors = running.end()
        self.assertEqual(status, 1)
        self.assertIn("QEMU was ended by a signal: Killed", errors)
        self.assertFalse(alive(device))


class CommandLineTest(unittest.TestCase):
    """Needs no guest: what is wrong is told before one is started."""

    def of_program(self, *words):
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                              timeout=60)

    def test_bad_input_is_status_2_with_a_remedy(self):
        kernels = str(ROOT / "platforms/vp/guest/kernels.yaml")
        for words, wanted in (
                (["--kernels", kernels, "--", "/no/such/qemu"], "'/no/such/qemu' cannot be started"),
                (["--kernels", "none.yaml", "--", "true"], "none.yaml"),
                (["--kernels", kernels, "--set", "gpu.memroy=1 GiB", "--", "true"], "did you mean memory?"),
                (["--kernels", kernels, "--aperture", "1 GiB", "--set", "gpu.memory=512 MiB", "--", "true"],
                 "lower --aperture"),
                (["--kernel", kernels, "--", "true"], "did you mean --kernels?")):
            result = self.of_program(*words)
            self.assertEqual(result.returncode, 2, result)
            self.assertIn(wanted, result.stderr)

    def test_a_program_in_place_of_qemu_that_fails_is_status_1(self):
        result = self.of_program("--kernels", str(ROOT / "platforms/vp/guest/kernels.yaml"), "--", "sh", "-c", "exit 5")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("QEMU ended with status 5", result.stderr)

    def test_words_that_are_no_commands_do_not_reach_the_kernel(self):
        for word in ("launches 1", "init=/bin/sh", "a;b", "launches:x"):
            status, _, errors = run(word)
            self.assertEqual(status, 2)
            self.assertIn("is not a command", errors)


if __name__ == "__main__":
    prepared = subprocess.run(command("--prepare"), capture_output=True, text=True, check=False)
    if prepared.returncode == MISSING:
        print("SKIPPED: " + prepared.stderr.strip())
        sys.exit(0)
    if prepared.returncode != 0:
        sys.exit(prepared.stderr)
    unittest.main()
