// A tenant's quota of each thing that all share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace gemmd {

// Quantities that are held, and given back.
enum class Quantity : std::uint8_t {
  kRequests,       // admitted, or waiting for memory, and not yet finished
  kRequestBytes,   // of their inline operands and of results that are sent back
  kResidentBytes,  // of operands that stay, and of uploads, whole
  kRegions,        // of shared memory
  kConnections,    // that calls came over, until they are closed
};
inline constexpr std::size_t kQuantities = 5;
inline constexpr std::array<Quantity, kQuantities> kAllQuantities = {
    Quantity::kRequests, Quantity::kRequestBytes, Quantity::kResidentBytes, Quantity::kRegions,
    Quantity::kConnections};

// "requests", as the policy file's field of the name.
absl::string_view Name(Quantity quantity);

// A value. Absent: not limited.
struct Quota {
  // The name of the account that use counts in.
  std::string account;
  std::array<std::optional<std::uint64_t>, kQuantities> limits;
  // Seconds of device time in one second, of all devices together. Positive.
  std::optional<double> device_share;
  // Allows high priority or forbids it; absent: as the server's options say.
  std::optional<bool> high_priority;
  // The weight of its share of a device beside others'; absent: as the server's options say.
  // Positive.
  std::optional<double> weight;

  std::optional<std::uint64_t> limit(Quantity quantity) const {
    return limits[static_cast<std::size_t>(quantity)];
  }
};

}  // namespace gemmd
