// The page for people: a file of its own, which loads nothing but the numbers that it shows.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/time/clock.h"
#include "server/observe/exposition.h"
#include "server/observe/receipt.h"

namespace gemmd {

// console.html.
absl::string_view ConsolePage();

// The Content-Security-Policy under which it may run its own script and style, told by their
// digests, and ask this server; nothing else, and nobody may frame it.
const std::string& ConsolePolicy();

// Returns the numbers that the page shows: {"seconds": of the clock, "families": {sample's name:
// [{"labels", "value"}]}, "slow": receipts}. Histograms have "bounds", "counts", "sum" and "count"
// under their family's name.
std::string ConsoleNumbers(TimeNs now, const std::vector<MetricFamily>& families,
                           const std::vector<Receipt>& slow);

}  // namespace gemmd
