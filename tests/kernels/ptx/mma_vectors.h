// Inputs of single mma.sync instructions: what tensor_core_test computes and
// record_vectors measures.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/emulator/arithmetic/tensor_core.h"

namespace gemmd::testing {

inline constexpr int kMmaWarps = 1024;
inline constexpr int kMmaForms = 3;  // in the order of ptx::MmaForm

enum class MmaOperands : std::uint8_t {
  kNormal,
  kWide,       // exponents far apart
  kSubnormal,  // A at and below the smallest normal number
  kSpecial,    // some infinities, NaNs and signed zeros
  kLarge,      // sums that overflow
  kSparse,     // half of them zero
};
inline constexpr MmaOperands kMmaOperands[] = {MmaOperands::kNormal,    MmaOperands::kWide,
                                               MmaOperands::kSubnormal, MmaOperands::kSpecial,
                                               MmaOperands::kLarge,     MmaOperands::kSparse};

inline std::string MmaVectorName(int form, MmaOperands operands) {
  static const char* const kForms[] = {"f16_f32", "bf16_f32", "f16_f16"};
  static const char* const kKinds[] = {"normal", "wide", "subnormal", "special", "large", "sparse"};
  return std::string("mma_") + kForms[form] + "_" + kKinds[static_cast<int>(operands)];
}

class MmaInputs {
 public:
  MmaInputs(int form, MmaOperands operands)
      : is_bf16_(form == 1),
        operands_(operands),
        generator_(static_cast<std::uint32_t>(100 * form + static_cast<int>(operands))) {
    for (int lane = 0; lane < kMmaWarps * 32; ++lane) {
      for (int i = 0; i < 4; ++i) words_.push_back(Pair(false));
      for (int i = 0; i < 2; ++i) words_.push_back(Pair(true));
      for (int i = 0; i < 4; ++i) words_.push_back(form == 2 ? Pair(false) : Addend());
    }
  }

  const std::vector<std::uint32_t>& words() const { return words_; }

 private:
  std::uint32_t Below(std::uint32_t limit) { return generator_() % limit; }

  std::uint16_t Compose(std::uint32_t exponent) {
    const std::uint32_t random = generator_();
    const std::uint32_t sign = (random & 1) << 15;
    const std::uint32_t word = is_bf16_ ? sign | exponent << 7 | ((random >> 1) & 0x7f)
                                        : sign | exponent << 10 | ((random >> 1) & 0x3ff);
    return static_cast<std::uint16_t>(word);
  }

  std::uint16_t Half(bool is_b) {
    const auto format = is_bf16_ ? emulator::HalfFormat::kBf16 : emulator::HalfFormat::kF16;
    switch (operands_) {
      case MmaOperands::kNormal:
        return emulator::Narrow(format, normal_(generator_));
      case MmaOperands::kWide:
        return Compose(is_bf16_ ? 107 + Below(41) : Below(31));
      case MmaOperands::kSubnormal:
        if (is_bf16_) return Compose(is_b ? 240 + Below(10) : Below(4));
        return Compose(is_b ? 22 + Below(8) : Below(3));
      case MmaOperands::kSpecial: {
        if (Below(100) != 0) return emulator::Narrow(format, normal_(generator_));
        static constexpr std::uint16_t kF16[] = {0x7c00, 0xfc00, 0x7e00, 0, 0x8000};
        static constexpr std::uint16_t kBf16[] = {0x7f80, 0xff80, 0x7fc0, 0, 0x8000};
        return (is_bf16_ ? kBf16 : kF16)[Below(5)];
      }
      case MmaOperands::kLarge:
        return Compose(is_bf16_ ? 180 + Below(14) : 24 + Below(6));
      case MmaOperands::kSparse:
        return Below(2) == 0 ? 0 : Compose(is_bf16_ ? 127 : 15);
    }
    return 0;
  }

  std::uint32_t Pair(bool is_b) {
    const std::uint32_t low = Half(is_b);
    return low | (std::uint32_t{Half(is_b)} << 16);
  }

  std::uint32_t Addend() {
    float value = normal_(generator_) * 4;
    const int range = static_cast<int>(Below(40));
    if (operands_ == MmaOperands::kWide) value = std::ldexp(value, range - 20);
    if (operands_ == MmaOperands::kSubnormal) value = std::ldexp(value, range / 2 - 20);
    if (operands_ == MmaOperands::kLarge) {
      value = std::ldexp(value, is_bf16_ ? 112 + range / 3 : range * 3 / 4);
    }
    if (operands_ == MmaOperands::kSpecial && range == 0) value = INFINITY;
    if (operands_ == MmaOperands::kSpecial && range == 1) value = NAN;
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  }

  const bool is_bf16_;
  const MmaOperands operands_;
  std::mt19937 generator_;
  std::normal_distribution<float> normal_;
  std::vector<std::uint32_t> words_;
};

}  // namespace gemmd::testing
