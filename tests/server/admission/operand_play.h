// Headers and payloads of quantized products, made of somebody's bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gemmd::testing {

// The outcome of playing the bytes.
enum class OperandPlay : std::uint8_t { kHeaderRefused, kPayloadRefused, kNoKernel, kComputed };

// Admits what the bytes say, receives planes made of the rest of them, and multiplies what was let
// in on the CPU: no input may read or write beyond a plane, which sanitizers see.
OperandPlay PlayOperands(const std::uint8_t* data, std::size_t size);

}  // namespace gemmd::testing
