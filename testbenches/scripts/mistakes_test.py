#!/usr/bin/env python3
"""A corpus of mistakes, each with how the program must end, and what it must say: the place, where a file is concerned, and
what to do. Every refusal has a remedy, and none leaves results. HEDDLE_PROGRAM names the program."""

import concurrent.futures
import gzip
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("HEDDLE_PROGRAM", ROOT / "build/release/heddle"))
LIMIT = 60  # seconds that a row may take
LEAST_ROWS = 250

HEAD = "heddle: 1\ngpu: small\n"
KERNEL = "kernels:\n  - {name: k, grid: 4, block: 64, cycles: 100}\n"
SUBMIT = "submit:\n  - {kernel: k, stream: a}\n"
GOOD = HEAD + KERNEL + SUBMIT
DYNAMIC = "config: {gpu: {cwd: {partition: dynamic}}}\nsubcontexts:\n  - {id: 1}\n"
SWEEP = "sweep: 1\nrun: good.yaml\naxes:\n  - {set: gpu.cwd.gpc_distance, values: [1, 2]}\n"


def kernel(keys):
    return f"{HEAD}kernels:\n  - {{name: k, {keys}}}\n{SUBMIT}"


def program(*steps, keys="grid: 4, block: 32"):
    """A kernel with a program, whose first step stands in line 9."""
    head = "".join(f"    {key.strip()}\n" for key in keys.split(", "))
    return f"{HEAD}kernels:\n  - name: k\n{head}    program:\n" + "".join(f"      - {step}\n" for step in steps) + SUBMIT


def submit(*entries):
    return HEAD + KERNEL + "submit:\n" + "".join(f"  - {entry}\n" for entry in entries)


def memory(entry, more=""):
    return HEAD + f"memory:\n  - {entry}\n" + KERNEL + SUBMIT + more


def expect(entry):
    return GOOD + f"expect:\n  - {entry}\n"


def trace(**changes):
    """A recording of one kernel, whose arguments are changed."""
    args = {"device": 0, "stream": 7, "correlation": 1, "grid": [8, 1, 1], "block": [64, 1, 1], "registers per thread": 32,
            "shared memory": 0, **changes.pop("args", {})}
    kernel_event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 8.0, "dur": 9.5, "args": args, **changes}
    return json.dumps({"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
                       "traceEvents": [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                                        "ts": 0.0, "dur": 4.0, "args": {"correlation": 1}}, kernel_event]})


ROCPROF = ('"Kind","Agent_Id","Queue_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","Workgroup_Size_X",'
           '"Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
           '"KERNEL_DISPATCH",1,1,"k",1,1000,3000,64,1,1,512,1,1\n')

