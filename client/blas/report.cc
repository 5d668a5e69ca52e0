#include "client/blas/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

namespace gemmd::blas {
namespace {

// The size class of a call: a cube of so many operations has sides of at most 2^class.
int ClassOf(const CallRecord& record) {
  const double volume = std::max(record.m, 1.0) * std::max(record.n, 1.0) * std::max(record.k, 1.0);
  return static_cast<int>(std::ceil(std::log2(volume) / 3 - 1e-9));
}

template <typename... Values>
void Append(std::string& text, const char* format, Values... values) {
  char line[256];
  const int length = std::snprintf(line, sizeof(line), format, values...);
  if (length > 0) text.append(line, std::min(static_cast<std::size_t>(length), sizeof(line) - 1));
}

constexpr double kMib = 1024.0 * 1024;

}  // namespace

std::string LineOf(const CallRecord& record) {
  std::string line = record.routine;
  Append(line, " %.0fx%.0fx%.0f", record.m, record.n, record.k);
  Append(line, " %s", NameOf(record.why));
  if (record.products != 0) {
    Append(line, ": %lld product%s, %.1f MiB", static_cast<long long>(record.products),
           record.products == 1 ? "" : "s", static_cast<double>(record.bytes) / kMib);
  }
  Append(line, ", %.6f s", record.seconds);
  return line;
}

void Report::Add(const CallRecord& record) {
  const int size = ClassOf(record);
  const MutexLock lock(mutex_);
  auto* const end = rows_.begin() + used_;
  auto* row = std::find_if(rows_.begin(), end, [&](const Row& each) {
    return each.size == size && each.why == record.why &&
           std::strcmp(each.routine, record.routine) == 0;
  });
  if (row == end) {
    if (used_ == kRows) {
      ++lost_;
      return;
    }
    ++used_;
    *row = Row{record.routine, size, record.why};
  }
  ++row->calls;
  row->products += record.products;
  row->bytes += record.bytes;
  row->seconds += record.seconds;
  row->seconds_here += record.seconds_here;
}

std::string Report::Text() const {
  const MutexLock lock(mutex_);
  if (used_ == 0) return "";
  std::vector<Row> rows(rows_.begin(), rows_.begin() + used_);
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    const int order = std::strcmp(a.routine, b.routine);
    if (order != 0) return order < 0;
    return a.size != b.size ? a.size < b.size : a.why < b.why;
  });
  std::string text =
      "gemmd_blas: calls by routine, by size (up to its cube), and by where they were computed\n";
  Append(text, "%-8s %6s  %-26s %9s %9s %10s %10s  %s\n", "routine", "size", "where", "calls",
         "products", "MiB", "seconds", "speed-up");
  std::int64_t products = 0;
  for (const Row& row : rows) {
    products += row.products;
    Append(text, "%-8s %6.0f  %-26s %9lld %9lld %10.1f %10.4f", row.routine,
           std::ldexp(1, row.size), NameOf(row.why), static_cast<long long>(row.calls),
           static_cast<long long>(row.products), static_cast<double>(row.bytes) / kMib,
           row.seconds);
    if (row.why == Why::kServer && row.seconds_here > 0) {
      Append(text, "  %.2f, of %.4f s here", row.seconds_here / row.seconds, row.seconds_here);
    }
    text += '\n';
  }
  Append(text, "gemmd_blas: the server computed %lld products\n", static_cast<long long>(products));
  if (lost_ != 0) {
    Append(text, "gemmd_blas: %lld further calls found no room in this table\n",
           static_cast<long long>(lost_));
  }
  return text;
}

}  // namespace gemmd::blas
