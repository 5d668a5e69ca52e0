// Calls as they are reported: a line each, and a table at the process's end.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/sync/mutex.h"
#include "client/blas/why.h"

namespace gemmd::blas {

// One call of one routine.
struct CallRecord {
  const char* routine = "";  // "dgemm"
  double m = 0;              // C is M x N, and K is summed over
  double n = 0;
  double k = 0;
  double flops = 0;
  Why why = Why::kSmall;      // kServer where any product of it was computed there
  std::int64_t products = 0;  // that the server computed
  std::int64_t bytes = 0;     // that went there and came back
  double seconds = 0;         // of the whole call
  double seconds_here = 0;    // that it would have taken here, as measured; 0: unknown
};

// "dgemm 512x512x512 server: 1 product, 3.0 MiB, 0.0213 s"
std::string LineOf(const CallRecord& record);

// Thread-safe. A row for each routine, size and place.
class Report {
 public:
  void Add(const CallRecord& record);
  // The table, and the number of products; empty where nothing was called.
  std::string Text() const;

 private:
  struct Row {
    const char* routine = nullptr;
    int size = 0;  // calls of up to 2^size cubed
    Why why = Why::kSmall;
    std::int64_t calls = 0;
    std::int64_t products = 0;
    std::int64_t bytes = 0;
    double seconds = 0;
    double seconds_here = 0;
  };
  // Thirty routines, of which few are used. Calls that find no room are counted.
  static constexpr std::size_t kRows = 1024;

  mutable Mutex mutex_;
  std::array<Row, kRows> rows_ ABSL_GUARDED_BY(mutex_);
  std::size_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::blas
