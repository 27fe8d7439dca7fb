#!/usr/bin/env python3
"""Every parameter at both ends of its range, and every choice of it: a small scenario runs, or is refused as input with a
message; no bug of the program shows itself, and nothing goes on without an end. HEDDLE_PROGRAM names the program."""

import concurrent.futures
import json
import os
import re
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("HEDDLE_PROGRAM", ROOT / "build/release/heddle"))
# Limits of a run: of the simulated time and of its events, for one that goes on; of this computer, for what these miss.
LIMITS = ["--limit", "time=100us", "--limit", "events=200000", "--limit", "wall=60s"]
MEMORY = 3 << 30  # bytes of a process
SECONDS = 150
RANGE = re.compile(r"^(\S+) to (\S+)(?: (\S+))?$")
# Ends well, with a failed expectation or fault, as bad input, without progress, at a limit.
ALLOWED = (0, 1, 2, 3, 5)
# What such a machine takes to be used at all.
BESIDE = {"gpu.mmu.": ["gpu.mmu.enabled=true"], "gpu.power.": ["gpu.power.accounting=true"]}
BY_PACKETS = ("gpu.packet.", "gpu.host.", "gpu.hub.", "gpu.copy.", "host.")

SCENARIO = """heddle: 1
gpu: small
memory:
  - {name: x, bytes: 4 KiB, init: {pattern: i, type: u32}}
  - {name: y, bytes: 4 KiB}
tensors:
  - {name: t, memory: x, type: u32, size: [32, 32], box: [8, 8]}
kernels:
  - name: work
    grid: 8
    block: 64
    shared: 1 KiB
    program:
      - let: {i: cta.x * block.x + thread.x}
      - load: {to: v, type: u32, at: x + 4 * i}
      - store: {value: v, at: 4 * thread.x, space: shared, type: u32}
      - barrier
      - load: {to: w, type: u32, at: 4 * (63 - thread.x), space: shared}
      - atomic: {op: add, at: y + 4 * i, value: w, type: u32}
  - name: tiles
    grid: 4
    block: 32
    shared: 1 KiB
    cluster: 2
    program:
      - if:
          cond: thread.x == 0
          then:
            - mbarrier_init: {at: 512, count: 1}
            - mbarrier_arrive: {at: 512, expect: 256}
            - tensor_load: {tensor: t, at: [8 * cta.x, 0], to: 0, barrier: 512}
            - mbarrier_wait: {at: 512, parity: 0}
      - cluster_barrier
  - {name: plain, grid: 16, block: 128, cycles: 500}
submit:
  - {kernel: work, stream: a}
  - {kernel: tiles, stream: a}
  - {kernel: plain, stream: b, repeat: 2}
  - {copy: 4 KiB, stream: b, for: 1 us}
"""


def values_of(parameter):
    """The values that are tried; none of a list or text."""
    ends = RANGE.match(parameter["range"])
    if parameter["type"] in ("integer", "number"):
        unit = f" {parameter['unit']}" if parameter["unit"] else ""
        return [ends[1] + unit, ends[2] + unit]
    if parameter["type"] in ("choice", "bool"):
        return parameter["range"].split(", ")
    return []


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def tried(scenario, path, value):
    """(status, what is wrong or None)"""
    more = [setting for prefix, settings in BESIDE.items() if path.startswith(prefix) for setting in settings
            if not setting.startswith(f"{path}=")]
    with tempfile.TemporaryDirectory() as folder:
        command = [PROGRAM, "run", scenario, *LIMITS, "--out", folder, "--quiet"]
        command += [word for setting in more for word in ("--set", setting)] + ["--set", f"{path}={value}"]
        if path.startswith(BY_PACKETS):
            command += ["--submit", "aql"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False,
                                  preexec_fn=limited)
        except subprocess.TimeoutExpired:
            return None, f"{path}={value}: does not end"
    wrong = done.returncode not in ALLOWED or "internal error" in done.stderr or \
        (done.returncode == 2 and not done.stderr.startswith("heddle: "))
    return done.returncode, f"{path}={value}: status {done.returncode}\n{done.stderr[:400]}" if wrong else None


@unittest.skipUnless(PROGRAM.is_file(), "no program has been built")
class EndsOfRangesTest(unittest.TestCase):
    def test_none_shows_a_bug(self):
        shown = subprocess.run([PROGRAM, "show", "params", "--gpu", "small", "--format", "json"], capture_output=True, text=True,
                               check=True).stdout
        parameters = json.loads(shown)
        # Limits of the run itself are what this test sets.
        points = [(one["path"], value) for one in parameters for value in values_of(one) if "_limit" not in one["path"]
                  or not one["path"].startswith("run.")]
        self.assertGreater(len(points), 2 * len(parameters) - 40)
        with tempfile.TemporaryDirectory() as folder:
            scenario = Path(folder, "s.yaml")
            scenario.write_text(SCENARIO, encoding="utf-8")
            self.assertEqual(tried(scenario, "gpu.clock", "1 GHz"), (0, None))
            self.assertEqual(tried(scenario, "gpu.packet.queues", "16"), (0, None))
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                results = list(pool.map(lambda point: tried(scenario, *point), points))
        wrong = [text for _, text in results if text]
        self.assertEqual(wrong, [], f"{len(wrong)} of {len(points)}:\n" + "\n".join(wrong))
        # Most are machines that work; else the ranges promise what there is not.
        worked = sum(status in (0, 1, 3, 5) for status, _ in results)
        self.assertGreater(worked, 0.8 * len(points))


if __name__ == "__main__":
    unittest.main()
