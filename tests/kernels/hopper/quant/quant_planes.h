// A product by quantized weights with its planes in the emulator, and what bits D should have.
// Included after the family's zero_kind.h, of which a test may have a changed copy.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/emulator/session.h"
#include "kernels/emulator/tensor_core.h"
#include "kernels/kernel.h"
#include "tests/kernels/hopper/common/plane.h"

namespace gemmd::testing {

struct QuantCase {
  std::int64_t m = 1;
  std::int64_t n = 64;
  std::int64_t k = 128;
  DataType a = DataType::kBf16;
  DataType b = DataType::kInt4;
  bool has_zero_points = false;
  DataType d = DataType::kBf16;
  Order d_order = Order::kRowMajor;
  bool b_is_k_major = true;
  bool b_is_settled = true;
  Epilogue epilogue = {};
  bool has_any_scale = false;  // of mxfp4: the smallest and the largest too

  bool is_mxfp4() const { return b == DataType::kFp4E2M1; }
  std::int64_t scale_k() const { return is_mxfp4() ? 32 : 128; }
};

inline Problem MakeQuantProblem(const QuantCase& c) {
  Problem problem = MakeProblem(c.m, c.n, c.k, c.a, c.d, false, c.b_is_k_major);
  problem.a.leading_dimension = (c.k + 7) / 8 * 8 + 8;
  problem.b.type = c.b;
  problem.b_scaling.has_scales = true;
  problem.b_scaling.type = c.is_mxfp4() ? DataType::kE8M0 : DataType::kF16;
  problem.b_scaling.block_lines = 1;
  problem.b_scaling.block_k = c.scale_k();
  problem.b_scaling.order = c.b_is_k_major ? ScaleOrder::kAlongK : ScaleOrder::kAlongLines;
  problem.b_scaling.has_zero_points = c.has_zero_points;
  problem.d.order = c.d_order;
  problem.d.type = c.d;
  problem.c = problem.d;
  problem.c.leading_dimension = problem.c.inner() + 1;
  problem.d.leading_dimension = problem.d.inner() + 3;
  problem.epilogue = c.epilogue;
  problem.accumulate = DataType::kF32;
  return problem;
}

// A hash, the same wherever it is asked for.
inline std::uint32_t HashOf(std::uint32_t seed, std::int64_t line, std::int64_t k) {
  auto x = static_cast<std::uint32_t>(line * 2654435761 + k * 40503 + seed * 97);
  x ^= x >> 16;
  x *= 0x85ebca6b;
  x ^= x >> 13;
  x *= 0xc2b2ae35;
  return x ^ (x >> 16);
}

// Bytes at a multiple of 128, exactly as many as are needed.
class Bytes {
 public:
  explicit Bytes(std::int64_t size) : storage_(static_cast<std::size_t>(size) + 128, 0x7f) {
    data_ = storage_.data() + (128 - reinterpret_cast<std::uintptr_t>(storage_.data()) % 128) % 128;
  }
  std::uint8_t* data() { return data_; }
  const std::uint8_t* data() const { return data_; }