# (what, text of s.yaml, what is said): heddle run s.yaml ends with status 2.
SCENARIOS = [
    # the review's list
    ("an expected file that is missing", memory("{name: x, bytes: 4096}", "expect:\n  - {memory: x, file: no.bin}\n"),
     ["s.yaml:10:", "no.bin", "relative to the scenario's folder; make the file"]),
    ("300 KiB of shared memory", kernel("grid: 4, block: 64, shared: 300 KiB, cycles: 9"),
     ["s.yaml:4:", "307200 bytes per CTA, the limit is 232448", "ask for less"]),
    ("2048 threads", kernel("grid: 4, block: 2048, cycles: 9"), ["s.yaml:4:", "2048 per CTA, the limit is 1024", "ask for less"]),
    ("300 registers", kernel("grid: 4, block: 64, registers: 300, cycles: 9"),
     ["s.yaml:4:", "300 per thread, the limit is 255", "ask for less"]),
    ("a cluster of 32", kernel("grid: 32, block: 64, cluster: 32, cycles: 9"),
     ["s.yaml:4:", "GPC_CGA of 32 CTAs, at most 16", "choose other clusters"]),
    ("a preset that there is not", GOOD.replace("small", "h100"), ["s.yaml:2:", "'h100'", "did you mean h100-pcie"]),
    ("presets in a list", GOOD.replace("gpu: small", "gpus:\n  - small\n  - smal"), ["s.yaml:4:", "'smal'", "did you mean small"]),
    ("a brace that is not closed", HEAD + "kernels:\n  - {name: k, grid: 4, block: 64, cycles: 100\n" + SUBMIT,
     ["s.yaml:6:", "of line 4 is not closed", "wants quotes"]),
    ("a bracket that is not closed", HEAD + "kernels:\n  - {name: k, grid: [4, 2, block: 64, cycles: 100}\n" + SUBMIT,
     ["s.yaml:", "not valid YAML", "wants quotes"]),
    ("a condition without quotes", program("let: {i: thread.x}", "set: {i: i > 3 ? 1 : 2}"),
     ["s.yaml:9:", "text with ? :", "wants quotes", '"i > 3 ? 1 : 2"']),
    ("a parameter without quotes", kernel("grid: ${n}, block: 64, cycles: 9"), ["s.yaml:4:", "wants quotes", '"${n}"']),
    ("a dash that is missing", GOOD + "  kernel: k\n", ["s.yaml:7:", "or a dash is missing"]),
    ("a line in the wrong column", HEAD + "kernels:\n  - name: k\n  grid: 4\n" + SUBMIT, ["s.yaml:5:", "another column"]),
    ("a tab", HEAD + "kernels:\n\t- {name: k, grid: 4, block: 32, cycles: 1}\n" + SUBMIT, ["s.yaml:4:", "tab", "spaces"]),
    # YAML
    ("two colons in a line", "heddle: 1\nname: a: b\n", ["s.yaml:2:", "wants quotes"]),
    ("text that begins with @", "heddle: 1\nname: @x\n", ["s.yaml:2:", "begins with @", "quotes"]),
    ("an alias of nothing", "heddle: 1\nkernels: *x\n", ["s.yaml:2:", "&name before"]),
    ("an alias of itself", "heddle: 1\nkernels: &x [*x]\n", ["s.yaml:2:", "contains itself", "instead of using YAML aliases"]),
    ("a list that is not closed", "heddle: 1\nkernels: [1, 2\n", ["s.yaml:", "of line 2 is not closed"]),
    ("two documents", "heddle: 1\n---\nheddle: 1\n", ["s.yaml:2:", "second YAML document", "---"]),
    ("a key that stands twice", GOOD + "gpu: small\n", ["s.yaml:7:", '"gpu" stands twice', "line 2"]),
    ("a merge of text", HEAD + "kernels:\n  - {<<: abc, name: k}\n" + SUBMIT, ["s.yaml:4:", "<< wants a map", "&base"]),
    ("a key that is a list", HEAD + "? [a]\n: 1\n", ["s.yaml:3:", "a key must be text"]),
    ("a backslash", "heddle: 1\nname: \"C:\\qq\"\n", ["s.yaml:2:", "a backslash between double quotes", "single quotes"]),
    ("a bracket in a remark before a wrong column", HEAD + "# as [1, {2\nkernels:\n  - name: k\n  grid: 4\n" + SUBMIT,
     ["s.yaml:6:", "the line stands in another column"]),
    ("a bracket in a key with quotes before a wrong column", HEAD + "\"a {[\": 1\nkernels:\n  - name: k\n  grid: 4\n" + SUBMIT,
     ["s.yaml:6:", "the line stands in another column"]),
    ("a bracket that a brace closes", HEAD + "kernels:\n  - {name: k,\n     grid: [4, 2,\n     block: 64,\n     cycles: 1}\n" + SUBMIT,
     ["s.yaml:", "of line 5 is not closed"]),
    # the top level
    ("another version", GOOD.replace("heddle: 1", "heddle: 2"), ["s.yaml:1:", "version", "heddle: 1"]),
    ("a version in words", GOOD.replace("heddle: 1", "heddle: one"), ["s.yaml:1:", "version", "heddle: 1"]),
    ("a misspelt key", GOOD + "sed: 3\n", ["s.yaml:7:", "sed", "did you mean seed"]),
    ("an unknown key", GOOD + "elephants: 3\n", ["s.yaml:7:", "elephants", "known: "]),
    ("gpu and gpus", GOOD + "gpus: [small]\n", ["s.yaml:7:", "use one of the two"]),
    ("no GPU", "heddle: 1\ngpus: []\n" + KERNEL + SUBMIT, ["s.yaml:2:", "a scenario needs a GPU", "list of presets"]),
    ("a negative seed", GOOD + "seed: -1\n", ["s.yaml:7:", "negative", "at least 0"]),
    ("a seed in words", GOOD + "seed: abc\n", ["s.yaml:7:", "not a number", "at least 0"]),
    ("links of an unknown shape", GOOD + "links: ring\n", ["s.yaml:7:", "ring", "none, direct, switch"]),
    ("no submit", HEAD + KERNEL, ["s.yaml:1:", '"submit" is missing', "list of operations"]),
    ("nothing to submit", HEAD + KERNEL + "submit: []\n", ["s.yaml:5:", "nothing to run", "list of operations"]),
    ("submit as a map", HEAD + KERNEL + "submit:\n  {kernel: k, stream: a}\n", ["s.yaml:6:", "unknown key", "known: by"]),
    ("kernels as a map", HEAD + "kernels:\n  name: k\n  grid: 4\n" + SUBMIT, ["s.yaml:4:", "a list is expected", "list of kernels"]),
    # config
    ("a misspelt parameter", GOOD + "config: {gpu: {cwd: {sesion_step: 3}}}\n", ["s.yaml:7:", "did you mean session_step"]),
    ("a parameter in words", GOOD + "config: {gpu: {clock: fast}}\n", ["s.yaml:7:", "not a number", "0.001 to 100 GHz"]),
    ("a parameter with a wrong unit", GOOD + "config: {gpu: {clock: 3 us}}\n", ["s.yaml:7:", "us", "GHz"]),
    ("a parameter out of range", GOOD + "config: {gpu: {l2: {ways: 65}}}\n", ["s.yaml:7:", "out of range", "1 to 64"]),
    ("a parameter for a GPU that there is not", GOOD + "config: {gpu7: {clock: 1}}\n", ["s.yaml:7:", "gpu7 does not exist", "gpu0"]),
    ("a group as a number", GOOD + "config: {gpu: {l2: 3}}\n", ["s.yaml:7:", "a map is expected", "write l2: {bytes"]),
    ("a choice that there is not", GOOD + "config: {gpu: {timing: slow}}\n", ["s.yaml:7:", "slow", "at, fast, lt"]),
    ("a list as a number", GOOD + "config: {gpu: {clock: [1, 2]}}\n", ["s.yaml:7:", "gpu.clock", "0.001 to 100"]),
    # parameters of a scenario
    ("a parameter of a scenario in words", "heddle: 1\nparameters: {n: x}\n" + KERNEL + SUBMIT, ["s.yaml:2:", "there is no x", "docs/scenario.md"]),
    ("a division by zero", "heddle: 1\nparameters: {n: 4 / 0}\n" + KERNEL + SUBMIT, ["s.yaml:2:", "not a finite number", "divides by zero"]),
    ("a root of what is negative", "heddle: 1\nparameters: {n: sqrt(-1)}\n" + KERNEL + SUBMIT,
     ["s.yaml:2:", "not a finite number", "sqrt and log of what is negative"]),
    ("a parameter that is not listed", kernel('grid: "${n}", block: 64, cycles: 9'), ["s.yaml:4:", "stands for a parameter", "parameters: {lines: 16}"]),
    ("a parameter that is not there", "heddle: 1\nparameters: {m: 4}\nkernels:\n  - {name: k, grid: \"${mm}\", block: 64, cycles: 1}\n" + SUBMIT,
     ["s.yaml:4:", "there is no mm", "did you mean m"]),
    ("a parameter without an end", "heddle: 1\nparameters: {m: 4}\nkernels:\n  - {name: k, grid: \"${m\", block: 64, cycles: 1}\n" + SUBMIT,
     ["s.yaml:4:", "} is missing", "as in"]),
    # kernels
    ("an empty grid", kernel("grid: 0, block: 64, cycles: 9"), ["s.yaml:4:", "out of range", "1 to 2147483647"]),
    ("a negative grid", kernel("grid: -4, block: 64, cycles: 9"), ["s.yaml:4:", "negative", "1 to 2147483647"]),
    ("a grid of four dimensions", kernel("grid: [1, 2, 3, 4], block: 64, cycles: 9"), ["s.yaml:4:", "found 4", "up to three"]),
    ("half a CTA", kernel("grid: 4.5, block: 64, cycles: 9"), ["s.yaml:4:", "not a whole number", "an integer"]),
    ("a huge grid", kernel("grid: 99999999999, block: 64, cycles: 9"), ["s.yaml:4:", "out of range", "2147483647"]),
    ("no threads", kernel("grid: 4, block: 0, cycles: 9"), ["s.yaml:4:", "out of range", "threads"]),
    ("negative cycles", kernel("grid: 4, block: 64, cycles: -1"), ["s.yaml:4:", "negative", "SM cycles"]),
    ("huge cycles", kernel("grid: 4, block: 64, cycles: 1e30"), ["s.yaml:4:", "out of range", "1000000000000000 cycles"]),
    ("cycles in seconds", kernel("grid: 4, block: 64, cycles: 3 us"), ["s.yaml:4:", "us", "cycles"]),
    ("min above max", kernel("grid: 4, block: 64, cycles: {min: 5, max: 3}"), ["s.yaml:4:", "min is larger than max", "shortest"]),
    ("cycles and a program", kernel("grid: 4, block: 64, cycles: 3, program: []"), ["s.yaml:4:", "side by side", "give one of"]),
    ("neither cycles nor a program", kernel("grid: 4, block: 64"), ["s.yaml:4:", "missing", "give one of"]),
    ("a unit of shared memory", kernel("grid: 4, block: 64, cycles: 3, shared: 48 KB"), ["s.yaml:4:", '"KB"', "KiB"]),
    ("negative shared memory", kernel("grid: 4, block: 64, cycles: 3, shared: -1"), ["s.yaml:4:", "negative", "at least 0 B"]),
    ("negative registers", kernel("grid: 4, block: 64, cycles: 3, registers: -1"), ["s.yaml:4:", "negative", "registers"]),
    ("a cluster that does not divide", kernel("grid: 4, block: 64, cycles: 3, cluster: 3"), ["s.yaml:4:", "does not divide", "CTAs of a GPC_CGA"]),
    ("a mode of clusters", kernel("grid: 4, block: 64, cycles: 3, cluster: {gpc: 2, mode: fast}"), ["s.yaml:4:", "no mode fast", "multicast, load_balancing"]),
    ("an order of CTAs", kernel("grid: 4, block: 64, cycles: 3, raster: diagonal"), ["s.yaml:4:", "no order diagonal", "rows, hilbert"]),
    ("a subcontext out of range", kernel("grid: 4, block: 64, cycles: 3, subcontext: 64"), ["s.yaml:4:", "out of range", "0 to 63"]),
    ("two kernels of one name", HEAD + KERNEL + "  - {name: k, grid: 1, block: 1, cycles: 1}\n" + SUBMIT, ["s.yaml:5:", "two kernels k", "name of the kernel"]),
    ("a misspelt key of a kernel", kernel("grid: 4, blok: 64, cycles: 3"), ["s.yaml:4:", "blok", "did you mean block"]),
    ("a kernel without a name", HEAD + "kernels:\n  - {grid: 4, block: 64, cycles: 3}\n" + SUBMIT, ["s.yaml:4:", '"name" is missing', "name of the kernel"]),
    ("a cooperative kernel that is too large", kernel("grid: 100000, block: 1024, cycles: 9, cooperative: true"),
     ["cooperative", "CTAs"]),
    # programs
    ("an unknown step", program("lod: {to: x, at: 4}"), ["s.yaml:8:", "lod", "did you mean load"]),
    ("an unknown key of a step", program("load: {to: x, type: u32, att: 4}"), ["s.yaml:8:", "att", "did you mean at"]),
    ("an unknown type", program("load: {to: x, type: u33, at: 4}"), ["s.yaml:8:", "u33", "did you mean u32"]),
    ("a store without a type", program("store: {value: 1, at: 4}"), ["s.yaml:8:", "type is missing", "type: f32"]),
    ("an unknown name", program("let: {i: thred.x}"), ["s.yaml:8:", "thred.x", "did you mean thread.x"]),
    ("a parenthesis", program("let: {i: (thread.x}"), ["s.yaml:8:", "expression", "is missing"]),
    ("an unknown function", program("let: {i: sine(3)}"), ["s.yaml:8:", "no function sine", "did you mean sin?"]),
    ("a set before its let", program("set: {i: 3}"), ["s.yaml:8:", "i is new, and its type is missing", "as in: set: {i: 1"]),
    ("an unknown operation of an atomic", program("atomic: {op: addd, at: 4, value: 1, type: u32}"), ["s.yaml:8:", "addd is not possible", "did you mean add?"]),
    ("a program that is a map", HEAD + "kernels:\n  - {name: k, grid: 4, block: 32, program: {load: 3}}\n" + SUBMIT, ["s.yaml:4:", "a list is expected, found a map", "list of steps"]),
    # operations
    ("an unknown kernel", submit("{kernel: kk, stream: a}"), ["s.yaml:6:", "no kernel kk", "did you mean k"]),
    ("no kernels at all", HEAD + SUBMIT, ["s.yaml:4:", "no kernel k", "describe it in the list `kernels`"]),
    ("no stream", submit("{kernel: k}"), ["s.yaml:6:", '"stream" is missing', "name of the stream"]),
    ("a time without a unit", submit("{kernel: k, stream: a, at: 10}"), ["s.yaml:6:", "no unit", "10 us"]),
    ("a negative time", submit("{kernel: k, stream: a, at: -1 us}"), ["s.yaml:6:", "out of range", "allowed: 0 to"]),
    ("a unit that there is not", submit("{kernel: k, stream: a, at: 10 fortnights}"), ["s.yaml:6:", "fortnights", "ps, ns, us, ms, s"]),
    ("never", submit("{kernel: k, stream: a, repeat: 0}"), ["s.yaml:6:", "out of range", "1 to 1000000"]),
    ("too often", submit("{kernel: k, stream: a, repeat: 1000000000000}"), ["s.yaml:6:", "out of range", "1 to 1000000"]),
    ("a kernel that is a copy", submit("{kernel: k, copy: 3, stream: a, for: 3 us}"), ["s.yaml:6:", "both a kernel and a copy", "two operations"]),
    ("a copy without a time", submit("{copy: 3, stream: a}"), ["s.yaml:6:", '"for" is missing', "for: 3 us"]),
    ("a copy of nothing", submit("{copy: 0, stream: a, for: 1 us}"), ["s.yaml:6:", "out of range", "B"]),
    ("an operation of nothing", submit("{stream: a}"), ["s.yaml:6:", "what to do is missing", "{kernel: gemm"]),
    ("two operations of one id", submit("{id: x, kernel: k, stream: a}", "{id: x, kernel: k, stream: a}"), ["s.yaml:7:", "two operations x", "`after` refers"]),
    ("after nobody", submit("{kernel: k, stream: a, after: zz}"), ["s.yaml:6:", "no operation zz", "give the operation an id"]),
    ("operations in a circle", submit("{id: a, kernel: k, stream: a, after: b}", "{id: b, kernel: k, stream: b, after: a}"),
     ["s.yaml:6:", "operation a (line 6) waits for operation b (line 7)", "leave one of these"]),
    ("a graph with a cycle", submit("{graph: g, stream: a}") + "graphs:\n  - {name: g, nodes: [{name: a, kernel: k, after: b}, {name: b, kernel: k, after: a}]}\n",
     ["s.yaml:8:", "circle", "leave one of these edges out"]),
    ("a graph that there is not", submit("{graph: g, stream: a}"), ["s.yaml:6:", "no graph g", "list `graphs`"]),
    ("a priority in words", GOOD + "streams:\n  - {name: a, priority: high}\n", ["s.yaml:8:", "not a number", "larger is more urgent"]),
    ("a priority out of range", GOOD + "streams:\n  - {name: a, priority: 9999}\n", ["s.yaml:8:", "out of range", "-1000 to 1000"]),
    ("a stream of a GPU that there is not", GOOD + "streams:\n  - {name: a, gpu: 3}\n", ["s.yaml:8:", "out of range", "number of the GPU"]),
    # memory
    ("no bytes", memory("{name: x, bytes: 0}"), ["s.yaml:4:", "out of range", "4 MiB"]),
    ("a unit of bytes", memory("{name: x, bytes: 100 TB}"), ["s.yaml:4:", '"TB"', "GiB"]),
    ("more than there is", memory("{name: x, bytes: 900000 GiB}"), ["s.yaml:4:", "gpu.memory"]),
    ("a file of contents that is missing", memory("{name: x, init: {file: no.bin}}"), ["s.yaml:4:", "no.bin", "make the file"]),
    ("a folder of contents", memory("{name: x, init: {file: .}}"), ["s.yaml:4:", "is a folder", "relative to the scenario's folder"]),
    ("a file of another size", memory("{name: x, bytes: 5, init: {file: s.yaml}}"), ["s.yaml:4:", "the region 5", "what it holds when the run begins"]),
    ("contents of an unknown kind", memory("{name: x, bytes: 4 KiB, init: ones}"), ["s.yaml:4:", "{pattern: …}", "zeros"]),
    ("a pattern of an unknown name", memory("{name: x, bytes: 4 KiB, init: {pattern: foo, type: f32}}"), ["s.yaml:4:", "there is no foo", "known: i"]),
    ("a pattern of an unknown type", memory("{name: x, bytes: 4 KiB, init: {pattern: i, type: f33}}"), ["s.yaml:4:", "f33", "did you mean f32"]),
    ("written outside of the results", memory("{name: x, bytes: 4 KiB, write: ../x}"), ["s.yaml:4:", "outside of the results folder", "write below it"]),
    ("written to a whole path", memory("{name: x, bytes: 4 KiB, write: /tmp/x}"), ["s.yaml:4:", "outside of the results folder", "write below it"]),
    ("two regions of one name", memory("{name: x, bytes: 4}\n  - {name: x, bytes: 4}"), ["s.yaml:5:", "two regions or tensors x", "name of the region"]),
    ("regions that overlap", memory("{name: x, bytes: 4 KiB, at: 4096}\n  - {name: y, bytes: 4 KiB, at: 4096}"), ["s.yaml:5:", "it overlaps memory x", "leave out `at`"]),
    # expectations and figures
    ("a number in words", expect("{stat: gpu0.cwd.ctas_launched, equals: many}"), ["s.yaml:8:", "not a number", "equals"]),
    ("no value", expect("{stat: gpu0.cwd.ctas_launched}"), ["s.yaml:8:", "does not say", "give one of: equals"]),
    ("a misspelt statistic", expect("{stat: gpu0.cwd.ctas_lunched, equals: 4}"), ["s.yaml:8:", "ctas_lunched", "did you mean gpu0.cwd.ctas_launched"]),
    ("a distance with a unit", expect("{stat: gpu0.cwd.ctas_launched, about: 3, within: 2 us}"), ["s.yaml:8:", "without unit", "plain number"]),
    ("memory that there is not", expect("{memory: y, pattern: i}"), ["s.yaml:8:", "no memory y", "describe it"]),
    ("a fault that there is not", expect("{fault: foo, kernel: k}"), ["s.yaml:8:", "no fault foo", "known: address"]),
    ("a fault of a kernel that there is not", expect("{fault: unmapped, kernel: zz}"), ["s.yaml:8:", "no kernel zz", "known: k"]),
    ("a name in a figure", GOOD + "figures:\n  - {name: f, value: a / b, of: {a: {stat: sim.time}}}\n", ["s.yaml:8:", "there is no b", "known: a"]),
    ("a statistic in a figure", GOOD + "figures:\n  - {name: f, value: a, of: {a: {stat: sim.tme}}}\n", ["s.yaml:8:", "sim.tme", "did you mean sim.time"]),
    ("a kernel in a figure", GOOD + "figures:\n  - {name: f, value: a, of: {a: {kernel: q}}}\n", ["s.yaml:8:", "kernel: q is not possible", "known: k"]),
    # sharing
    ("a key of a share", GOOD + "subcontexts:\n  - {id: 1}\nshare:\n  - {at: 1 us, subcontext: 1, tpcs: 3}\n", ["s.yaml:10:", "tpcs", "did you mean tpc"]),
    ("half a share", GOOD + "subcontexts:\n  - {id: 1}\nshare:\n  - {at: 1 us, subcontext: 1, tpc: 3}\n", ["s.yaml:10:", "does not say clearly", "give one of"]),
    ("half a load", GOOD + "load:\n  - {kernel: k}\n", ["s.yaml:8:", '"ctas" is missing', "how many"]),
]

