// Under a numerics id that was released, a product has the bits that it had then.
//
// released_bits.txt has a line for each id, types and shape: a hash of D, whose operands are made
// of integers alone, so that they are the same everywhere. Kernels that share an id share a line. A
// line is added and never changed: arithmetic that gives other bits takes another id
// (docs/compatibility.md). An id that no kernel has any longer has "gone VERSION" before its line.
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "gtest/gtest.h"
#include "kernels/cpu/row_gemm.h"
#include "kernels/emulator/session.h"
#include "kernels/gemm.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/reference.h"

namespace gemmd {
namespace {

class InTurns final : public ParallelExecutor {
 public:
  void Run(std::int64_t count, absl::FunctionRef<void(int, std::int64_t)> body) override {
    for (std::int64_t i = 0; i < count; ++i) body(0, i);
  }
  int workers() const override { return 1; }
};

// Fills a plane with elements of 11 bits and several magnitudes, so that sums round. A type with as
// many bits holds them exactly.
testing::PlaneBytes Plane(const MatrixLayout& layout, std::uint32_t seed) {
  testing::PlaneBytes plane = testing::PoisonedPlane(layout);
  std::mt19937 generator(seed);
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    for (std::int64_t column = 0; column < layout.columns; ++column) {
      const auto integer = static_cast<int>(generator() % 4001) - 2000;
      const auto power = static_cast<int>(generator() % 8);
      const double value = layout.type == DataType::kInt8
                               ? std::trunc(integer / 16.0)
                               : std::ldexp(static_cast<double>(integer), power - 12);
      StoreElement(layout, plane.data(), row, column, value);
    }
  }
  return plane;
}

// Codes of block-scaled operands: numbers of any bits, in the padding of lines too.
testing::PlaneBytes Codes(const MatrixLayout& layout, std::uint32_t seed) {
  testing::PlaneBytes plane = testing::PoisonedPlane(layout);
  std::mt19937 generator(seed);
  for (char& byte : plane) {
    const auto bits = static_cast<std::uint8_t>(generator());
    // fp8 below its NaN and infinity; of e2m1 each code is a number.
    const int top = layout.type == DataType::kFp8E4M3 ? 0x78 : 0x70;
    const bool is_number = SizeBits(layout.type) < 8 || (bits & 0x7f) < top;
    byte = static_cast<char>(is_number ? bits : bits & 0xbf);
  }
  return plane;
}

// Moderate scales of the blocks that there are; what pads tiles is 0.
std::vector<std::uint8_t> Scales(const Scaling& scaling, std::int64_t lines, std::int64_t k,
                                 std::uint32_t seed) {
  const int bits = SizeBits(scaling.type);
  const auto count = static_cast<std::size_t>(scaling.count(lines, k));
  std::vector<std::uint8_t> scales(count * static_cast<std::size_t>(bits) / 8);
  std::mt19937 generator(seed);
  for (std::int64_t line = 0; line < lines && scaling.has_scales; ++line) {
    for (std::int64_t i = 0; i < k; i += scaling.block_k) {
      const std::uint32_t lowest = scaling.type == DataType::kE8M0 ? 120 : 32;
      std::uint32_t code = lowest + generator() % 15;
      if (bits > 8) {  // integers of 11 bits, of both signs
        code = EncodeElement(scaling.type, static_cast<int>(generator() % 4001) - 2000, 0, {}, 0);
      }
      StoreCode(scales.data(), bits, scaling.index(lines, k, line, i), code);
    }
  }
  return scales;
}

// K-major, on lines of whole 16 bytes, with scales in tiles of 128 x 4.
Problem ScaledProblem(std::int64_t m, std::int64_t n, std::int64_t k, DataType a, DataType b,
                      const Scaling& scaling) {
  Problem problem = MakeProblem(m, n, k, a, DataType::kF32, false, true);
  problem.b.type = b;
  const std::int64_t step = 128 / SizeBits(a);
  problem.a.leading_dimension = problem.b.leading_dimension = (k + step - 1) / step * step;
  problem.a_scaling = problem.b_scaling = scaling;
  problem.accumulate = DataType::kF32;
  return problem;
}

// By a quantized B as it lies where it stays.
Problem PackedProblem(std::int64_t m, std::int64_t n, std::int64_t k, DataType a, DataType b,
                      const Scaling& scaling) {
  Problem problem = MakeProblem(m, n, k, a, DataType::kF32, false, true);
  problem.b.type = b;
  problem.b_scaling = scaling;
  problem.b_packing = Packing::kStrips;
  return problem;
}

std::vector<Problem> Problems() {
  constexpr DataType kFp8[] = {DataType::kFp8E4M3, DataType::kFp8E5M2};
  std::vector<Problem> problems;
  // Part of a tile, and more than one; K of several steps, and ragged.
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{5, 24, 136}, {66, 136, 200}}) {
    for (const DataType type : {DataType::kF64, DataType::kF32, DataType::kF16, DataType::kBf16}) {
      problems.push_back(MakeProblem(m, n, k, type, type));
    }
    problems.push_back(MakeProblem(m, n, k, DataType::kF16, DataType::kF32));
    problems.push_back(MakeProblem(m, n, k, DataType::kBf16, DataType::kF32));
    problems.push_back(MakeProblem(m, n, k, DataType::kF16, DataType::kF16));
    problems.back().accumulate = DataType::kF16;
    problems.push_back(MakeProblem(m, n, k, DataType::kInt8, DataType::kInt32));
    problems.push_back(MakeProblem(m, n, k, DataType::kInt8, DataType::kF32));
    for (const DataType a : kFp8) {
      for (const DataType b : kFp8) {
        problems.push_back(MakeProblem(m, n, k, a, DataType::kF32));
        problems.back().b.type = b;
      }
    }
    constexpr Scaling kMx = {true, DataType::kE8M0, 1, 32, ScaleOrder::kTiles128x4};
    constexpr Scaling kNvfp4 = {true, DataType::kFp8E4M3, 1, 16, ScaleOrder::kTiles128x4, false,
                                true};
    for (const DataType a : kFp8) {
      for (const DataType b : kFp8) problems.push_back(ScaledProblem(m, n, k, a, b, kMx));
    }
    constexpr DataType kFp4 = DataType::kFp4E2M1;
    problems.push_back(ScaledProblem(m, n, k, kFp4, kFp4, kMx));
    problems.push_back(ScaledProblem(m, n, k, kFp4, kFp4, kNvfp4));
    constexpr Scaling kF16Of32 = {true, DataType::kF16, 1, 32};
    constexpr Scaling kF32Of64 = {true, DataType::kF32, 1, 64};
    problems.push_back(ScaledProblem(m, n, k, DataType::kInt4, DataType::kInt4, kF16Of32));
    problems.push_back(ScaledProblem(m, n, k, DataType::kIq4Nl, DataType::kIq4Nl, kF16Of32));
    problems.push_back(ScaledProblem(m, n, k, DataType::kNf4, DataType::kBnbFp4, kF32Of64));
  }
  // K of a span and more, and with it several chains.
  for (const DataType type : {DataType::kF64, DataType::kF32, DataType::kF16, DataType::kBf16}) {
    problems.push_back(MakeProblem(3, 40, 1100, type, type, false, true));
    problems.push_back(MakeProblem(10, 40, 1100, type, type));
  }
  constexpr auto kAlongK = ScaleOrder::kAlongK;
  for (const DataType a : {DataType::kF16, DataType::kBf16}) {
    const auto add = [&](std::int64_t m, std::int64_t k, DataType b, const Scaling& scaling) {
      problems.push_back(PackedProblem(m, 136, k, a, b, scaling));
    };
    constexpr Scaling kG128 = {true, DataType::kF16, 1, 128};
    constexpr Scaling kG128Zeros = {true, DataType::kF16, 1, 128, kAlongK, true};
    add(5, 320, DataType::kInt4, kG128);
    add(66, 192, DataType::kInt4, kG128Zeros);
    add(5, 192, DataType::kUint4, kG128Zeros);
    add(66, 320, DataType::kUint4, kG128);
    add(5, 320, DataType::kInt4, {true, DataType::kF16, 1, 32});
    add(66, 192, DataType::kUint4, {true, DataType::kF16, 1, 32, kAlongK, true});
    add(66, 320, DataType::kInt4, {true, DataType::kF16, 1, 64, kAlongK, true});
    add(5, 192, DataType::kInt8, {true, DataType::kF32, 1, 128});
    add(66, 320, DataType::kInt8, {true, DataType::kF32, 1, kWhole, kAlongK, true});
    add(5, 320, DataType::kUint8, {true, DataType::kF32, 1, 128, kAlongK, true});
    add(5, 192, DataType::kInt8, {true, DataType::kF32, 1, 32});
    add(66, 192, DataType::kUint8, {true, DataType::kF32, 1, 64, kAlongK, true});
    add(5, 320, DataType::kFp8E4M3, {true, DataType::kF32, 1, 128});
    add(66, 192, DataType::kFp8E4M3, {true, DataType::kF32, 128, 128});
    add(5, 192, DataType::kUint8, {true, DataType::kF32, 1, 128});
    add(5, 320, DataType::kFp8E5M2, {true, DataType::kF32, 1, 128});
    const auto with_offsets = [](DataType type, std::uint16_t k) {
      return Scaling{true, type, 1, k, kAlongK, false, false, true};
    };
    add(5, 320, DataType::kUint4, with_offsets(DataType::kF16, 128));
    add(66, 192, DataType::kUint4, with_offsets(DataType::kF16, 64));
    add(5, 192, DataType::kUint4, with_offsets(DataType::kF16, 32));
    add(66, 320, DataType::kUint4, with_offsets(DataType::kF32, 32));
    add(5, 320, DataType::kUint8, with_offsets(DataType::kF32, 32));
    constexpr Scaling kMx = {true, DataType::kE8M0, 1, 32};
    add(5, 320, DataType::kFp8E4M3, kMx);
    add(66, 192, DataType::kFp8E5M2, kMx);
    add(5, 192, DataType::kFp6E3M2, kMx);
    add(66, 320, DataType::kFp6E2M3, kMx);
  }
  for (const std::int64_t m : {5, 66}) {
    problems.push_back(PackedProblem(m, 136, 320, DataType::kBf16, DataType::kFp4E2M1,
                                     {true, DataType::kE8M0, 1, 32}));
    problems.push_back(PackedProblem(m, 136, 320, DataType::kBf16, DataType::kFp4E2M1,
                                     {true, DataType::kFp8E4M3, 1, 16, kAlongK, false, true}));
  }
  return problems;
}

