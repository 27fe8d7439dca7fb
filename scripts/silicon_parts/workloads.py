"""Workloads: how far they are from the limit of the machine, and what limits them."""
import re

BOUND = 75  # per cent: what is busier than that limits
SM = r"gpu0\.gpc\d+\.cpc\d+\.tpc\d+\.sm\d+\."


def total(stats, pattern):
    return sum(entry["value"] for path, entry in stats.items() if re.fullmatch(pattern, path))


def memory_peak(hbm):
    """In GB/s."""
    return hbm["channels"] * {"hbm2e": 64, "hbm3": 32, "hbm3e": 32}[hbm["standard"]] * hbm["pin_rate"] / 8


def work_of(results):
    """What is kept of a run: its figures, what its parts have done, and what its warps waited for."""
    stats = results["stats"]
    waits = {}
    for path, entry in stats.items():
        match = re.fullmatch(SM + r"stall\.(\w+)", path)
        if match:
            waits[match.group(1)] = waits.get(match.group(1), 0) + entry["value"]
    return {
        "figures": results["figures"],
        "waits": waits,
        "warp_cycles": total(stats, SM + "warp_cycles"),
        "gpcs": len({path for path in stats if re.fullmatch(r"gpu0\.gpc\d+\.gpm\.ctas", path)}),
        "matrix units": total(stats, SM + r"tensor\.cycles"),
        "issue": total(stats, SM + r"instructions\..*"),
        "shared memory": total(stats, SM + r"(shared\.wavefronts|bulk\.port_cycles|copy\.port_cycles)"),
        "links of SMs": total(stats, r"gpu0\.xbar\.sm_bytes"),
        "responses to GPCs": total(stats, r"gpu0\.xbar\.gpc\d+\.response_bytes"),
        "requests of GPCs": total(stats, r"gpu0\.xbar\.gpc\d+\.request_bytes"),
        "copies of multicasts": total(stats, r"gpu0\.xbar\.multicast_packets"),
        "slices of the L2": total(stats, r"gpu0\.memory\.subcontext\d+\.l2_bytes"),
        "memory": total(stats, r"gpu0\.hbm\.(read|written)_bytes"),
    }


def busy_shares(work, node, cycles):
    """How busy the machine's parts were in so many cycles, in per cent: what they did, over what they can do."""
    sms, gpcs, xbar, l2 = sum(node["shape"]), work["gpcs"], node["xbar"], node["l2"]
    most = {  # per cycle
        "matrix units": 4 * sms,
        "issue": 4 * sms,
        "shared memory": sms,
        "links of SMs": sms * xbar["sm_read_bandwidth"],
        "responses to GPCs": gpcs * xbar["gpc_read_bandwidth"],
        "requests of GPCs": gpcs * xbar["gpc_bandwidth"],
        "copies of multicasts": gpcs * xbar["copies"],
        "slices of the L2": l2["slices"] * l2["bandwidth"],
        "memory": memory_peak(node["hbm"]) / node["clock"],
    }
    return {name: 100 * work[name] / (limit * cycles) for name, limit in most.items()}


def line(entry, work, node):
    figures = {figure["name"]: figure for figure in work["figures"]}
    microseconds = figures["time"]["value"]
    reached = next(figure for figure in work["figures"] if figure.get("unit") in ("TFLOP/s", "TB/s"))
    if reached["unit"] == "TFLOP/s":
        limit = 4 * node["sm"]["issue"]["tensor_flops"] * sum(node["shape"]) * node["clock"] / 1000
    else:
        limit = memory_peak(node["hbm"]) / 1000
    shares = busy_shares(work, node, microseconds * 1000 * node["clock"])
    first, second = sorted(shares, key=shares.get, reverse=True)[:2]
    wait = max(work["waits"], key=work["waits"].get)
    waiting = 100 * work["waits"][wait] / work["warp_cycles"]
    by = first if shares[first] >= BOUND else f"no part: warps wait most for {wait}, {waiting:.0f} % of their time"
    return (f"| {entry['workload']} | {microseconds:.5g} us | {reached['value']:.4g} {reached['unit']} | {limit:.4g} | "
            f"{100 * reached['value'] / limit:.0f} % | {by} | {first} {min(shares[first], 100):.0f} %, "
            f"{second} {min(shares[second], 100):.0f} % |")


def table(entries, runner):
    wanted = [runner.start(runner.command(entry, folder="workloads"), work_of) for entry in entries]
    lines = ["| workload | time | reached | limit of the machine | share | what limits it | busiest parts |",
             "| --- | ---: | ---: | ---: | ---: | --- | --- |"]
    return lines + [line(entry, work.result(), runner.configuration(entry["gpu"])) for entry, work in zip(entries, wanted)]
