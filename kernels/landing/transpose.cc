#include "kernels/landing/transpose.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/landing/transpose_entries.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kAlignment = 16;
constexpr std::int64_t kLeastTile = 64;  // elements; see transpose_kernel.h

absl::Status Fault(const char* field, std::int64_t value, const char* limit) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be ", limit));
}

bool IsAligned(const void* address) {
  return address != nullptr && reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0;
}

absl::Status Check(const Transposition& t) {
  const int bytes = t.element_bytes;
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
    return Fault("element_bytes", bytes, "1, 2, 4 or 8");
  }
  if (t.rows < 1) return Fault("rows", t.rows, "at least 1");
  if (t.columns < 1) return Fault("columns", t.columns, "at least 1");
  const auto is_aligned_line = [bytes](std::int64_t leading_dimension) {
    return static_cast<std::uint64_t>(leading_dimension) * static_cast<std::uint64_t>(bytes) %
               kAlignment ==
           0;
  };
  if (t.from_leading_dimension < t.columns || !is_aligned_line(t.from_leading_dimension)) {
    return Fault("from_leading_dimension", t.from_leading_dimension,
                 "at least columns, and a multiple of 16 bytes");
  }
  if (t.padded_rows < t.columns) {
    return Fault("padded_rows", t.padded_rows, "at least columns, which become rows");
  }
  if (t.padded_columns < t.rows) {
    return Fault("padded_columns", t.padded_columns, "at least rows, which become columns");
  }
  if (t.to_leading_dimension < t.padded_columns || !is_aligned_line(t.to_leading_dimension)) {
    return Fault("to_leading_dimension", t.to_leading_dimension,
                 "at least padded_columns, and a multiple of 16 bytes");
  }
  const std::int64_t tiles = (t.padded_rows / kLeastTile + 1) * (t.padded_columns / kLeastTile + 1);
  if (tiles > std::numeric_limits<std::int32_t>::max()) {
    return Fault("padded_rows * padded_columns / 4096", tiles, "at most 2147483647");
  }
  if (!IsAligned(t.from) || !IsAligned(t.to)) {
    return absl::InvalidArgumentError("from and to must be aligned to 16 bytes, and not null");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LaunchTranspose(const Transposition& transposition, const LaunchTarget& target) {
  if (absl::Status status = Check(transposition); !status.ok()) return status;
  return landing::TransposeFor(target)(transposition, target);
}

}  // namespace gemmd