// A packed plane of any codes, scales, offsets or zero points.
std::vector<std::uint8_t> PackedPlane(const Problem& problem, WeightPlane plane,
                                      std::uint32_t seed) {
  std::vector<std::uint8_t> bytes(PackedBytes(problem, plane));
  std::mt19937 generator(seed);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(generator());
    if (plane == WeightPlane::kCodes) {
      // No infinity or NaN: a fraction or an exponent whose lowest bit is 0.
      if (problem.b.type == DataType::kFp8E4M3 && i % 2 == 0) bytes[i] &= 0xee;
      if (problem.b.type == DataType::kFp8E5M2) bytes[i] &= 0xfb;
    }
    if (plane == WeightPlane::kZeroPoints && SizeBits(problem.b.type) == 4) bytes[i] &= 15;
    if (plane != WeightPlane::kScales && plane != WeightPlane::kOffsets) continue;
    // E8M0 of 2^-8 to 2^7; E4M3 of any kind; f16 of 2^-9 to 2^-5; f32 of 2^-7 to 2^-5.
    if (problem.b_scaling.type == DataType::kFp8E4M3) {
      if (i % 64 != 0) bytes[i] %= 0x77;
      if (bytes[i] == 0x77 || bytes[i] == 0xf7) bytes[i] = 0;  // NaN
    } else if (problem.b_scaling.type == DataType::kE8M0) {
      bytes[i] = 119 + bytes[i] % 16;
    } else if (problem.b_scaling.type == DataType::kF32) {
      if (i % 4 == 3) bytes[i] = 0x3c;
    } else if (i % 2 == 1) {
      bytes[i] = 0x18 + bytes[i] % 16;
    }
  }
  return bytes;
}

