// Tests tcgen05's descriptors and the places of its data, against a second model of both.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/emulator/instructions/matrix_operand.h"
#include "kernels/emulator/instructions/tensor_memory.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tcgen05.h"
#include "tests/kernels/emulator/tcgen05_model.h"

namespace gemmd::testing {
namespace {

using ptx::Major;
using ptx::Swizzle;

constexpr std::uint32_t kSharedBytes = 112 * 1024;
constexpr std::uint32_t kB = 56 * 1024;  // offset of B
constexpr std::uint32_t kEnd = 111 * 1024;
constexpr Swizzle kSwizzles[] = {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B};

TEST(Tcgen05Descriptors, HaveTheirFieldsWhereTheTableSays) {
  constexpr std::uint64_t kCodes[] = {0, 6, 4, 2};
  for (int i = 0; i < 4; ++i) {
    for (const std::uint32_t address : {0u, 1024u, 0x1c400u, 0x3fc00u}) {
      const ModelDescriptor model(
          ptx::MakeTcgen05Descriptor(address | 1u << 24, 0x120, 0x3fff0, kSwizzles[i]));
      EXPECT_EQ(model.start, address);
      EXPECT_EQ(model.leading, 0x120u);
      EXPECT_EQ(model.stride, 0x3fff0u);
      EXPECT_EQ(model.constant, 1u);
      EXPECT_EQ(model.base_offset, 0u);
      EXPECT_EQ(model.is_absolute, 0u);
      EXPECT_EQ(model.zero, 0u);
      EXPECT_EQ(model.swizzle, kCodes[i]);
    }
  }
}

TEST(Tcgen05Descriptors, SayWhatTheInstructionIs) {
  for (std::uint32_t flags = 0; flags < 64; ++flags) {
    for (const int rows : {64, 128, 256}) {
      for (const int columns : {8, 64, 248, 256}) {
        ptx::Tcgen05Form form;
        form.type = static_cast<ptx::Tcgen05Type>(flags & 1);
        form.accumulator = static_cast<ptx::Tcgen05Accumulator>(flags >> 1 & 1);
        form.a_major = static_cast<Major>(flags >> 2 & 1);
        form.b_major = static_cast<Major>(flags >> 3 & 1);
        form.negate_a = (flags >> 4 & 1) != 0;
        form.negate_b = (flags >> 5 & 1) != 0;
        form.rows = rows;
        form.columns = columns;
        const ModelInstruction model(ptx::MakeTcgen05Instruction(form));
        EXPECT_EQ(model.a_type, flags & 1);
        EXPECT_EQ(model.b_type, flags & 1);
        EXPECT_EQ(model.d_type, flags >> 1 & 1);
        EXPECT_EQ(model.transpose_a, flags >> 2 & 1);
        EXPECT_EQ(model.transpose_b, flags >> 3 & 1);
        EXPECT_EQ(model.negate_a, flags >> 4 & 1);
        EXPECT_EQ(model.negate_b, flags >> 5 & 1);
        EXPECT_EQ(model.m, static_cast<std::uint64_t>(rows));
        EXPECT_EQ(model.n, static_cast<std::uint64_t>(columns));
        EXPECT_EQ(model.sparsity + model.saturate + model.reserved, 0u);
      }
    }
  }
}

// ------------------------------------------------------------ operands in shared memory

// A layout with room between its parts, which is not where the next part would lie by chance.
ModelOperand MakeOperand(Swizzle swizzle, Major major, std::uint32_t element_bytes,
                         std::uint32_t lines, std::uint32_t start) {
  const auto span = static_cast<std::uint32_t>(swizzle);
  ModelOperand operand = {};
  operand.bits = span == 0 ? 0 : span == 32 ? 1 : span == 64 ? 2 : 3;
  operand.is_mn_major = major == Major::kMn;
  operand.element_bytes = element_bytes;
  operand.start = start;
  const std::uint32_t k_groups = 32 / element_bytes / 8;
  if (span == 0) {
    operand.stride = operand.is_mn_major ? k_groups * 144 + 32 : 144;
    operand.leading = operand.is_mn_major ? 144 : lines / 8 * 144 + 48;
  } else if (operand.is_mn_major) {
    operand.stride = 8 * span;
    operand.leading = (k_groups + 1) * 8 * span;
  } else {
    operand.stride = 2 * 8 * span;
    operand.leading = 16;
  }
  return operand;
}

// The words of a block's shared memory that hold something.
struct Image {
  std::vector<std::uint32_t> words = std::vector<std::uint32_t>(kSharedBytes / 4);
  std::vector<std::uint8_t> is_set = std::vector<std::uint8_t>(kSharedBytes / 4);