# (what, arguments, what is said): status 2, beside good.yaml, trace.json and the files of FILES.
COMMANDS = [
    ("no command", "", ["heddle run"]),
    ("a misspelt command", "rum", ["rum", "did you mean 'heddle run'"]),
    ("an unknown command", "elephant", ["elephant", "--help"]),
    ("a misspelt option", "run good.yaml --sede 3", ["--sede", "did you mean --seed"]),
    ("an unknown option", "run good.yaml --frobnicate", ["--frobnicate", "heddle run --help"]),
    ("an option without its value", "run good.yaml --seed", ["--seed", "heddle run --help"]),
    ("a value that is too much", "run good.yaml --quiet=3", ["--quiet", "heddle run --help"]),
    ("an option twice", "run good.yaml --seed 1 --seed 2", ["--seed", "heddle run --help"]),
    ("a seed in words", "run good.yaml --seed abc", ["--seed abc", "expected a whole number"]),
    ("a negative seed", "run good.yaml --seed -1", ["--seed -1", "of at least 0"]),
    ("a negative batch", "run good.yaml --submit aql --batch -1", ["--batch -1", "from 1 to 65536"]),
    ("--pace of a scenario", "run good.yaml --pace asap", ["--pace is for recordings", "leave it out"]),
    ("--fit of a scenario", "run good.yaml --fit demand", ["--fit is for recordings", "leave it out"]),
    ("--no-baseline of a scenario", "run good.yaml --no-baseline", ["--no-baseline is for recordings", "leave it out"]),
    ("--misfits of a scenario", "run good.yaml --misfits clamp", ["--misfits is for recordings", "leave it out"]),
    ("--device of a scenario", "run good.yaml --device 0", ["--device", "leave it out"]),
    ("--counters of a scenario", "run good.yaml --counters x.csv", ["--counters", "give --fit demand"]),
    ("--let of a recording", "run trace.json --let n=3", ["--let", "--set sets one of the machine"]),
    ("--let without a value", "run good.yaml --let x", ["--let x", "NAME=NUMBER", "--let lines=16"]),
    ("--let of nothing", "run good.yaml --let x=3", ["--let x", "no such parameter", "as in: parameters"]),
    ("--format without packets", "run good.yaml --format plain", ["--format is about packets", "add --submit aql"]),
    ("--queues without packets", "run good.yaml --queues device", ["--queues is about packets", "add --submit aql"]),
    ("a timing", "run good.yaml --timing slow", ["--timing slow", "at or fast or lt"]),
    ("a kind of trace", "run good.yaml --trace vcr", ["--trace vcr", "expected perfetto"]),
    ("a kind of dump", "run good.yaml --dump x", ["--dump x", "expected ctas"]),
    ("a limit of what", "run good.yaml --limit foo=3", ["--limit foo=3", "time=2ms, wall=60s"]),
    ("a limit without a value", "run good.yaml --limit time", ["--limit time", "time=2ms"]),
    ("a negative limit of time", "run good.yaml --limit time=-1us", ["heddle: --limit time=-1us: ", "run.time_limit", "allowed: 0 to"]),
    ("a negative limit of events", "run good.yaml --limit events=-3", ["run.event_limit", "negative", "allowed: 0 to"]),
    ("a misspelt parameter", "run good.yaml --set gpu.cwd.sesion_step=2", ["sesion_step", "did you mean session_step"]),
    ("an assignment without a value", "run good.yaml --set gpu.cwd.session_step", ["session_step", "'=' and a value", "for example"]),
    ("a group of parameters", "run good.yaml --set gpu.l2=3", ["gpu.l2 is a group", "write l2:"]),
    ("a negative parameter", "run good.yaml --set gpu.l2.ways=-1", ["gpu.l2.ways", "negative", "1 to 64"]),
    ("a parameter that is no number", "run good.yaml --set gpu.l2.ways=x", ["gpu.l2.ways", "not a number", "1 to 64"]),
    ("a parameter that is infinite", "run good.yaml --set gpu.clock=.inf", ["gpu.clock", "allowed: 0.001 to 100"]),
    ("a shape of 70 SMs", "run good.yaml --set gpu.shape=[70]", ["shape", "70", "allowed"]),
    ("a shape that is not closed", "run good.yaml --set gpu.shape=[70", ["gpu.shape", "not valid YAML", "quotes"]),
    ("a misspelt preset", "run good.yaml --gpu h100-smx", ["h100-smx", "did you mean h100-sxm"]),
    ("a preset that there is not", "run good.yaml --gpu elephant", ["elephant", "heddle show presets"]),
    ("too many machines", "run good.yaml --gpu small --gpu small", ["--gpu", "2 times", "1 GPU"]),
    ("a machine file that is missing", "run good.yaml --gpu not/there.yaml", ["not/there.yaml"]),
    ("a machine file with a mistake", "run good.yaml --gpu machine.yaml", ["machine.yaml:3:", "sesion_step", "did you mean session_step"]),
    ("a machine file that is a list", "run good.yaml --gpu list.yaml", ["list.yaml:", "--dump-config"]),
    ("a machine file of an unknown preset", "run good.yaml --gpu base.yaml", ["smal", "did you mean small"]),
    ("a folder as a machine", "run good.yaml --gpu folder", ["folder: this is a folder", "name a file in it"]),
    ("a folder as a scenario", "run folder", ["folder: is a directory", "Name a file in it"]),
    ("a file that is missing", "run absent.yaml", ["absent.yaml: cannot be opened", "Check the name"]),
    ("an empty file", "run empty.yaml", ["empty.yaml", "the file is empty", "again"]),
    ("a file of noise", "run noise.bin", ["noise.bin", "neither a scenario nor a recorded trace", "heddle: 1"]),
    ("two scenarios", "run good.yaml good.yaml", ["good.yaml", "runs alone", "recorded traces only"]),
    ("a scenario and a recording", "run good.yaml trace.json", ["good.yaml", "runs alone"]),
    ("results in a file", "run good.yaml --out empty.yaml", ["empty.yaml", "choose another with --out"]),
    ("results below a file", "run good.yaml --out empty.yaml/x", ["empty.yaml/x", "choose another with --out"]),
    ("a configuration in no folder", "run good.yaml --dump-config no/x.yaml", ["no/x.yaml", "cannot be written"]),
    # recordings
    ("a JSON of something else", "run menu.json", ["menu.json", "traceEvents"]),
    ("a list in JSON", "run array.json", ["array.json", "neither a scenario nor"]),
    ("a scenario in JSON that is cut off", "run half.json", ["half.json:", "not valid YAML"]),
    ("a recording without kernels", "run none.json", ["none.json", "kernel"]),
    ("a recording that is cut off", "run cut.json", ["cut.json", "byte"]),
    ("a packed recording that is cut off", "run cut.json.gz", ["cut.json.gz", "truncated"]),
    ("noise that says it is packed", "run noise.gz", ["noise.gz", "damaged", "gzip -t"]),
    ("a kernel that ends before it starts", "run backwards.json", ["backwards.json", '"dur" is -3.0', "record it again"]),
    ("a grid in words", "run grid.json", ["grid.json", "grid"]),
    ("a kernel larger than the machine", "run large.json", ["large.json", "shared memory", "the limit is", "contradict each other"]),
    ("a device that was not recorded", "run trace.json --device 3", ["trace.json", "device 3", "its devices: 0"]),
    ("a device in words", "run trace.json --device x", ["--device x", "whole number"]),
    ("a machine that the recording tells not", "run rocprof.csv", ["--gpu", "heddle show presets"]),
    ("columns that are missing", "run columns.csv --gpu mi350x", ["columns.csv:1", "workgroup_size_x", "rocprofv3"]),
    ("a line with too few columns", "run short.csv --gpu mi350x", ["short.csv:3", "columns", "again"]),
    ("times in words", "run words.csv --gpu mi350x", ["words.csv:2", "Start_Timestamp"]),
    ("a table of something else", "run table.csv --gpu mi350x", ["table.csv", "neither a scenario nor"]),
    ("counters that are missing", "run trace.json --fit demand --counters no.csv", ["no.csv: cannot be opened", "Check the name"]),
    ("counters of something else", "run trace.json --fit demand --counters table.csv", ["table.csv:1", "does not name the columns", "ncu --csv"]),
    ("baselines that are not to be", "run trace.json --no-baseline --keep-baselines b", ["--keep-baselines", "give one of them"]),
    ("baselines in a file", "run trace.json --set gpu.clock=1 --keep-baselines empty.yaml", ["empty.yaml", "cannot be written", "--keep-baselines"]),
    # import, compile, occupancy, show
    ("an unknown format of a recording", "import nvprof trace.json", ["heddle import kineto trace.json.gz", "kineto, nsys, rocprof"]),
    ("nothing to import", "import kineto", ["heddle import kineto"]),
    ("a scenario to import", "import kineto good.yaml", ["good.yaml", "not a Kineto trace", "PyTorch"]),
    ("the wrong profiler", "import nsys trace.json", ["trace.json", "not an export of Nsight", "nsys export"]),
    ("imported into no folder", "import kineto trace.json -o no/x.yaml", ["no/x.yaml", "cannot be written"]),
    ("a machine for a recording that has one", "import kineto trace.json --gpu small", ["--gpu", "import it without --gpu"]),
    ("an option of import", "import kineto trace.json --devise 0", ["--devise", "did you mean --device"]),
    ("nothing to compile", "compile", ["one FILE", "as in: heddle compile"]),
    ("compiled to nowhere", "compile good.yaml", ["no file to write", "-o kernels.hdl"]),
    ("occupancy of nothing", "occupancy", ["needs a kernel", "--threads 1024"]),
    ("occupancy of too many threads", "occupancy --threads 4096", ["4096", "the limit is", "gpu.sm.limits"]),
    ("a cluster of no size", "occupancy --threads 128 --cluster 0", ["--cluster", "begin with 1"]),
    ("a cluster in words", "occupancy --threads 128 --cluster two", ["--cluster", "as in --cluster 1,2,4"]),
    ("registers in words", "occupancy --threads 128 --registers many", ["--registers", "many"]),
    ("a device of no recording", "occupancy --threads 128 --device 1", ["--device", "heddle occupancy --help"]),
    ("a misspelt subject", "show parms", ["parms", "did you mean 'heddle show params'"]),
    ("parameters that there are not", "show params gpu.cwd.sesion_step", ["gpu.cwd.sesion_step", "did you mean gpu.cwd.session_step"]),
    ("a format that there is not", "show params --format xml", ["xml", "text, table and json"]),
    ("presets in a table", "show presets --format table", ["table", "text or json"]),
    ("assumptions of a tree", "show tree --assumptions", ["--assumptions is for params", "--help"]),
    ("a tree of a misspelt machine", "show tree --gpu smal", ["smal", "did you mean small"]),
    # sweep, compare, test
    ("a sweep of nothing", "sweep", ["the file of a sweep", "docs/sweep.md"]),
    ("a sweep of a scenario", "sweep good.yaml", ["good.yaml", "is a scenario, not a sweep", "`sweep: 1`"]),
    ("a sweep of a file that is missing", "sweep absent.yaml", ["absent.yaml: there is no such file", "look at its name"]),
    ("a sweep of a misspelt key", "sweep key.yaml", ["key.yaml:5:", "figurs", "did you mean figures"]),
    ("an axis without values", "sweep axis.yaml", ["axis.yaml:4:", "values"]),
    ("an axis of an unknown option", "sweep option.yaml", ["option.yaml:4:", "tming", "did you mean timing"]),
    ("a sweep of a scenario that is missing", "sweep gone.yaml", ["gone.yaml", "absent.yaml", "relative to"]),
    ("points that there are not", "sweep point sweep.yaml 9", ["9 is no point", "1 to 2"]),
    ("a point in words", "sweep point sweep.yaml x", ["x is no point", "1 to 2"]),
    ("no jobs", "sweep sweep.yaml --jobs 0", ["--jobs 0", "from 1 to 1024"]),
    ("jobs in words", "sweep sweep.yaml --jobs many", ["--jobs many", "from 1 to 1024"]),
    ("again of what", "sweep sweep.yaml --again some", ["--again some", "failed or all"]),
    ("a comparison of one", "compare folder", ["two folders", "as in: heddle compare"]),
    ("a comparison of no results", "compare folder folder", ["folder: is no folder of results", "stats.json"]),
    ("a comparison with nothing", "compare absent gone", ["absent: is no folder of results", "stats.json"]),
    ("a limit without a number", "compare folder folder --fail-if sim.time", ["sim.time", "WHAT>LIMIT"]),
    ("a limit in words", "compare folder folder --fail-if sim.time>much", ["sim.time>much"]),
    ("rows of a table", "compare folder folder --rows 0", ["--rows 0", "of at least 1"]),
    ("a test of nothing", "test", ["a folder of scenarios", "heddle test scenarios"]),
    ("a test of a file", "test good.yaml", ["good.yaml", "is no folder", "heddle test scenarios"]),
    ("a test of a folder without scenarios", "test folder", ["folder", "no scenarios", "heddle: 1"]),
    ("a test against a file that is missing", "test . --expected no.yaml", ["no.yaml", "--update writes it"]),
    ("a limit of a test", "test . --limit 5", ["--limit 5", "60s"]),
]

