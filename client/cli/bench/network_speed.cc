#include "client/cli/bench/network_speed.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/matrix.h"

namespace gemmd::cli {
namespace {

constexpr int kCalls = 5;
constexpr int kProbes = 2;  // the first finds connections and windows cold

absl::StatusOr<client::Matrix> Zeros(std::uint64_t rows, std::uint64_t columns) {
  return client::Matrix::Create({DataType::kF32, rows, columns},
                                std::string(rows * columns * sizeof(float), '\0'));
}

// GB/s of `bytes` that took the round trip and this much longer.
absl::StatusOr<double> Probe(client::Client* connection, std::uint64_t m, std::uint64_t n,
                             std::uint64_t k, std::uint64_t bytes, double round_trip_us,
                             const client::CallOptions& call) {
  absl::StatusOr<client::Matrix> a = Zeros(m, k);
  if (!a.ok()) return a.status();
  absl::StatusOr<client::Matrix> b = Zeros(k, n);
  if (!b.ok()) return b.status();
  const client::MatmulInputs inputs{*std::move(a), *std::move(b)};
  double least_us = 0;
  for (int probe = 0; probe < kProbes; ++probe) {
    const absl::StatusOr<client::Product> product = connection->Matmul(inputs, {}, call);
    if (!product.ok()) return product.status();
    const double us = absl::ToDoubleMicroseconds(product->receipt.client.wire);
    least_us = probe == 0 ? us : std::min(least_us, us);
  }
  // Within the noise of a round trip there is no rate to tell.
  return static_cast<double>(bytes) / (std::max(least_us - round_trip_us, 1.0) * 1e3);
}

}  // namespace

absl::StatusOr<NetworkSpeed> MeasureNetwork(client::Client* connection, std::uint64_t probe_bytes,
                                            const client::CallOptions& call) {
  NetworkSpeed speed;
  for (int i = 0; i <= kCalls; ++i) {
    const absl::Time start = absl::Now();
    const auto info = connection->ServerInfo(call);
    if (!info.ok()) return info.status();
    const double us = absl::ToDoubleMicroseconds(absl::Now() - start);
    // The first call connects.
    if (i == 1 || (i > 1 && us < speed.round_trip_us)) speed.round_trip_us = us;
  }
  if (probe_bytes == 0) return speed;
  // Two vectors up and one number down; then the reverse, as a product of rank one.
  const std::uint64_t inner = std::max<std::uint64_t>(1, probe_bytes / (2 * sizeof(float)));
  const absl::StatusOr<double> up =
      Probe(connection, 1, 1, inner, probe_bytes, speed.round_trip_us, call);
  if (!up.ok()) return up.status();
  speed.upload_gbps = *up;
  const auto side = static_cast<std::uint64_t>(
      std::max(1.0, std::sqrt(static_cast<double>(probe_bytes) / sizeof(float))));
  const std::uint64_t down_bytes = side * side * sizeof(float);
  const absl::StatusOr<double> down =
      Probe(connection, side, side, 1, down_bytes, speed.round_trip_us, call);
  if (!down.ok()) return down.status();
  speed.download_gbps = *down;
  return speed;
}

}  // namespace gemmd::cli
