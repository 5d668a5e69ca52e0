// Limits how much predicted work may wait, and learns the limit from how long work did wait.
//
// A queue whose predictions hold may be long: whoever is in it knows how long it takes. If
// works wait much longer than was predicted when they came, something is slower than is
// known, and every request that is let in makes it worse. So, once a window of requests
// is complete, as in TCP Vegas:
//   the ratio of waits to predicted waits is above `tolerance`
//        the limit falls by the same factor, to a half at most
//   otherwise, if somebody was refused for the limit
//        it grows by a tenth
#pragma once

#include <cstddef>

namespace gemmd {

// Not thread-safe.
class AdaptiveLimit {
 public:
  struct Options {
    double min_us = 250e3;
    double max_us = 10e6;  // where it starts
    double tolerance = 2;  // above 1
    std::size_t window = 64;
    // Predictions below count as this much: short waits are no trouble, however wrong.
    double floor_us = 500e3;
  };

  explicit AdaptiveLimit(const Options& options) : options_(options), limit_us_(options.max_us) {}

  double limit_us() const { return limit_us_; }

  // Learns from a request whose wait ended.
  void Observe(double predicted_us, double measured_us);
  // Somebody was refused for the limit.
  void ObserveRefusal() { was_limiting_ = true; }

 private:
  const Options options_;
  double limit_us_;
  std::size_t observed_ = 0;  // in this window, as the following
  double predicted_us_ = 0;
  double measured_us_ = 0;
  bool was_limiting_ = false;
};

}  // namespace gemmd
