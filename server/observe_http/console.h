// The page for people: a file of its own, which loads nothing but the numbers that it shows.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/time/clock.h"
#include "server/observe/exposition.h"
#include "server/observe/receipt.h"
#include "server/observe_http/history.h"

namespace gemmd {

// console.html.
absl::string_view ConsolePage();

// The Content-Security-Policy under which it may run its own script and style, told by their
// digests, and ask this server; nothing else, and nobody may frame it.
const std::string& ConsolePolicy();

// The server that the page is of.
struct ConsoleServer {
  std::string version;
  std::string host;
  std::string address;  // that it serves on
  TimeNs start = 0;
};

struct ConsoleView {
  TimeNs now = 0;
  ConsoleServer server;
  std::vector<MetricFamily> families;
  std::vector<Receipt> slow;
  History::Curves history;
};

// Returns the numbers that the page shows, as JSON; all times are seconds of the server's clock:
//   "seconds"   now
//   "server"    {"version", "host", "address", "uptime_seconds"}
//   "families"  {sample's name: [{"labels", "value"}]}; histograms have "bounds", "counts", "sum"
//               and "count" under their family's name
//   "history"   {"recent", "hour"}, each {"period_seconds", "points": {"begin": [], "end": [],
//   ...}},
//               whose lists are equally long; a quantile of nothing is null
//   "slow"      receipts, the newest first
std::string ConsoleNumbers(const ConsoleView& view);

}  // namespace gemmd
