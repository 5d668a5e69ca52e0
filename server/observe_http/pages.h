// The pages of the HTTP listener:
//   /              for everybody: the console, which has no number in it
//   /console.json  for observers and operators: what the console shows
//   /metrics       for the same: Prometheus' text form, or OpenMetrics' where asked for
//   /healthz       for everybody: 200 while the process answers
//   /readyz        for everybody: 200 while it takes requests, 503 while it drains
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/observe/exposition.h"
#include "server/observe_http/http.h"
#include "server/observe_http/page_access.h"

namespace gemmd {

// Where the listener's address is loopback, the Host header of a request must name this host too: a
// foreign page in a browser here can make its own name resolve to loopback and read what is
// answered (DNS rebinding), but it cannot choose the header. A listener that others reach has no
// such rule, because nobody knows all of its names; there a policy says who may read.
class Pages {
 public:
  struct Sources {
    const PageAccess* access = nullptr;  // outlives the pages
    bool is_loopback = false;            // the listener's address is
    std::function<bool()> is_draining;
    std::function<std::vector<MetricFamily>()> metrics;
    std::function<std::string()> console_numbers;  // ConsoleNumbers()
  };

  explicit Pages(Sources sources) : sources_(std::move(sources)) {}

  HttpAnswer Answer(const HttpRequest& request) const;

 private:
  static HttpAnswer Console();
  HttpAnswer Numbers() const;
  HttpAnswer Metrics(const HttpRequest& request) const;

  const Sources sources_;
};

}  // namespace gemmd