std::string Hash(const testing::PlaneBytes& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

DeviceTraits Device(DeviceKind kind) {
  DeviceTraits device;
  device.kind = kind;
  device.compute_capability = kind == DeviceKind::kEmulated ? 90 : 0;
  return device;
}

// The key of a line: the id and the problem.
std::string KeyOf(const Kernel& kernel, const Problem& problem) {
  return absl::StrCat(kernel.NumericsId(problem), " ", ToString(problem),
                      " acc=", Name(problem.accumulate));
}

std::string BitsOf(const Kernel& kernel, const Problem& problem, const DeviceTraits& device) {
  const bool is_scaled = problem.a_scaling.has_scales;
  const testing::PlaneBytes a = is_scaled ? Codes(problem.a, 1) : Plane(problem.a, 1);
  const bool is_packed = problem.b_packing != Packing::kNone;
  const testing::PlaneBytes b = is_scaled   ? Codes(problem.b, 2)
                                : is_packed ? testing::PlaneBytes()
                                            : Plane(problem.b, 2);
  const std::vector<std::uint8_t> a_scales = Scales(problem.a_scaling, problem.m, problem.k, 3);
  const std::vector<std::uint8_t> b_scales =
      is_packed ? std::vector<std::uint8_t>() : Scales(problem.b_scaling, problem.n, problem.k, 4);
  constexpr float kTensorScale = 0.0123f;
  testing::PlaneBytes d = testing::PoisonedPlane(problem.d);
  const Config config = kernel.Configure(problem, device);
  const testing::Workspace workspace(kernel.WorkspaceBytes(problem, config));
  Arguments arguments;
  arguments.a = a.data();
  arguments.b = b.data();
  arguments.d = d.data();
  arguments.workspace = workspace.data();
  std::vector<std::uint8_t> packed[4];
  if (is_packed) {
    packed[0] = PackedPlane(problem, WeightPlane::kCodes, 2);
    packed[1] = PackedPlane(problem, WeightPlane::kScales, 4);
    packed[2] = PackedPlane(problem, WeightPlane::kZeroPoints, 5);
    packed[3] = PackedPlane(problem, WeightPlane::kOffsets, 6);
    arguments.b = packed[0].data();
    arguments.b_scales = packed[1].data();
    arguments.b_zero_points = packed[2].data();
    arguments.b_offsets = packed[3].data();
  }
  if (is_scaled) {
    arguments.a_scales = a_scales.data();
    arguments.b_scales = b_scales.data();
  }
  if (problem.a_scaling.has_tensor_scale) arguments.a_tensor_scale = &kTensorScale;
  if (problem.b_scaling.has_tensor_scale) arguments.b_tensor_scale = &kTensorScale;
  InTurns executor;
  emulator::Session session;
  LaunchTarget target;
  if (device.kind == DeviceKind::kCpu) target.executor = &executor;
  if (device.kind == DeviceKind::kEmulated) target.emulator = &session;
  const absl::Status status = kernel.Launch(problem, config, arguments, target);
  if (!status.ok()) return status.ToString();
  return session.report.ok() ? Hash(d) : session.report.message;
}

// The bits of the file's lines by their keys, and the keys that are gone.
struct Released {
  std::map<std::string, std::string> bits;
  std::set<std::string> gone;
};

Released Read() {
  Released released;
  std::ifstream file("tests/kernels/released_bits.txt");
  EXPECT_TRUE(file.is_open());
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t at = line.rfind(' ');
    if (absl::StartsWith(line, "gone ")) {
      const std::size_t begin = line.find(' ', 5) + 1;
      released.gone.insert(line.substr(begin, at - begin));
    } else {
      released.bits[line.substr(0, at)] = line.substr(at + 1);
    }
  }
  return released;
}

