#include "server/scheduling/queue_bounds.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

template <typename T>
T Share(T bound, int percent) {
  return static_cast<T>(std::ceil(static_cast<double>(bound) * percent / 100));
}

template <typename T>
absl::Status Over(absl::string_view whose, T have, T more, T bound, absl::string_view unit) {
  return absl::ResourceExhaustedError(absl::StrCat(whose, " is full: ", have, unit,
                                                   " wait, this request is ", more, " more, and ",
                                                   bound, " may"));
}

}  // namespace

QueueBounds ShareOf(const QueueBounds& bounds, int percent) {
  return {Share(bounds.jobs, percent), Share(bounds.bytes, percent), Share(bounds.rows, percent),
          bounds.us * percent / 100};
}

absl::Status CheckRoom(absl::string_view whose, const QueueUse& use, const QueueUse& job,
                       const QueueBounds& bounds) {
  if (use.jobs == 0) return absl::OkStatus();
  if (use.jobs >= bounds.jobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat(whose, " is full: ", use.jobs, " requests wait, and ", bounds.jobs, " may"));
  }
  if (use.bytes + job.bytes > bounds.bytes) {
    return Over(whose, use.bytes, job.bytes, bounds.bytes, " bytes");
  }
  if (use.rows + job.rows > bounds.rows) {
    return Over(whose, use.rows, job.rows, bounds.rows, " rows");
  }
  if (use.us + job.us > bounds.us) {
    return Over(whose, std::llround(use.us), std::llround(job.us), std::llround(bounds.us),
                " us of predicted work");
  }
  return absl::OkStatus();
}

}  // namespace gemmd
