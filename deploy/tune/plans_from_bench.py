#!/usr/bin/env python3
"""Makes a shipped plan file from what kernel_bench measured on one device.

    kernel_bench --configs=each --shapes=hopper --types=bf16,f16 --layouts=NT --json=FILE ...
    deploy/tune/plans_from_bench.py FILE... > kernels/plans/nvidia_h200.json

Of each problem the kernel and config whose burst and sustained times, as ratios to the quickest of
each, have the least product. Of kernels whose determinism is batch_invariant alone (sm90/*).
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
    burst = min(row["burst_ms"]["median"] for row in rows)
    sustained = min(row["sustained_ms"]["median"] for row in rows)
    return min(rows, key=lambda row: row["burst_ms"]["median"] / burst *
               row["sustained_ms"]["median"] / sustained)


def main(paths):
    plans = {}
    for path in paths:
        with open(path) as file:
            report = json.load(file)
        model = report["machine"]["model"]
        for case in report["cases"]:
            rows = [row for row in case["rows"]
                    if row["kernel"].startswith("sm90/") and "burst_ms" in row]
            if not rows:
                continue
            row = best_row(rows)
            key = f"{model}: {case['problem']} acc=f32 batch_invariant"
            plan = {"key": key, "kernel": row["kernel"].split()[0],
                    "config": config_of(row["config"]),
                    "measured_us": round(row["burst_ms"]["median"] * 1e3, 2)}
            plans[key] = plan
    print(json.dumps({"format": 1, "version": "shipped", "plans": list(plans.values())}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
