// TMA moves the bytes that an H200 moved: swizzles, bounds, clipping.
#include "kernels/emulator/memory/tensor_copy.h"

#include <gtest/gtest.h>

#include "kernels/emulator/launch.h"
#include "tests/kernels/ptx/recorded.h"
#include "tests/kernels/ptx/tensor_copy_vectors.h"

namespace gemmd::testing {
namespace {

struct alignas(128) Line {
  std::uint8_t bytes[128];
};

// A copy of the bytes at an address that TMA takes.
class Aligned {
 public:
  explicit Aligned(const std::vector<std::uint8_t>& bytes)
      : size_(bytes.size()), lines_(bytes.size() / sizeof(Line) + 1) {
    std::memcpy(lines_.data(), bytes.data(), size_);
  }
  std::uint8_t* data() { return lines_.data()->bytes; }
  emulator::Buffer Describe(const char* name, bool read_only) {
    return {data(), size_, name, read_only};
  }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::vector<Line> lines_;
};

struct Copied {
  emulator::Report report;
  std::uint64_t hash = 0;
};

Copied Emulate(const TensorCopyCase& test, emulator::Landing landing) {
  Aligned in(TensorBytes(test.element, 1));
  Aligned out(TensorBytes(test.element, 2));
  Aligned dump(std::vector<std::uint8_t>(TensorBoxBytes(test)));
  const ptx::TensorCopyProbeParams params =
      TensorCopyParams(test, in.data(), out.data(), dump.data());
  emulator::LaunchRequest request;
  request.kernel = "tensor_copy_probe";
  request.shared_bytes = ptx::TensorCopyProbeSharedBytes(params.box_bytes);
  request.buffers = {in.Describe("in", true), out.Describe("out", false),
                     dump.Describe("dump", false)};
  emulator::Options options;
  options.landing = landing;
  Copied copied;
  copied.report = emulator::Launch(request, options, [&] { ptx::TensorCopyProbe(params); });
  copied.hash = HashBytes(out.data(), out.size(), HashBytes(dump.data(), dump.size()));
  return copied;
}

TEST(TensorCopy, MovesTheBytesThatAnH200Moved) {
  auto recorded = ReadRecorded("tests/kernels/ptx/recorded_sm90.txt");
  for (const TensorCopyCase& test : kTensorCopies) {
    ASSERT_EQ(recorded.count(test.name), 1u) << test.name;
    for (const emulator::Landing landing :
         {emulator::Landing::kEager, emulator::Landing::kLazy, emulator::Landing::kRandom}) {
      const Copied copied = Emulate(test, landing);
      EXPECT_TRUE(copied.report.ok()) << copied.report.message;
      EXPECT_EQ(copied.hash, recorded[test.name]) << test.name;
    }
  }
}

TEST(TensorCopy, StartsAtAMultipleOf16Bytes) {
  TensorCopyCase test = kTensorCopies[3];
  test.load_x = 100;  // 200 bytes, inside: "illegal instruction" on an H200
  EXPECT_EQ(Emulate(test, emulator::Landing::kLazy).report.violation,
            emulator::Violation::kMisaligned);
  test.load_x = 300;  // 600 bytes, wholly outside
  EXPECT_EQ(Emulate(test, emulator::Landing::kLazy).report.violation,
            emulator::Violation::kMisaligned);
  test.load_x = 104;
  test.stores = true;
  test.store_x = 12;
  EXPECT_EQ(Emulate(test, emulator::Landing::kLazy).report.violation,
            emulator::Violation::kMisaligned);
}

TEST(TensorCopy, StoresNotBeforeTheStart) {
  TensorCopyCase test = kTensorCopies[3];
  test.stores = true;
  test.store_x = -8;
  EXPECT_EQ(Emulate(test, emulator::Landing::kLazy).report.violation,
            emulator::Violation::kBadOperand);
  test.store_x = 8;
  test.store_y = -3;
  EXPECT_EQ(Emulate(test, emulator::Landing::kLazy).report.violation,
            emulator::Violation::kBadOperand);
}

}  // namespace
}  // namespace gemmd::testing
