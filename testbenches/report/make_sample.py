#!/usr/bin/env python3
"""Made-up data for report.html, of realistic size: python3 make_sample.py TRACE.json.gz [GPUS] > data.json

Takes names, shapes and times of kernels from a Kineto trace and invents what a model would add. For looking at the page
while working on it; nothing is measured here.
"""
import bisect
import collections
import gzip
import json
import random
import sys

GPCS = [18, 18, 18, 18, 16, 16, 14, 14]
BINS = 256


def rows_of(trace):
    kernels = sorted((e for e in trace["traceEvents"] if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    copies = [e for e in trace["traceEvents"] if e.get("cat") in ("gpu_memcpy", "gpu_memset")]
    zero = kernels[0]["ts"]
    rows = []
    for event in kernels:
        args = event["args"]
        grid, block = args["grid"], args["block"]
        overlaps = random.random() < 0.06
        error = random.gauss(0.0, 0.012) + (random.expovariate(6) if overlaps else 0.0)
        resolution = event["dur"] < 1.3
        rows.append({
            "name": event["name"], "stream": str(args["stream"]), "grid": grid, "block": block,
            "ctas": grid[0] * grid[1] * grid[2], "start_us": event["ts"] - zero, "us": round(event["dur"] * (1 + error), 3),
            "wait_us": round(random.lognormvariate(0.3, 0.7), 3), "recorded_start_us": event["ts"] - zero,
            "recorded_us": event["dur"], "baseline_us": None,
            "occupancy_percent": args.get("est. achieved occupancy %"), "overlaps": overlaps,
            "match": "overlaps" if overlaps else "resolution" if resolution else "ok",
        })
    moved = [{"name": e["name"], "stream": str(e["args"]["stream"]), "start_us": e["ts"] - zero, "us": e["dur"]} for e in copies]
    return rows, [c for c in moved if c["start_us"] >= 0]


def memory_of(us):
    levels = []
    for name, what, share, peak, hit in (
            ("Shared memory", "wavefronts of 128 bytes, of all SMs", 31, 29652, None), ("L1", "sectors that loads asked for, of all SMs", 42, 29652, 35.1),
            ("L2", "requests of SMs: reads, writes, atomics", 55, 8986, 83.2), ("Device memory", "reads and writes of the L2", 61, 3350, None)):
        levels.append({"name": name, "what": what, "bytes": us * 10 * share * peak, "gb_per_s": peak * share / 100, "peak_gb_per_s": peak,
                       "share_percent": share, "hit_percent": hit})
    waits = {"waiting for memory": 48, "waiting for a unit's result": 11, "waiting at a barrier": 17, "issuing": 24}
    return {"us": us, "levels": levels,
            "counts": [{"label": "Requests to the L2", "count": int(us * 31000), "note": "at most a line of 128 bytes each"}],
            "instructions": [{"label": unit, "count": int(us * n)} for unit, n in (("fp32", 61000), ("tensor", 8000), ("memory", 23000))],
            "warp_time": [{"label": k, "cycles": us * 1000 * v, "share_percent": v} for k, v in waits.items()]}


def clusters_of(kernel, size=8, count=400, per_sm=4):
    gpcs, free, first = [], [], []
    for g, sms in enumerate(GPCS):
        ids = range(sum(GPCS[:g]), sum(GPCS[:g + 1]))
        gpcs.append({"sms": list(ids), "paths": [f"gpc{g}.cpc{i // 6}.tpc{i // 2}.sm{i % 2}" for i in range(sms)],
                     "bytes": [[0] * sms for _ in ids]})
        free.append([0] * (sms * per_sm))
    for number in range(count):
        g = number % len(GPCS)
        places = sorted(range(len(free[g])), key=lambda place: (free[g][place], place // GPCS[g], place % GPCS[g]))[:size]
        begin = max(free[g][place] + 20 for place in places) + 2000
        end = begin + random.randint(2500, 4000)
        ctas = []
        for rank, place in enumerate(places):
            ctas.append([rank, gpcs[g]["sms"][place % GPCS[g]], begin + rank // 2 * 3, end + random.randint(0, 200)])
            free[g][place] = ctas[-1][3] - 2000
            for other in places:
                if other % GPCS[g] != place % GPCS[g]:
                    gpcs[g]["bytes"][place % GPCS[g]][other % GPCS[g]] += random.randint(500, 20000)
        first.append({"row": 0, "operation": 0, "cga": number, "gpc": g, "skew": ctas[-1][2] - begin, "phases": 3,
                      "mean_wait": random.uniform(300, 500), "ctas": ctas})
    return {"cycle_us": 1 / 1755, "first": first, "gpcs": gpcs,
            "totals": [{"kernel": kernel, "size": size, "warps": 8, "cgas": 3200, "unfinished": 1, "mean_sms": 7.25, "mean_skew": 9.0,
                        "max_skew": 31, "mean_cycles": 3300.5, "phases": 9600, "mean_wait": 372.4}]}


def fault_of(row, expected):
    return {"kernel": row["name"], "sm": 17, "cta": row["ctas"] // 2, "warp": 3, "lane": 12, "step": "store (line 41)", "address": "0x1400000000",
            "what": "address outside memory", "us": row["start_us"] + row["us"], "expected": expected}


def gpu_of(index, trace):
    rows, copies = rows_of(trace)
    end = max(r["start_us"] + r["us"] for r in rows)
    width = end / BINS
    warps = [0.0] * BINS
    busy = [0.0] * BINS
    for row in rows:
        first = row["start_us"]
        last = first + row["us"]
        for b in range(int(first / width), min(BINS - 1, int(last / width)) + 1):
            share = max(0.0, min(last, (b + 1) * width) - max(first, b * width)) / width
            warps[b] += share * min(100, row["occupancy_percent"] or 0)
            busy[b] += share * min(100, 100 * row["ctas"] / sum(GPCS))
    names, load = [], []
    for g, size in enumerate(GPCS):
        for i in range(size):
            names.append(f"gpc{g}.cpc{i // 6}.tpc{i % 6 // 2}.sm{i % 2}")
            bias = 1 - 0.012 * g + random.gauss(0, 0.02)
            load.append([int(max(0, min(100, w * bias + random.gauss(0, 3) * (w > 1)))) for w in warps])
    edges = [0.5, 0.7, 1.0, 1.4, 2, 2.8, 4, 5.6, 8, 11, 16, 22, 32]
    waits = sorted(r["wait_us"] for r in rows)
    counts = [0] * (len(edges) + 1)
    for wait in waits:
        counts[bisect.bisect_right(edges, wait)] += 1
    total = sum(r["recorded_us"] for r in rows)
    bad = collections.defaultdict(list)
    for row in rows:
        if row["match"] != "ok":
            bad[row["match"]].append(row["recorded_us"])
    reasons = {"overlaps": "overlaps other kernels", "resolution": "below the recorder's resolution"}
    properties = trace.get("deviceProperties") or [{}]
    return {
        "name": f"gpu{index}", "preset": "h100-sxm", "device": properties[0].get("name"), "sms": sum(GPCS), "gpcs": GPCS,
        "clock_ghz": 1.755, "pace": "recorded",
        "occupancy": {"bin_us": width, "warps_percent": [round(min(100, w), 2) for w in warps],
                      "sms_busy_percent": [round(min(100, w), 2) for w in busy]},
        "load_map": {"bin_us": width, "sms": names, "percent": load},
        "launch_latency": {"unit": "us", "edges": edges, "counts": counts, "p50": waits[len(waits) // 2],
                           "p95": waits[int(len(waits) * 0.95)], "max": waits[-1],
                           "what": "from a task's submission to its first CTA on an SM"},
        "kernels": rows, "copies": copies, "memory": memory_of(0.8 * total), "clusters": clusters_of(rows[0]["name"]),
        "faults": [fault_of(rows[len(rows) // 3], False), fault_of(rows[len(rows) // 2], True)],
        "unmatched": [{"reason": reasons[k], "kernels": len(v), "time_us": sum(v), "share_percent": 100 * sum(v) / total}
                      for k, v in sorted(bad.items())],
        "spans": [{"label": "recorded", "us": end}, {"label": "modelled, recorded machine", "us": end * 0.9998},
                  {"label": "modelled, this machine", "us": end * 0.962}],
    }


def main():
    random.seed(1)
    trace = json.load(gzip.open(sys.argv[1]))
    gpus = [gpu_of(i, trace) for i in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1)]
    first = gpus[0]
    kernels = first["kernels"]
    file = sys.argv[1].split("/")[-1]
    json.dump({
        "schema": 1, "title": f"{file} on h100-sxm",
        "command": f"heddle run {file} --gpu h100-sxm --set gpu0.cwd.session_cycles=12 --out out/sample",
        "gpus": gpus,
        "highlights": [
            {"label": "End-to-end", "value": f"{first['spans'][1]['us'] / 1000:.1f} ms", "note": "recorded "
             f"{first['spans'][0]['us'] / 1000:.1f} ms (-0.02 %)"},
            {"label": "Kernels", "value": f"{len(kernels):,}", "note": f"{len({k['name'] for k in kernels})} different names"},
            {"label": "Mean occupancy", "value": f"{sum(first['occupancy']['warps_percent']) / BINS:.1f} %", "note": "of warp slots"},
            {"label": "Median deviation", "value": "0.8 %", "note": "per kernel that can be compared"},
            {"label": "Launch latency", "value": f"{first['launch_latency']['p50']:.2f} µs",
             "note": f"median; 95 % below {first['launch_latency']['p95']:.2f} µs"}],
        "summary": [{"label": "Kernels", "value": f"{len(kernels):,}", "note": "all of the trace"},
                    {"label": "CTAs launched", "value": f"{sum(k['ctas'] for k in kernels):,}", "note": ""},
                    {"label": "Streams", "value": str(len({k['stream'] for k in kernels})), "note": ""},
                    {"label": "Simulated time", "value": f"{first['spans'][1]['us'] / 1000:.2f} ms", "note": "at 1.755 GHz"},
                    {"label": "Events processed", "value": "3,482,117", "note": "2.1 million per second"}],
        "parameters": [
            {"path": "gpu0.cwd.session_cycles", "value": "12", "unit": "cycles", "origin": "--set", "source": "assumption"},
            {"path": "gpu0.gpc.launch_cycles", "value": "5", "unit": "cycles", "origin": "preset h100-sxm",
             "source": "fitted to measured launch rates"}],
        "warnings": ["436 kernels were launched before the recording began; their submission time is not known."],
        "expectations": [{"text": "gpu0.cwd.ctas_launched equals 512", "ok": True, "actual": "512"},
                         {"text": "gpu0.kernels.total_us within 1 % of 49,700", "ok": True, "actual": "49,690"}],
    }, sys.stdout)


main()