  void Set(std::uint32_t offset, const void* element, std::uint32_t bytes) {
    is_set.at((offset + bytes - 1) / 4) = 1;
    std::memcpy(reinterpret_cast<unsigned char*>(words.data()) + offset, element, bytes);
  }
  // Called by all threads of a block.
  void Store() const {
    for (std::uint32_t i = ptx::ThreadIndex(); i < words.size(); i += 128) {
      if (is_set[i] != 0) ptx::StoreShared(ptx::SharedBase() + 4 * i, words[i]);
    }
  }
};

emulator::Report Run(int blocks, const std::vector<emulator::Buffer>& buffers,
                     const std::function<void()>& kernel, std::uint64_t seed = 1) {
  emulator::LaunchRequest request;
  request.kernel = "layouts";
  request.threads = 128;
  request.grid.x = static_cast<std::uint32_t>(blocks);
  request.cluster_size = static_cast<std::uint32_t>(blocks);
  request.shared_bytes = kSharedBytes;
  request.buffers = buffers;
  emulator::Options options;
  options.seed = seed;
  return emulator::Launch(request, options, kernel);
}

template <typename Element>
void ExpectDecoded(Swizzle swizzle, Major major) {
  constexpr std::uint32_t kLines = 64;
  constexpr std::uint32_t kDepth = 32 / sizeof(Element);
  const ModelOperand model = MakeOperand(swizzle, major, sizeof(Element), kLines, 0);
  const auto value = [](std::uint32_t line, std::uint32_t k) {
    return static_cast<Element>((line * 64 + k) * 2654435761u >> 7);
  };
  Image image;
  for (std::uint32_t line = 0; line < kLines; ++line) {
    for (std::uint32_t k = 0; k < kDepth; ++k) {
      const Element element = value(line, k);
      image.Set(model.Address(line, k), &element, sizeof element);
    }
  }
  int different = 0;
  const emulator::Report report = Run(1, {}, [&] {
    image.Store();
    ptx::SyncThreads();
    if (ptx::ThreadIndex() != 0) return;
    const emulator::CallSite site;
    const emulator::OperandForm form = {sizeof(Element), major == Major::kMn};
    emulator::Cluster& cluster = *emulator::CurrentThread().block->cluster;
    const std::uint64_t wgmma =
        ptx::MakeWgmmaDescriptor(ptx::SharedBase(), model.leading, model.stride, swizzle);
    const std::uint64_t tcgen05 =
        ptx::MakeTcgen05Descriptor(ptx::SharedBase(), model.leading, model.stride, swizzle);
    for (const emulator::MatrixOperand& operand :
         {emulator::DecodeWgmmaMatrix(wgmma, form, 0, site),
          emulator::DecodeTcgen05Matrix(tcgen05, form, 0, site)}) {
      const auto lines = emulator::LoadLines<Element>(cluster, operand, kLines);
      for (std::uint32_t line = 0; line < kLines; ++line) {
        for (std::uint32_t k = 0; k < kDepth; ++k) different += lines[line][k] != value(line, k);
      }
    }
  });
  EXPECT_TRUE(report.ok()) << report.message;
  EXPECT_EQ(different, 0) << "swizzle " << static_cast<int>(swizzle) << ", MN-major "
                          << static_cast<int>(major) << ", " << sizeof(Element) << " bytes";
}

TEST(Tcgen05Operands, LieWhereTheCanonicalLayoutsSay) {
  for (const Swizzle swizzle : kSwizzles) {
    for (const Major major : {Major::kK, Major::kMn}) {
      ExpectDecoded<std::uint8_t>(swizzle, major);
      ExpectDecoded<std::uint16_t>(swizzle, major);
    }
    ExpectDecoded<std::uint32_t>(swizzle, Major::kK);
  }
}

// ------------------------------------------------------------ registers

// Gives every cell a word, as a product does that was complete before the kernel began: no kernel
// can, since a product's sums are not any bits.
template <typename F>
void FillTensorMemory(const F& value) {
  emulator::Block& block = *emulator::CurrentThread().block;
  for (emulator::TensorCell& cell : emulator::TensorMemoryOf(block).cells) {
    cell.by = emulator::TensorCell::Writer::kProduct;
  }
  for (std::uint32_t column = 0; column < emulator::kTensorColumns; ++column) {
    for (std::uint32_t lane = 0; lane < emulator::kTensorLanes; ++lane) {
      emulator::TensorWord(block, lane, column) = value(lane, column);
    }
  }
}

// Every cell has a value of its own, which loads of either shape must find.
template <int kCount, bool kPacked>
void ExpectFragments() {
  std::vector<std::uint32_t> wrong(1);
  const emulator::Report report = Run(1, {{wrong.data(), 4, "wrong", false}}, [&] {
    const std::uint32_t thread = ptx::ThreadIndex();
    const std::uint32_t first = thread / 32 * 32;
    if (first == 0) ptx::Tcgen05Alloc(ptx::SharedBase(), 512);
    ptx::SyncThreads();
    const auto base = ptx::LoadShared<std::uint32_t>(ptx::SharedBase());
    // The low half differs between all lanes and columns; the high one is not read where packed.
    const auto value = [](std::uint32_t lane, std::uint32_t column) {
      const std::uint32_t number = lane << 9 | column;
      return number | ~number << 16;
    };
    if (thread == 0) FillTensorMemory(value);
    ptx::SyncThreads();
    int different = 0;
    const auto compare = [&](const std::uint32_t(&words)[kCount], std::uint32_t lane,
                             bool is_half) {
      for (std::uint32_t i = 0; i < kCount; ++i) {
        const ModelCell cell = ModelFragment(is_half, thread % 32, i);
        const std::uint32_t at = lane + cell.lane;
        const std::uint32_t expected =
            kPacked ? (value(at, 2 * cell.column) & 0xffff) | value(at, 2 * cell.column + 1) << 16
                    : value(at, cell.column);
        different += words[i] != expected;
      }
    };
    std::uint32_t words[kCount];
    ptx::Tcgen05Load32x32b<kCount, kPacked>(words, base + ptx::TensorLane(first));
    ptx::Tcgen05WaitLoad();
    compare(words, first, false);
    for (const std::uint32_t lane : {first, first + 16}) {
      ptx::Tcgen05Load16x256b<kCount, kPacked>(words, base + ptx::TensorLane(lane));
      ptx::Tcgen05WaitLoad();
      compare(words, lane, true);
    }
    ptx::Tcgen05FenceBefore();
    ptx::SyncThreads();
    if (different != 0) ptx::StoreGlobal(wrong.data(), 1u);
    if (first == 0) ptx::Tcgen05Dealloc(base, 512);
  });
  EXPECT_TRUE(report.ok()) << report.message;
  EXPECT_EQ(wrong[0], 0u) << kCount << (kPacked ? " packed" : "");
}

TEST(Tcgen05Fragments, LieWhereTheFiguresSay) {
  ExpectFragments<4, false>();
  ExpectFragments<8, false>();
  ExpectFragments<16, false>();
  ExpectFragments<32, false>();
  ExpectFragments<64, false>();
  ExpectFragments<128, false>();
  ExpectFragments<4, true>();
  ExpectFragments<16, true>();
  ExpectFragments<128, true>();
}

// ------------------------------------------------------------ products

struct ProductCase {
  int blocks = 1;
  std::uint32_t rows = 64;
  std::uint32_t columns = 32;
  Swizzle swizzle = Swizzle::kNone;
  Major a_major = Major::kK;
  Major b_major = Major::kK;
  bool negate_a = false;
  bool negate_b = false;
  bool f16_sums = false;
  std::uint32_t flipped = 0;  // bits of the instruction descriptor
};

// Small whole numbers, so that sums are exact in any format.
int Factor(std::uint32_t line, std::uint32_t k, int operand) {
  return static_cast<int>((line * 5 + k * 11 + static_cast<std::uint32_t>(operand) * 5) % 13) - 6;
}

void Fill(Image* image, const ModelOperand& model, std::uint32_t lines, std::uint32_t first,
          int operand) {
  for (std::uint32_t line = 0; line < lines; ++line) {
    for (std::uint32_t k = 0; k < 16; ++k) {
      const auto value = static_cast<float>(Factor(first + line, k, operand));
      const std::uint16_t bits = emulator::Narrow(emulator::HalfFormat::kF16, value);
      image->Set(model.Address(line, k), &bits, sizeof bits);
    }
  }
}

template <int kGroup>
void ProductKernel(const ProductCase& test, const std::array<Image, 2>& images,
                   const ModelOperand& a, const ModelOperand& b, std::uint32_t instruction,
                   std::uint32_t* out) {
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t warp = thread / 32;
  const std::uint32_t rank = kGroup == 2 ? ptx::RankInCluster() : 0;
  const ptx::SharedAddress base = ptx::SharedBase();
  images[rank].Store();
  if (thread == 0) {
    ptx::MbarrierInit(base + kEnd + 8, 1);
  }
  ptx::FenceProxyAsync();
  ptx::FenceMbarrierInit();
  if (kGroup == 2) ptx::ClusterSync();
  if (warp == 0) ptx::Tcgen05Alloc<kGroup>(base + kEnd, 512);
  ptx::SyncThreads();
  const auto sums = ptx::LoadShared<std::uint32_t>(base + kEnd);
  ptx::SyncThreads();
  if (kGroup == 2) ptx::ClusterSync();
  if (thread == 0 && rank == 0) {
    ptx::Tcgen05FenceAfter();
    const std::uint64_t b_descriptor =
        ptx::MakeTcgen05Descriptor(base + kB, b.leading, b.stride, test.swizzle);
    const std::uint64_t a_descriptor =
        ptx::MakeTcgen05Descriptor(base, a.leading, a.stride, test.swizzle);
    ptx::Tcgen05Multiply<kGroup>(sums, a_descriptor, b_descriptor, instruction, false);
    ptx::Tcgen05CommitMulticast<kGroup>(base + kEnd + 8, (1u << kGroup) - 1);
  }
  ptx::MbarrierWait(base + kEnd + 8, 0);
  ptx::Tcgen05FenceAfter();
  // Cell by cell: the lower half of each quarter, and the upper half where it has rows.
  const bool is_half = kGroup == 1 && test.rows == 64;
  const bool is_folded = kGroup == 2 && test.rows == 128;
  const std::uint32_t width = is_folded ? test.columns / 2 : test.columns;
  for (std::uint32_t column = 0; column < width; column += 8) {
    for (std::uint32_t half = 0; half < (is_half ? 1u : 2u); ++half) {
      std::uint32_t words[4];
      ptx::Tcgen05Load16x256b(words, sums + ptx::TensorLane(32 * warp + 16 * half) + column);
      ptx::Tcgen05WaitLoad();
      for (std::uint32_t i = 0; i < 4; ++i) {
        const ModelCell cell = ModelFragment(true, thread % 32, i);
        const std::uint32_t lane = 32 * warp + 16 * half + cell.lane;
        ptx::StoreGlobal(out + (rank * 128 + lane) * 256 + column + cell.column, words[i]);
      }
    }
  }
  ptx::Tcgen05FenceBefore();
  ptx::SyncThreads();
  if (kGroup == 2) ptx::ClusterSync();
  if (warp == 0) ptx::Tcgen05Dealloc<kGroup>(sums, 512);
}

// Counts the elements of D that are wrong, by the model; -1 where the emulator refuses.
int CountWrong(const ProductCase& test, std::string* message, std::uint64_t seed = 1) {
  const auto blocks = static_cast<std::uint32_t>(test.blocks);
  const std::uint32_t rows = test.rows / blocks;
  const std::uint32_t columns = test.columns / blocks;  // of B, in a block
  const ModelOperand a = MakeOperand(test.swizzle, test.a_major, 2, rows, 0);
  const ModelOperand b = MakeOperand(test.swizzle, test.b_major, 2, columns, kB);
  std::array<Image, 2> images;
  for (std::uint32_t rank = 0; rank < blocks; ++rank) {
    Fill(&images[rank], a, rows, rank * rows, 0);
    Fill(&images[rank], b, columns, rank * columns, 1);
  }
  ptx::Tcgen05Form form;
  form.type = ptx::Tcgen05Type::kF16;
  form.accumulator = test.f16_sums ? ptx::Tcgen05Accumulator::kF16 : ptx::Tcgen05Accumulator::kF32;
  form.rows = static_cast<int>(test.rows);
  form.columns = static_cast<int>(test.columns);
  form.a_major = test.a_major;
  form.b_major = test.b_major;
  form.negate_a = test.negate_a;
  form.negate_b = test.negate_b;
  const std::uint32_t instruction = ptx::MakeTcgen05Instruction(form) ^ test.flipped;
  std::vector<std::uint32_t> out(std::size_t{2} * 128 * 256);
  const emulator::Report report = Run(
      test.blocks, {{out.data(), out.size() * 4, "out", false}},
      [&] {
        if (test.blocks == 2) {
          ProductKernel<2>(test, images, a, b, instruction, out.data());
        } else {
          ProductKernel<1>(test, images, a, b, instruction, out.data());
        }
      },
      seed);
  *message = report.message;
  if (!report.ok()) return -1;
  int wrong = 0;
  for (std::uint32_t row = 0; row < test.rows; ++row) {
    for (std::uint32_t column = 0; column < test.columns; ++column) {
      int sum = 0;
      for (std::uint32_t k = 0; k < 16; ++k) sum += Factor(row, k, 0) * Factor(column, k, 1);
      if (test.negate_a != test.negate_b) sum = -sum;
      const ModelCell cell =
          ModelAccumulator(test.rows, test.blocks, test.columns, row % rows, column);
      const std::uint32_t word =
          out[(std::size_t{row / rows} * 128 + cell.lane) * 256 + cell.column];
      float value;
      std::memcpy(&value, &word, sizeof value);
      if (test.f16_sums) {
        value = emulator::Widen(emulator::HalfFormat::kF16, static_cast<std::uint16_t>(word));
      }
      wrong += value != static_cast<float>(sum);
    }
  }
  return wrong;
}

void ExpectRight(const ProductCase& test) {
  std::string message;
  EXPECT_EQ(CountWrong(test, &message), 0)
      << message << "; blocks " << test.blocks << ", M " << test.rows << ", N " << test.columns
      << ", swizzle " << static_cast<int>(test.swizzle) << ", MN-major "
      << static_cast<int>(test.a_major) << static_cast<int>(test.b_major);
}

class Tcgen05Products : public ::testing::TestWithParam<std::pair<int, std::uint32_t>> {};

TEST_P(Tcgen05Products, LieWhereTheDataPathsSay) {
  ProductCase test;
  test.blocks = GetParam().first;
  test.rows = GetParam().second;
  for (const Swizzle swizzle : kSwizzles) {
    test.swizzle = swizzle;
    for (const Major a_major : {Major::kK, Major::kMn}) {
      for (const Major b_major : {Major::kK, Major::kMn}) {
        test.a_major = a_major;
        test.b_major = b_major;
        // A line of an MN-major operand with a swizzle is at least a span.
        test.columns = 128;
        ExpectRight(test);
      }
    }
  }
  test.a_major = test.b_major = Major::kK;
  test.swizzle = Swizzle::k32B;
  for (const std::uint32_t columns : {16u, 48u, 256u}) {
    test.columns = columns;
    ExpectRight(test);
  }
  test.columns = 32;
  test.f16_sums = true;
  ExpectRight(test);
  test.f16_sums = false;
  test.negate_a = true;
  ExpectRight(test);
  test.negate_b = true;
  ExpectRight(test);
  test.negate_a = false;
  ExpectRight(test);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Tcgen05Products,
                         ::testing::Values(std::pair{1, 64u}, std::pair{1, 128u},
                                           std::pair{2, 128u}, std::pair{2, 256u}));

// Each field of a right descriptor matters: a wrong value is refused, or D is wrong.
TEST(Tcgen05Instructions, EachFieldMatters) {
  for (const Swizzle swizzle : {Swizzle::kNone, Swizzle::k128B}) {
    for (int bit = 0; bit < 32; ++bit) {
      ProductCase test;
      test.swizzle = swizzle;
      test.columns = 64;
      test.flipped = 1u << bit;
      // These bits select the structure of a sparse A, and are read with bit 2 alone.
      if (bit < 2) test.flipped |= 4;
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        std::string message;
        EXPECT_NE(CountWrong(test, &message, seed), 0) << "bit " << bit << ", seed " << seed;
      }
    }
  }
}

// ------------------------------------------------------------ copies

// 9.7.16.9.2, "tcgen05.cp": .32x128b.warpx4 puts 32 lines into each warp's lanes.
void ExpectCopied(Swizzle swizzle) {
  constexpr std::uint32_t kLines = 32;
  constexpr std::uint32_t kWords = 4;
  const ModelOperand model = MakeOperand(swizzle, Major::kK, 4, kLines, 0);
  Image image;
  for (std::uint32_t line = 0; line < kLines; ++line) {
    for (std::uint32_t column = 0; column < kWords; ++column) {
      const std::uint32_t value = line << 8 | column;
      image.Set(model.Address(line, column), &value, sizeof value);
    }
  }
  std::vector<std::uint32_t> wrong(1);
  const emulator::Report report = Run(1, {{wrong.data(), 4, "wrong", false}}, [&] {
    const std::uint32_t thread = ptx::ThreadIndex();
    const ptx::SharedAddress base = ptx::SharedBase();
    image.Store();
    if (thread == 0) ptx::MbarrierInit(base + kEnd + 8, 1);
    ptx::FenceProxyAsync();
    if (thread / 32 == 0) ptx::Tcgen05Alloc(base + kEnd, 32);
    ptx::SyncThreads();
    const auto to = ptx::LoadShared<std::uint32_t>(base + kEnd);
    if (thread == 0) {
      const std::uint64_t descriptor =
          ptx::MakeTcgen05Descriptor(base, model.leading, model.stride, swizzle);
      ptx::Tcgen05Copy32x128b(to, descriptor);
      ptx::Tcgen05Commit(base + kEnd + 8);
    }
    ptx::MbarrierWait(base + kEnd + 8, 0);
    ptx::Tcgen05FenceAfter();
    std::uint32_t words[kWords];
    ptx::Tcgen05Load32x32b(words, to + ptx::TensorLane(thread / 32 * 32));
    ptx::Tcgen05WaitLoad();
    for (std::uint32_t column = 0; column < kWords; ++column) {
      if (words[column] != (thread % kLines << 8 | column)) ptx::StoreGlobal(wrong.data(), 1u);
    }
    ptx::Tcgen05FenceBefore();
    ptx::SyncThreads();
    if (thread / 32 == 0) ptx::Tcgen05Dealloc(to, 32);
  });
  EXPECT_TRUE(report.ok()) << report.message;
  EXPECT_EQ(wrong[0], 0u);
}

TEST(Tcgen05Copies, GoWhereTheShapesSay) {
  for (const Swizzle swizzle : kSwizzles) ExpectCopied(swizzle);
}

}  // namespace
}  // namespace gemmd::testing
