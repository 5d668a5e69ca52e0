#include "client/route.h"

#include <algorithm>

namespace gemmd::client {

Route ChooseRoute(const RouteOptions& options, const RouteInput& input) {
  const std::uint64_t larger = std::max(input.bytes_in, input.bytes_out);
  Route route;
  route.transport = options.transport;
  if (options.transport == Transport::kAuto) {
    const bool is_small = larger <= kUnaryBytes;
    const bool is_quiet = input.in_flight < kStreamFromInFlight;
    route.transport = !input.can_stream || (is_small && is_quiet && options.channels <= 1)
                          ? Transport::kUnary
                          : Transport::kStream;
  }
  if (route.transport == Transport::kUnary) return route;
  route.channels = options.channels;
  if (route.channels == 0) {
    const double rate =
        input.connection_bytes_per_s > 0 ? input.connection_bytes_per_s : kUnknownBytesPerS;
    const double worth = static_cast<double>(larger) / rate / kSecondsPerChannel;
    // Compared first: a large double has no int.
    route.channels = worth >= input.max_channels ? std::max(1, input.max_channels)
                                                 : std::max(1, static_cast<int>(worth));
  }
  route.chunk_bytes = options.chunk_bytes;
  if (route.chunk_bytes == 0) {
    const auto channels = static_cast<std::uint64_t>(route.channels);
    route.chunk_bytes = std::clamp(larger / channels / 4, kMinChunkBytes, kMaxChunkBytes);
  }
  return route;
}

double UpdateRate(double bytes_per_s, std::uint64_t bytes, double seconds, int channels) {
  constexpr std::uint64_t kTelling = 1 << 20;
  constexpr double kWeight = 0.25;
  if (bytes < kTelling || seconds <= 0 || channels < 1) return bytes_per_s;
  const double measured = static_cast<double>(bytes) / seconds / channels;
  return bytes_per_s > 0 ? bytes_per_s + kWeight * (measured - bytes_per_s) : measured;
}

}  // namespace gemmd::client
