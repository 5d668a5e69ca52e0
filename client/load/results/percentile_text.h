// A distribution of latencies in the text of HdrHistogram's percentile output (.hgrm), which its
// plotter, wrk2 and others write and read.
#pragma once

#include <string>
#include <vector>

#include "client/load/clock.h"
#include "client/load/load_generator.h"

namespace gemmd::load {

// The latencies of requests that were due in the measured time and answered with OK, or never sent.
std::vector<TimeNs> SortedLatencies(const LoadRun& run);

// Values in milliseconds; exact, by nearest rank. Five lines each time that the rest halves.
std::string PercentileText(const std::vector<TimeNs>& sorted);

}  // namespace gemmd::load