 private:
  std::vector<std::uint8_t> storage_;
  std::uint8_t* data_;
};

struct QuantRun {
  explicit QuantRun(const QuantCase& c)
      : its(c),
        problem(MakeQuantProblem(c)),
        zero(hopper::quant::ZeroKindOf(problem)),
        groups(hopper::quant::GroupsOf(c.k)),
        units(hopper::quant::UnitsOf(c.n, c.k)),
        a_plane(problem.a),
        c_plane(problem.c),
        d_plane(problem.d),
        codes(static_cast<std::int64_t>(problem.b.size_bytes())),
        scale_blocks((c.k + c.scale_k() - 1) / c.scale_k()),
        scales(c.n * scale_blocks * ScaleSize()),
        zeros(c.n * groups),
        packed_codes(units * hopper::quant::kCodeBytes),
        packed_scales(units * (c.is_mxfp4() ? 64 : 32)),
        packed_zeros(units * hopper::quant::kZeroBytes),
        bias(c.n * SizeBits(c.d) / 8) {
    std::memset(codes.data(), 0, problem.b.size_bytes());
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t i = 0; i < c.k; ++i) a_plane.Set(row, i, AOf(row, i));
      for (std::int64_t column = 0; column < c.n; ++column) {
        SetHalfOrFloat(&c_plane, row, column, COf(row, column));
      }
    }
    for (std::int64_t line = 0; line < c.n; ++line) {
      for (std::int64_t i = 0; i < c.k; ++i) {
        const std::int64_t index = line * problem.b_column_stride() + i * problem.b_inner_stride();
        codes.data()[index / 2] =
            static_cast<std::uint8_t>(codes.data()[index / 2] | CodeOf(line, i) << (index % 2 * 4));
      }
      for (std::int64_t block = 0; block < scale_blocks; ++block) {
        const std::int64_t index = problem.b_scaling.index(c.n, c.k, line, block * c.scale_k());
        const std::uint16_t scale = ScaleBitsOf(line, block);
        std::memcpy(scales.data() + index * ScaleSize(), &scale,
                    static_cast<std::size_t>(ScaleSize()));
        if (!c.is_mxfp4()) zeros.data()[index] = static_cast<std::uint8_t>(ZeroOf(line, block));
      }
      SetElement(bias.data(), line, BiasOf(line));
    }
    PackByHand();
  }

  emulator::HalfFormat RowFormat() const {
    return its.a == DataType::kBf16 ? emulator::HalfFormat::kBf16 : emulator::HalfFormat::kF16;
  }
  // Numbers of several magnitudes.
  std::uint16_t AOf(std::int64_t row, std::int64_t i) const {
    const std::uint32_t x = HashOf(1, row, i);
    const float value = static_cast<float>(x & 0xffff) / 65536.0F - 0.5F;
    return emulator::Narrow(RowFormat(), std::ldexp(value, static_cast<int>(x >> 30)));
  }
  std::uint32_t CodeOf(std::int64_t line, std::int64_t i) const { return HashOf(2, line, i) >> 28; }
  std::int64_t ScaleSize() const { return its.is_mxfp4() ? 1 : 2; }
  // Scales of either sign, and zero now and then; those of mxfp4 have several magnitudes.
  std::uint16_t ScaleBitsOf(std::int64_t line, std::int64_t block) const {
    const std::uint32_t x = HashOf(3, line, block);
    if (its.is_mxfp4()) {
      constexpr std::uint8_t kOdd[] = {0, 1, 127, 128, 253, 254};
      // In every other strip, and there in some of its turns.
      const bool is_odd = its.has_any_scale && line / 16 % 2 == 1 && block / 32 % 2 == 0 &&
                          (line + 3 * block) % 5 == 0;
      return is_odd ? kOdd[line / 5 % 6] : static_cast<std::uint16_t>(114 + x % 14);
    }
    return emulator::Narrow(emulator::HalfFormat::kF16,
                            (static_cast<float>(x & 0xfff) - 1024.0F) / 65536.0F);
  }
  int ZeroOf(std::int64_t line, std::int64_t group) const {
    if (!its.has_zero_points) return 0;
    const int zero = static_cast<int>(HashOf(4, line, group) >> 28);
    return its.b == DataType::kInt4 ? zero - 8 : zero;
  }
  int ValueOf(std::int64_t line, std::int64_t i) const {
    const int code = static_cast<int>(CodeOf(line, i));
    return (its.b == DataType::kInt4 && code > 7 ? code - 16 : code) - ZeroOf(line, i / 128);
  }
  // As a number of either format; of mxfp4 a quarter, which is finite in bf16 whatever the scale.
  float WeightOf(std::int64_t line, std::int64_t i) const {
    if (!its.is_mxfp4()) return static_cast<float>(ValueOf(line, i));
    constexpr float kE2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const std::uint32_t code = CodeOf(line, i);
    return std::ldexp(code < 8 ? kE2m1[code] : -kE2m1[code - 8], ScaleBitsOf(line, i / 32) - 129);
  }
  static float COf(std::int64_t row, std::int64_t column) {
    return static_cast<float>((row * 3 + column) % 11) / 4 - 1;
  }
  static float BiasOf(std::int64_t column) { return static_cast<float>(column % 7) - 3; }

  std::uint32_t NarrowToD(float value) const {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (its.d == DataType::kF32) return bits;
    return emulator::Narrow(
        its.d == DataType::kBf16 ? emulator::HalfFormat::kBf16 : emulator::HalfFormat::kF16, value);
  }
  void SetElement(std::uint8_t* at, std::int64_t index, float value) const {
    const std::uint32_t bits = NarrowToD(value);
    const std::int64_t size = SizeBits(its.d) / 8;
    std::memcpy(at + index * size, &bits, static_cast<std::size_t>(size));
  }
  void SetHalfOrFloat(Plane* plane, std::int64_t row, std::int64_t column, float value) const {
    if (its.d == DataType::kF32) {
      plane->Set(row, column, value);
    } else {
      plane->Set(row, column, static_cast<std::uint16_t>(NarrowToD(value)));
    }
  }

  // The packed planes from the words of packed.h, byte by byte, apart from any kernel.
  void PackByHand() {
    namespace quant = hopper::quant;
    const std::uint32_t bias_of_codes = its.b == DataType::kInt4 ? 8 : 0;
    // The places of E2M1's bits, the sign first, of each register's lower code.
    constexpr int kE2m1Places[4][4] = {
        {15, 8, 7, 6}, {11, 4, 3, 2}, {5, 30, 29, 28}, {1, 26, 25, 0}};
    std::memset(packed_codes.data(), 0, static_cast<std::size_t>(units * 1024));
    for (std::int64_t line = 0; line < quant::ChunksOf(its.n) * quant::kChunkLines; ++line) {
      const std::int64_t strip = line / 16;
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t unit = (strip / 4 * groups + g) * 4 + strip % 4;
        std::uint8_t* const piece = packed_codes.data() + unit * 1024;
        const std::int64_t pair = line % 8;
        const std::int64_t side = line % 16 / 8;
        const bool is_line = line < its.n;
        const std::uint32_t stored_zero =
            is_line ? (static_cast<std::uint32_t>(ZeroOf(line, g)) + bias_of_codes) & 15 : 0;
        for (std::int64_t i = 0; i < 128; ++i) {
          const std::int64_t k = g * 128 + i;
          const std::uint32_t code = is_line && k < its.k ? CodeOf(line, k) ^ bias_of_codes : 0;
          const std::int64_t step = i / 16;
          const std::int64_t lane = pair * 4 + i % 8 / 2;
          const std::int64_t j = side + i % 16 / 8 * 2;
          for (std::int64_t bit = 0; bit < 4; ++bit) {
            const std::int64_t place = its.is_mxfp4()
                                           ? (kE2m1Places[j][3 - bit] + 16 * (i % 2)) % 32
                                           : 16 * (i % 2) + 4 * j + bit;
            std::uint8_t& byte = piece[step / 4 * 512 + lane * 16 + step % 4 * 4 + place / 8];
            byte = static_cast<std::uint8_t>(byte | (code >> bit & 1) << (place % 8));
          }
        }
        if (its.is_mxfp4()) {
          for (std::int64_t nth = 0; nth < 4; ++nth) {
            const std::int64_t block = g * 4 + nth;
            packed_scales.data()[unit * 64 + pair * 8 + side * 4 + nth] = static_cast<std::uint8_t>(
                is_line && block < scale_blocks ? ScaleBitsOf(line, block) : 0);
          }
        } else {
          const std::uint16_t scale = is_line ? ScaleBitsOf(line, g) : 0;
          std::memcpy(packed_scales.data() + unit * 32 + pair * 4 + side * 2, &scale, 2);
        }
        packed_zeros.data()[unit * 16 + pair * 2 + side] = static_cast<std::uint8_t>(stored_zero);
      }
    }
  }

  Arguments MakeArguments() {
    Arguments arguments;
    arguments.a = a_plane.data();
    arguments.b = packed_codes.data();
    arguments.b_scales = packed_scales.data();
    arguments.b_zero_points = its.has_zero_points ? packed_zeros.data() : nullptr;
    arguments.c = c_plane.data();
    arguments.bias = bias.data();
    arguments.d = d_plane.data();
    arguments.b_is_settled = its.b_is_settled;
    return arguments;
  }

  // Calls launch(target).
  template <class LaunchFunction>
  static emulator::Report RunIn(const LaunchFunction& launch, const emulator::Options& options) {
    emulator::Session session;
    session.options = options;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status = launch(target);
    if (!status.ok() && session.report.ok()) session.report.message = status.ToString();
    return session.report;
  }

  // A row of A or a line of W as factors of 16 of K.
  using Line = std::vector<emulator::Factors>;
  template <class ValueBits>
  Line MakeLine(const ValueBits& bits_of) const {
    Line line(static_cast<std::size_t>(groups * 8));
    for (std::int64_t i = 0; i < groups * 128; ++i) {
      line[static_cast<std::size_t>(i / 16)].Set(RowFormat(), static_cast<int>(i % 16),
                                                 i < its.k ? bits_of(i) : std::uint16_t{0});
    }
    return line;
  }
  Line RowOfA(std::int64_t row) const {
    return MakeLine([&](std::int64_t i) { return AOf(row, i); });
  }
  Line LineOfW(std::int64_t line) const {
    return MakeLine(
        [&](std::int64_t i) { return emulator::Narrow(RowFormat(), WeightOf(line, i)); });
  }

  // The sum of an element of D in the order that few.h states, or few_chain.h, from the planes as
  // they were sent.
  float SumOf(const Line& a, const Line& w, std::int64_t line) const {
    float total = 0;
    if (its.is_mxfp4()) {
      for (std::size_t step = 0; step < a.size(); ++step) {
        total = emulator::RoundToF32(emulator::AlignedSum(total, a[step], w[step]));
      }
      return 4 * total;
    }
    for (std::int64_t g = 0; g < groups; ++g) {
      float sum = 0;
      for (auto step = static_cast<std::size_t>(g * 8); step < static_cast<std::size_t>(g * 8 + 8);
           ++step) {
        sum = emulator::RoundToF32(emulator::AlignedSum(sum, a[step], w[step]));
      }
      total =
          std::fma(emulator::Widen(emulator::HalfFormat::kF16, ScaleBitsOf(line, g)), sum, total);
    }
    return total;
  }

  std::uint32_t BitsAt(std::int64_t row, std::int64_t column) const {
    return its.d == DataType::kF32 ? d_plane.Get<std::uint32_t>(row, column)
                                   : d_plane.Get<std::uint16_t>(row, column);
  }

  // The bits that D should have, with alpha, beta and bias one after another in f32.
  std::uint32_t ExpectedBits(float sum, std::int64_t row, std::int64_t column) const {
    float value = sum;
    const Epilogue& epilogue = problem.epilogue;
    if (epilogue.alpha != 1 || epilogue.beta != 0 || epilogue.has_bias ||
        epilogue.activation != Activation::kNone) {
      value = static_cast<float>(epilogue.alpha) * value;
      if (epilogue.beta != 0) value += static_cast<float>(epilogue.beta) * COf(row, column);
      if (epilogue.has_bias) value += BiasOf(column);
      if (epilogue.activation == Activation::kRelu) value = value < 0 ? 0 : value;
    }
    return NarrowToD(value);
  }

  std::int64_t CountWrong() const {
    std::vector<Line> lines;
    for (std::int64_t column = 0; column < its.n; ++column) lines.push_back(LineOfW(column));
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < its.m; ++row) {
      const Line a = RowOfA(row);
      for (std::int64_t column = 0; column < its.n; ++column) {
        const float sum = SumOf(a, lines[static_cast<std::size_t>(column)], column);
        wrong += BitsAt(row, column) != ExpectedBits(sum, row, column);
      }
    }
    return wrong;
  }

  const QuantCase its;
  const Problem problem;
  const hopper::quant::ZeroKind zero;
  const std::int64_t groups;
  const std::int64_t units;
  Plane a_plane;
  Plane c_plane;
  Plane d_plane;
  Bytes codes;
  const std::int64_t scale_blocks;
  Bytes scales;
  Bytes zeros;
  Bytes packed_codes;
  Bytes packed_scales;
  Bytes packed_zeros;
  Bytes bias;
};

}  // namespace gemmd::testing
