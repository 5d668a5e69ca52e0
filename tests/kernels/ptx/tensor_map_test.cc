// Tests the rules of tensor maps, and how descriptors are encoded: host code alone.
#include "kernels/ptx/tensor_map.h"

#include <gtest/gtest.h>

#include "kernels/ptx/matrix_descriptor.h"

namespace gemmd::ptx {
namespace {

TensorMapSpec Legal() {
  alignas(16) static std::uint16_t storage[8];
  TensorMapSpec spec;
  spec.base = storage;
  spec.element = TensorElement::kBf16;
  spec.size[0] = 100;
  spec.size[1] = 40;
  spec.stride_bytes[1] = 208;
  spec.box[0] = 64;
  spec.box[1] = 40;
  spec.swizzle = Swizzle::k128B;
  return spec;
}

TEST(TensorMap, TakesALegalSpec) {
  EXPECT_EQ(TensorMapError(Legal()), "");
  EXPECT_TRUE(MakeTensorMap(Legal()).ok());
}

TEST(TensorMap, RefusesWhatTheDriverRefuses) {
  TensorMapSpec spec = Legal();
  spec.stride_bytes[1] = 200;
  EXPECT_EQ(TensorMapError(spec), "stride of 200 bytes of dimension 1");
  spec = Legal();
  spec.box[1] = 257;
  EXPECT_EQ(TensorMapError(spec), "box 257 of dimension 1");
  spec = Legal();
  spec.box[0] = 72;
  EXPECT_EQ(TensorMapError(spec), "box rows of 144 bytes, swizzled in spans of 128: not equal");
  spec.box[0] = 60;
  EXPECT_EQ(TensorMapError(spec), "box rows of 120 bytes, not a multiple of 16");
  spec = Legal();
  spec.base = static_cast<const char*>(spec.base) + 2;
  EXPECT_EQ(TensorMapError(spec), "base not aligned to 16 bytes");
}

TEST(TensorMap, TakesSwizzledRowsOfTheWholeSpanOnly) {
  TensorMapSpec spec = Legal();
  spec.box[0] = 32;
  EXPECT_EQ(TensorMapError(spec), "box rows of 64 bytes, swizzled in spans of 128: not equal");
  spec.swizzle = Swizzle::k64B;
  EXPECT_EQ(TensorMapError(spec), "");
}

// PTX ISA, the descriptor's table, by hand: start 0x4400 >> 4, leading 16 >> 4 at bit 16,
// stride 1024 >> 4 at bit 32, 128-byte swizzle at bit 62.
TEST(MatrixDescriptor, PutsEachFieldWhereTheTableSays) {
  EXPECT_EQ(MakeWgmmaDescriptor128B(0x4400), 0x4000004000010440u);
  EXPECT_EQ(MakeWgmmaDescriptor(0x100, 128, 256, Swizzle::kNone), 0x0000001000080010u);
  EXPECT_EQ(MakeWgmmaDescriptor(0x100, 0, 512, Swizzle::k64B) >> 62, 2u);
  EXPECT_EQ(MakeWgmmaDescriptor(0x100, 0, 256, Swizzle::k32B) >> 62, 3u);
}

}  // namespace
}  // namespace gemmd::ptx
