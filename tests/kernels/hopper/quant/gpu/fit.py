"""Fits what kernels/hopper/quant/tilings.h says of each tiling's cost to the output of sweep.py, and tells how much
longer the tilings take that such costs choose than those that were quickest.

    python3 fit.py sweep.txt

A launch takes launch_us + max(bytes / bandwidth, waves x groups x group_us), as forms.cc has it. A line has a tiling's
TilingCost.
"""
import math, re, sys
from tilings import FEW, WIDE, first_of, unit_bytes

TILINGS = {f"{letter}{kind}{i}": (*tiling[:3], unit_bytes(first_of(letter))) for kind, of in (("f", FEW), ("w", WIDE))
           for letter in of for i, tiling in enumerate(of[letter])}
MULTIPROCESSORS = 132
PEAK = 4.8  # TB/s of an H200
TERABYTES = [PEAK * share for share in (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)]


def read(path):
    shapes = []
    for line in open(path):
        found = re.match(r"(\d+)x(\d+)x(\d+) bf16 [\d.]+ best \w+ [\d.]+ \| (.*)", line)
        if found:
            times = dict(each.split("=") for each in found.group(4).split())
            shapes.append((*map(int, found.group(1, 2, 3)), {t: float(us) for t, us in times.items()}))
    return shapes


def predicted(tiling, cost, m, n, k):
    launch_us, terabytes, group_us, full_group_us = cost
    rows, lines, blocks, unit_bytes = TILINGS[tiling]
    moved = -(-n // 128) * 8 * math.ceil(k / 128) * unit_bytes + m * k * 2 + m * n * 2
    tiles = math.ceil(m / rows) * math.ceil(n / lines)
    waves = math.ceil(tiles / (MULTIPROCESSORS * blocks))
    each = full_group_us if tiles > MULTIPROCESSORS else group_us
    return launch_us + max(moved / terabytes / 1e6, waves * math.ceil(k / 128) * each)


def fit(tiling, shapes):
    data = [(m, n, k, times[tiling]) for m, n, k, times in shapes if tiling in times]
    groups = [x * 0.01 for x in range(3, 60)] + [x * 0.02 for x in range(30, 110)]
    # Blocks share a multiprocessor, or the memory's bandwidth where one has it to itself.
    factors = (1, 1.25, 1.5, 1.75, 2)
    costs = ((launch, terabytes, group, group * factor) for launch in (1.5, 2, 2.5, 3, 4)
             for terabytes in TERABYTES for group in groups for factor in factors)
    return min(costs, key=lambda cost: sum(abs(math.log(predicted(tiling, cost, m, n, k) / us))
                                           for m, n, k, us in data))


shapes = read(sys.argv[1])
costs = {tiling: fit(tiling, shapes) for tiling in TILINGS if any(tiling in times for *_, times in shapes)}
for tiling, cost in costs.items():
    print(tiling, "{{{}, {:.2f}, {:.3g}, {:.3g}}}".format(cost[0], cost[1] / PEAK, *cost[2:]))
longer = []
for m, n, k, times in shapes:
    chosen = min(times, key=lambda tiling: predicted(tiling, costs[tiling], m, n, k))
    longer.append((times[chosen] / min(times.values()), m, n, k, chosen, min(times, key=times.get)))
print(f"{len(shapes)} shapes; chosen tilings take {sum(each[0] for each in longer) / len(longer) - 1:.1%} longer")
for each in sorted(longer, reverse=True)[:8]:
    print("{:.2f} {}x{}x{} {} for {}".format(*each))