# (what, text of s.yaml, options, status, what is said): runs that begin.
RUNS = [
    ("one byte too little shared memory", program("let: {i: 4 * thread.x}", "store: {value: 1, at: i, space: shared, type: u32}",
                                                  keys="grid: 16, block: 32, shared: 127"), "", 1,
     ["beyond the CTA's shared memory", "and 15 more like it", "lines are those of s.yaml"]),
    ("an address that is misaligned", memory("{name: x, bytes: 4 KiB}").replace("cycles: 100", "program: [{store: {value: 1, at: x + 2, type: u32}}]"),
     "", 1, ["not aligned", "and 3 more like it", "lines are those of s.yaml"]),
    ("a copy that no memory could do", submit("{kernel: k, stream: a}", "{copy: 800000 GiB, stream: a, for: 40 us}"), "", 0,
     ["s.yaml:7", "more than any memory moves"]),
    ("a share of a subcontext that is not listed", GOOD + DYNAMIC + "share:\n  - {at: 1 us, subcontext: 2, credits: 1}\n", "", 0,
     ["s.yaml:11", "which the list `subcontexts` lacks"]),
    ("two shares at once", GOOD + DYNAMIC + "share:\n  - {at: 1 us, subcontext: 1, credits: 1}\n"
     "  - {at: 1 us, subcontext: 1, credits: 2}\n", "", 0, ["s.yaml:12", "line 11 changes the same at the same time"]),
    ("a kernel that nobody launches", HEAD + KERNEL + "  - {name: j, grid: 1, block: 32, cycles: 1}\n" + SUBMIT, "", 0, ["kernel j is never submitted"]),
    ("an expectation that fails, quietly", expect("{stat: gpu0.cwd.ctas_launched, equals: 5}"), "--quiet", 1, ["ctas_launched = 5, but is 4"]),
    ("a grid without an end, with a limit", kernel("grid: [2147483647, 65535, 65535], block: 64, cycles: 100"), "--limit time=20us", 5,
     ["partial", "run.time_limit"]),
    ("a loop without an end, with a limit", program("set: {i: 1, type: u32}", "while: {cond: i > 0, do: [{set: {i: i | 1}}]}"), "--limit events=20000", 5,
     ["partial", "run.event_limit"]),
]

