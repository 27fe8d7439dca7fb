#!/usr/bin/env python3
"""The points of a sweep as a job array of Slurm, on a cluster of one node that the test starts: munged, slurmctld and slurmd
of Debian's slurm-wlm, in a folder of their own. The table is that of a local run, byte for byte. Skips itself where
they cannot be started. HEDDLE_PROGRAM names the program.

    slurm_test.py                                     the test
    slurm_test.py --sweep FILE --out DIR [--cpus N]   any sweep, on such a cluster of N processors; then DIR/table.csv
"""

import argparse
import csv
import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
SCENARIO = """heddle: 1
gpu: small
parameters: {ctas: 8, cycles: 1000}
kernels: [{name: k, grid: "${ctas}", block: 1024, cycles: "${cycles}"}]
submit: [{kernel: k, stream: s}]
"""
SWEEP = """sweep: 1
run: s.yaml
axes:
  - {let: ctas, values: [8, 16, 32, 0]}
  - {let: cycles, from: 1000, to: 4000, steps: 3}
figures:
  - {name: time, stat: sim.time, better: less}
  - {name: launched, stat: gpu0.cwd.ctas_launched}
"""


def find(tool):
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(0)


class Cluster:
    """One node, this one. Its daemons end with it."""

    def __init__(self, folder, cpus=None):
        self.folder, self.daemons = Path(folder), []
        self.cpus = cpus or os.cpu_count() or 1
        self.host = socket.gethostname().split(".")[0]
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"),
                            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
        self.environment.pop("SLURM_JOB_ID", None)

    def start(self, name, *arguments):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.daemons.append(subprocess.Popen([find(name), *arguments], stdout=log, stderr=log, env=self.environment))

    def __enter__(self):
        for name in ("munge", "state", "spool"):
            (self.folder / name).mkdir(mode=0o755)
        os.chmod(self.folder, 0o755)
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        user, control, node = getpass.getuser(), free_port(), free_port()
        (self.folder / "slurm.conf").write_text(f"""ClusterName=heddle
SlurmctldHost={self.host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={control}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge/socket
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
NodeName={self.host} NodeAddr=127.0.0.1 CPUs={self.cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""", encoding="utf-8")
        self.start("munged", "--foreground", f"--socket={self.folder}/munge/socket", f"--key-file={key}",
                   f"--pid-file={self.folder}/munge/pid", f"--log-file={self.folder}/munge/log",
                   f"--seed-file={self.folder}/munge/seed", "--num-threads=2", "--force")
        self.wait_for(lambda: (self.folder / "munge/socket").exists(), 10, "munged")
        self.start("slurmctld", "-D", "-i", "-f", str(self.folder / "slurm.conf"))
        self.start("slurmd", "-D", "-N", self.host, "-f", str(self.folder / "slurm.conf"))
        self.wait_for(self.idle, 60, "slurmctld and slurmd")
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def run(self, *command, cwd=None):
        return subprocess.run([find(command[0]) or command[0], *command[1:]], env=self.environment, cwd=cwd,
                              capture_output=True, text=True, timeout=60, check=False)

    def idle(self):
        return "State=IDLE" in self.run("scontrol", "show", "node", self.host).stdout

    def wait_for(self, ready, seconds, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(daemon.poll() is not None for daemon in self.daemons):
                break
            if ready():
                return
            time.sleep(0.2)
        logs = "".join(f"{log.name}: {log.read_text(errors='replace')[-400:]}\n" for log in self.folder.glob("*.log"))
        self.__exit__()
        skip(f"{what} could not be started here:\n{logs}")


    def sweep(self, program, file, out, points, cwd, seconds):
        """The points as a job array, until the last of them has ended."""
        done = self.run("sbatch", "--parsable", f"--array=1-{points}", "--output=/dev/null", "--wrap",
                        f"'{program}' sweep point '{file}' $SLURM_ARRAY_TASK_ID --out '{out}'", cwd=cwd)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        end = time.monotonic() + seconds
        while self.run("squeue", "--noheader", f"--jobs={done.stdout.strip()}").stdout.strip():
            if time.monotonic() > end:
                raise RuntimeError(self.run("squeue").stdout)
            time.sleep(0.5)


def program_here():
    program = os.environ.get("HEDDLE_PROGRAM", str(ROOT / "build/release/heddle"))
    if not Path(program).is_file():
        skip("no program has been built")
    missing = [tool for tool in TOOLS if find(tool) is None]
    if missing:
        skip(f"there is no {', '.join(missing)} (scripts/setup --test installs slurm-wlm)")
    return program


def run_sweep(options):
    program = program_here()
    plan = subprocess.run([program, "sweep", "plan", options.sweep], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, Cluster(folder, options.cpus) as cluster:
        cluster.sweep(program, options.sweep, options.out, len(plan.stdout.splitlines()), os.getcwd(), 24 * 3600)
    return subprocess.run([program, "sweep", "collect", options.sweep, "--out", options.out], check=False).returncode


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class SlurmTest(unittest.TestCase):
    def test_a_job_array_comes_to_the_table_of_a_local_run(self):
        program = program_here()
        with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory(prefix="slurm-") as folder:
            Path(work, "s.yaml").write_text(SCENARIO, encoding="utf-8")
            Path(work, "w.yaml").write_text(SWEEP, encoding="utf-8")
            local = subprocess.run([program, "sweep", "w.yaml", "--out", "local", "--quiet"], cwd=work, check=False,
                                   capture_output=True, text=True)
            self.assertEqual(local.returncode, 1, local.stderr)  # no CTAs are bad input
            plan = subprocess.run([program, "sweep", "plan", "w.yaml"], cwd=work, capture_output=True, text=True, check=True)
            points = len(plan.stdout.splitlines())
            self.assertEqual(points, 12)
            with Cluster(folder) as cluster:
                cluster.sweep(program, "w.yaml", "slurm", points, work, 180)
            collected = subprocess.run([program, "sweep", "collect", "w.yaml", "--out", "slurm", "--quiet"], cwd=work,
                                       capture_output=True, text=True, check=False)
            self.assertEqual(collected.returncode, 1, collected.stderr)
            self.assertEqual(Path(work, "slurm/table.csv").read_bytes(), Path(work, "local/table.csv").read_bytes())
            self.assertEqual([row["status"] for row in rows(Path(work, "slurm/table.csv"))], ["done"] * 9 + ["bad input"] * 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep")
    parser.add_argument("--out")
    parser.add_argument("--cpus", type=int)
    asked, rest = parser.parse_known_args()
    if asked.sweep:
        sys.exit(run_sweep(asked))
    unittest.main(argv=[sys.argv[0], *rest])
