#!/usr/bin/env python3
"""Makes a shipped plan file from what kernel_bench measured on one device.

    kernel_bench --configs=each --shapes=hopper --types=bf16,f16 --layouts=NT --json=FILE ...
    deploy/tune/plans_from_bench.py FILE... > plans.json

A problem's plan is the kernel and config whose burst and sustained times, as ratios to the quickest of
each, have the least product; where files have a problem twice, the last counts. Only kernels whose
determinism is batch_invariant are taken (sm90/*). A file may also be a plan file: its plans are kept
where nothing later was measured.
"""
import json
import sys

WORDS = {"tile": ("tile_m", "tile_n", "tile_k"), "cluster": ("cluster_m", "cluster_n")}


def config_of(text):
    config = {}
    for word in text.split():
        name, value = word.split("=")
        if name in WORDS:
            config.update(zip(WORDS[name], map(int, value.split("x"))))
        else:
            config[name] = int(value)
    return config


def best_row(rows):
    """The quickest; of a kernel the planned config, its first row, unless another is 1 % better."""
    burst = min(row["timing"]["burst_ms"]["median"] for row in rows)
    sustained = min(row["timing"]["sustained_ms"]["median"] for row in rows)

    def cost(row):
        is_planned = " " not in row["kernel"]
        timing = row["timing"]
        return ((1 if is_planned else 1.01) * timing["burst_ms"]["median"] / burst *
                timing["sustained_ms"]["median"] / sustained)
    return min(rows, key=cost)


def main(paths):
    plans = {}
    for path in paths:
        with open(path) as file:
            report = json.load(file)
        if "plans" in report:
            plans.update((plan["key"], plan) for plan in report["plans"])
            continue
        model = report["machine"]["model"]
        for case in report["cases"]:
            if case["layout"] != "NT" or not case["padded"]:
                continue
            rows = [row for row in case["rows"]
                    if row["kernel"].startswith("sm90/") and "timing" in row]
            if not rows:
                continue
            row = best_row(rows)
            key = f"{model}: {case['problem']} acc=f32 batch_invariant"
            plan = {"key": key, "kernel": row["kernel"].split()[0],
                    "config": config_of(row["config"]),
                    "measured_us": round(row["timing"]["burst_ms"]["median"] * 1e3, 2)}
            plans[key] = plan
    print(json.dumps({"format": 1, "version": "shipped", "plans": list(plans.values())}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