FILES = {
    "good.yaml": GOOD, "sweep.yaml": SWEEP, "trace.json": trace(), "empty.yaml": "", "noise.bin": "\x00\x01\x02\n",
    "machine.yaml": "gpu:\n  cwd:\n    sesion_step: 2\n", "list.yaml": "- 1\n- 2\n", "base.yaml": "preset: smal\ngpu: {clock: 1}\n",
    "menu.json": '{"menu": {"id": "file", "items": [1, 2, 3]}}', "array.json": "[1, 2, 3]",
    "half.json": '{"heddle": 1, "name": "\\ud83d\\ude00", "kernels": [', "none.json": '{"traceEvents": []}',
    "cut.json": trace()[:400], "cut.json.gz": gzip.compress(trace().encode())[:-20], "noise.gz": b"\x1f\x8b gzip, but not really",
    "backwards.json": trace(dur=-3.0), "grid.json": trace(args={"grid": "many"}), "large.json": trace(args={"shared memory": 400000}),
    "rocprof.csv": ROCPROF, "columns.csv": ROCPROF.replace('"Workgroup_Size_X",', "").replace(",64,1,1,", ",1,1,"),
    "short.csv": ROCPROF + '"KERNEL_DISPATCH",1,1\n', "words.csv": ROCPROF.replace("1000,", "soon,"), "table.csv": "a,b\n1,2\n",
    "key.yaml": SWEEP + "figurs: []\n", "axis.yaml": SWEEP.replace(", values: [1, 2]", ""),
    "option.yaml": SWEEP.replace("set: gpu.cwd.gpc_distance", "option: tming"), "gone.yaml": SWEEP.replace("good.yaml", "absent.yaml"),
}


