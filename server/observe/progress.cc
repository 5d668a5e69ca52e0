#include "server/observe/progress.h"

#include "absl/strings/str_cat.h"
#include "base/text/duration.h"
#include "server/observe/refusal.h"

namespace gemmd {

absl::Status StalledError(absl::string_view what, const ProgressLimit& limit) {
  return WithCause(absl::DeadlineExceededError(absl::StrCat(
                       what, " slower than ", limit.bytes_per_second,
                       " bytes per second (limits.min_bytes_per_second) for more than ",
                       DurationText(limit.window), " (limits.stall_timeout_ms)")),
                   RefusalCause::kStalled);
}

}  // namespace gemmd
