// Chooses a request's route: one unary call, or a stream, and over how many connections. A pure
// function of sizes and of what was measured; docs/transfer.md explains it to users.
#pragma once

#include <cstdint>

namespace gemmd::client {

enum class Transport { kAuto, kUnary, kStream };

// The caller's requirements.
struct RouteOptions {
  Transport transport = Transport::kAuto;
  // Connections that one streamed request may be spread over; 0 leaves it to the rule.
  int channels = 0;
  // The size of a streamed request's chunks; 0 leaves it to the rule. A payload that fits one chunk
  // goes with the header.
  std::uint64_t chunk_bytes = 0;
};

// The facts that a route is chosen by.
struct RouteInput {
  std::uint64_t bytes_in = 0;   // of its operands
  std::uint64_t bytes_out = 0;  // of its result, at most
  int in_flight = 0;            // other requests of this client
  // Measured: what one connection carries; 0 until it is known.
  double connection_bytes_per_s = 0;
  int max_channels = 8;  // worth having on this machine
  bool can_stream = true;
};

struct Route {
  Transport transport = Transport::kUnary;  // never kAuto
  int channels = 1;
  std::uint64_t chunk_bytes = 0;
};

// A larger request streams: messages above 4 MiB are refused by many a default, and a stream
// asks before it sends that much.
inline constexpr std::uint64_t kUnaryBytes = 4 << 20;
// A payload of up to this size that is streamed over one connection goes with its header, without
// asking. This saves a round trip and messages; a refusal costs as much as that of a unary call.
inline constexpr std::uint64_t kUnaskedBytes = kUnaryBytes;
// A stream saves what a call costs. The gain shows once this many requests are in flight.
inline constexpr int kStreamFromInFlight = 4;
// The time that each connection should be busy for a further one to be worth opening.
inline constexpr double kSecondsPerChannel = 2e-3;
inline constexpr double kUnknownBytesPerS = 1e9;
inline constexpr std::uint64_t kMinChunkBytes = 256 << 10;
inline constexpr std::uint64_t kMaxChunkBytes = 1 << 20;

// With kAuto, and unless the options say otherwise:
//   - unary where the larger of the two directions is at most kUnaryBytes and fewer than
//     kStreamFromInFlight others are in flight, or where the server cannot stream;
//   - else a stream, over as many channels as have kSecondsPerChannel of work each at the
//     measured rate, from 1 to max_channels;
//   - in chunks of a quarter of a channel's share, from kMinChunkBytes to kMaxChunkBytes, so
//     that fast connections can take work from slow ones.
Route ChooseRoute(const RouteOptions& options, const RouteInput& input);

// Returns the rate, smoothed with a new measurement; 0 is unknown. A transfer that is too short to
// tell leaves the rate as it was.
double UpdateRate(double bytes_per_s, std::uint64_t bytes, double seconds, int channels);

}  // namespace gemmd::client