def rows():
    """(what, files, arguments, status, what is said) of all."""
    for what, text, said in SCENARIOS:
        yield what, {"s.yaml": text}, ["run", "s.yaml"], 2, said
    for what, arguments, said in COMMANDS:
        yield what, FILES, arguments.split(), 2, said
    for what, text, options, status, said in RUNS:
        yield what, {"s.yaml": text}, ["run", "s.yaml", "--out", "out", *options.split()], status, said


def wrong(what, files, arguments, status, said):
    """What is not as it must be, of one row."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "folder").mkdir()
        for path, text in files.items():
            (folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())
        try:
            done = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, errors="replace",
                                  timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return [f"{what}: heddle {' '.join(arguments)}: does not end"]
        found = []
        if done.returncode != status:
            found.append(f"status {done.returncode}, not {status}")
        text = done.stderr if status == 2 and arguments else done.stdout + done.stderr
        found += [f"does not say {part!r}" for part in said if part not in text]
        if "internal error, please" in text or "std::" in text:
            found.append("speaks of itself")
        if status == 2 and arguments:
            lines = done.stderr.splitlines()
            if done.stdout:
                found.append("says it on standard output")
            if not lines or not lines[0].startswith("heddle: "):
                found.append("does not say who speaks")
            if len(lines) < 2 or not lines[1].startswith("  ") or lines[-1].rstrip().endswith(("; or", ":", ",")):
                found.append("has no remedy")
            if (folder / "heddle-out").exists() and list((folder / "heddle-out").glob("*/stats.json")):
                found.append("leaves results")
    return [f"{what}: heddle {' '.join(arguments)}: {', '.join(found)}\n{done.stderr}{done.stdout if status != 2 else ''}"] if found else []


@unittest.skipUnless(PROGRAM.is_file(), "no program has been built")
class MistakesTest(unittest.TestCase):
    def test_each_ends_with_place_remedy_and_status(self):
        table = list(rows())
        self.assertGreaterEqual(len(table), LEAST_ROWS)
        self.assertEqual(len({(what, tuple(arguments)) for what, _, arguments, _, _ in table}), len(table))
        # A word of a row could stand in any message: it must be long enough to be a sentence's, or say where.
        for what, _, arguments, _, said in table:
            self.assertTrue(not arguments or max(map(len, said)) >= 8 or len(said) > 2, what)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = [line for lines in pool.map(lambda row: wrong(*row), table) for line in lines]
        self.assertEqual(found, [], f"{len(found)} of {len(table)}:\n" + "\n".join(found))

    def test_merge_keys_are_no_mistake(self):
        text = HEAD + ("kernels:\n  - &base {name: k, grid: 4, block: 64, cycles: 100}\n"
                       "  - {<<: *base, name: j, grid: 8}\n  - {<<: [{name: i, cycles: 7}, *base]}\n"
                       "submit:\n  - {kernel: k, stream: a}\n  - {kernel: j, stream: a}\n  - {kernel: i, stream: a}\n"
                       "expect:\n  - {stat: gpu0.cwd.ctas_launched, equals: 16}\n")
        self.assertEqual(wrong("merge keys", {"s.yaml": text}, ["run", "s.yaml", "--out", "out"], 0, ["16"]), [])

    def test_what_is_merged_comes_first(self):
        # What builds on it comes later, and what a map says itself stands where the base has it.
        for parameters, ctas in (("{<<: {n: 4}, m: 2 * n}", 8), ("{<<: {n: 4, m: 2 * n}, n: 8}", 16),
                                 ("{<<: [{m: n + 1}, {n: 4, m: 0}], l: m}", 5)):
            text = f"parameters: {parameters}\n" + kernel('grid: "${m}", block: 64, cycles: 9') + \
                f"expect:\n  - {{stat: gpu0.cwd.ctas_launched, equals: {ctas}}}\n"
            self.assertEqual(wrong(parameters, {"s.yaml": text}, ["run", "s.yaml", "--out", "out"], 0, [f"= {ctas}"]), [])
        text = HEAD + ("kernels:\n  - name: k\n    grid: 4\n    block: 32\n    program:\n      - let: &base {a: 4 * thread.x}\n"
                       "  - name: j\n    grid: 4\n    block: 32\n    program:\n      - let: {<<: *base, b: a + 1}\n"
                       "submit:\n  - {kernel: k, stream: a}\n  - {kernel: j, stream: a}\n")
        self.assertEqual(wrong("a dependent let", {"s.yaml": text}, ["run", "s.yaml", "--out", "out"], 0, ["2 kernels"]), [])

    def test_a_scenario_in_json_may_be_large(self):
        scene = {"heddle": 1, "gpu": "small", "description": "x " * (3 << 20),
                 "kernels": [{"name": "k", "grid": 4, "block": 64, "cycles": 100}], "submit": [{"kernel": "k", "stream": "a"}]}
        self.assertEqual(wrong("6 MiB", {"s.json": json.dumps(scene)}, ["run", "s.json", "--out", "out"], 0, ["1 kernel"]), [])

    def test_subcontext_0_is_always_there(self):
        text = GOOD + DYNAMIC + "share:\n  - {at: 1 us, subcontext: 0, credits: 1}\n"
        with tempfile.TemporaryDirectory() as name:
            Path(name, "s.yaml").write_text(text, encoding="utf-8")
            done = subprocess.run([PROGRAM, "run", "s.yaml"], cwd=name, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("the list `subcontexts` lacks", done.stdout)

    def test_output_that_cannot_be_written_is_no_success(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([PROGRAM, "show", "presets"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("standard output could not be written", done.stderr)

    def test_an_interruption_has_a_status_and_partial_results(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "s.yaml").write_text(kernel("grid: [2147483647, 65535, 65535], block: 64, cycles: 100000"), encoding="utf-8")
            for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
                out = folder / f"out{status}"
                with subprocess.Popen([PROGRAM, "run", folder / "s.yaml", "--out", out], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True) as process:
                    for _ in range(20 * LIMIT):
                        if (out / "host.json").is_file():
                            break
                        time.sleep(0.05)
                    process.send_signal(number)
                    errors = process.communicate(timeout=LIMIT)[1]
                self.assertEqual(process.returncode, status, errors)
                self.assertIn("partial: stopped by ", errors)
                self.assertTrue(json.loads((out / "stats.json").read_text(encoding="utf-8"))["partial"])

    def test_occupancy_names_all_that_bind(self):
        done = subprocess.run([PROGRAM, "occupancy", "--threads", "1024", "--registers", "32", "--shared", "100 KiB"],
                              capture_output=True, text=True, check=True)
        (line,) = [line for line in done.stdout.splitlines() if "limited by" in line]
        for resource in ("threads", "registers", "shared memory", " and "):
            self.assertIn(resource, line.partition("limited by")[2])


if __name__ == "__main__":
    unittest.main()