TEST(ReleasedBits, AreThoseOfTheirIdForEver) {
  if (std::string(RowGemmArithmetic<float>(1)) != "fma") {
    GTEST_SKIP() << "the lines are of processors with FMA";
  }
  const Released released = Read();
  const std::vector<Problem> problems = Problems();
  std::set<std::string> met;
  std::set<std::string> tried;
  for (const auto& kernel : BuiltinRegistry().kernels()) {
    if (kernel->traits().determinism != Determinism::kBatchInvariant) continue;
    for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kEmulated}) {
      const DeviceTraits device = Device(kind);
      if (!kernel->UnavailableReason(device).empty()) continue;
      for (const Problem& problem : problems) {
        if (kernel->traits().b_packing != problem.b_packing) continue;
        if (!kernel->Rejection(problem).empty()) continue;
        const std::string key = KeyOf(*kernel, problem);
        // One of a family: its own tests compare its variants.
        const std::string& family = kernel->traits().architecture;
        if (!tried.insert(absl::StrCat(family, " ", key)).second) continue;
        const std::string bits = BitsOf(*kernel, problem, device);
        met.insert(key);
        EXPECT_EQ(released.gone.count(key), 0u) << key << " was gone, and is not to come back";
        const auto line = released.bits.find(key);
        if (line == released.bits.end()) {
          ADD_FAILURE() << kernel->traits().name << " has a new id; the line is\n"
                        << key << " " << bits;
        } else {
          EXPECT_EQ(bits, line->second)
              << kernel->traits().name << " gives other bits than were released: " << key
              << "\nIt needs another numerics id.";
        }
      }
    }
  }
  for (const auto& [key, bits] : released.bits) {
    EXPECT_EQ(met.count(key), 1u) << "no kernel has it any longer: " << key;
  }
}

}  // namespace
}  // namespace gemmd
