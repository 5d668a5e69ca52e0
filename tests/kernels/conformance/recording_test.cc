// Tests how vectors are recorded and compared, with the emulator on both sides.
#include "tests/kernels/conformance/recording.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/kernels/conformance/random_bits.h"
#include "tests/kernels/conformance/tcgen05_form.h"
#include "tests/kernels/conformance/tensor_copy_cases.h"

namespace gemmd::conformance {
namespace {

// A set of that name with few blocks, so that all of it is quick.
VectorSet Small(const std::string& name, std::uint32_t blocks) {
  for (const Card card : kCards) {
    for (VectorSet set : EmulatedVectorSets(card)) {
      if (set.name != name) continue;
      set.blocks = blocks;
      return set;
    }
  }
  ADD_FAILURE() << "no set " << name;
  return {};
}

Recording Record(const VectorSet& set) {
  const absl::StatusOr<SetHashes> hashes = RecordSet(set, EmulatedMemory().get());
  EXPECT_TRUE(hashes.ok()) << hashes.status();
  const absl::StatusOr<Recording> recording =
      ParseRecording("# somewhere; 2026-01-02\n" + ToText(set.name, *hashes));
  EXPECT_TRUE(recording.ok()) << recording.status();
  return *recording;
}

TEST(Recording, WhatWasRecordedReplaysEqual) {
  for (const char* name :
       {"mma_m16n8k16_bf16_f32", "ldmatrix_stmatrix", "cvt_f16x2_bf16x2", "wgmma_m64n24k16_f16_f32",
        "wgmma_m64n64k16_bf16_f32_a_registers", "tma_load_store", "mma_m16n8k32_mx_e5m2_e4m3",
        "tcgen05_mma_f16_f16_n24", "tcgen05_mma_mxf4nvf4_e4m3_n8"}) {
    const VectorSet set = Small(name, 16);
    const Recording recording = Record(set);
    EXPECT_EQ(recording.head, "somewhere; 2026-01-02");
    for (const Extent extent : {Extent::kFirstBlocks, Extent::kFirstGroup, Extent::kAll}) {
      EXPECT_EQ(ReplaySet(set, recording, extent, EmulatedMemory().get()), "");
    }
  }
}

TEST(Recording, ADifferenceIsNamedByItsBlock) {
  const VectorSet set = Small("mma_m16n8k16_f16_f32", 32);
  Recording recording = Record(set);
  recording.sets[set.name].groups[7] ^= 1;
  EXPECT_EQ(ReplaySet(set, recording, Extent::kAll, EmulatedMemory().get()),
            "mma_m16n8k16_f16_f32: some of blocks 14 to 15 differ");
  EXPECT_EQ(ReplaySet(set, recording, Extent::kFirstBlocks, EmulatedMemory().get()), "");
  recording.sets[set.name].first[3] ^= 1;
  EXPECT_EQ(ReplaySet(set, recording, Extent::kFirstBlocks, EmulatedMemory().get()),
            "mma_m16n8k16_f16_f32, block 3, instruction 0, thread 0, word 0, operands special: "
            "differs");
  EXPECT_EQ(
      ReplaySet(Small("ldmatrix_stmatrix", 16), recording, Extent::kAll, EmulatedMemory().get()),
      "ldmatrix_stmatrix is not in the recording");
}

TEST(Recording, TheFirstDifferentResultIsNamedWhereAllAreKept) {
  const VectorSet set = Small("mma_m16n8k16_f16_f32", 16);
  absl::StatusOr<std::vector<std::uint32_t>> words = RunInFull(set, 1, EmulatedMemory().get());
  ASSERT_TRUE(words.ok()) << words.status();
  ASSERT_EQ(words->size(), 128u * 32 * 4);
  EXPECT_EQ(FirstDifference(set, 1, *words, *words), "");
  std::vector<std::uint32_t> changed = *words;
  (*words)[1234] = 5;
  changed[1234] = 4;
  changed[5000] ^= 1;
  EXPECT_EQ(FirstDifference(set, 1, changed, *words),
            "mma_m16n8k16_f16_f32, block 1, instruction 9, thread 20, word 2, operands wide: "
            "recorded 00000004, computed 00000005; 2 of 16384 words differ");
}

// A hash covers the words that a dump holds.
TEST(Recording, ABlocksHashIsThatOfItsResults) {
  const VectorSet set = Small("wgmma_m64n16k16_bf16_f32", 16);
  const auto hashes = RunBlocks(set, 2, 1, EmulatedMemory().get());
  const auto words = RunInFull(set, 2, EmulatedMemory().get());
  ASSERT_TRUE(hashes.ok() && words.ok());
  const std::uint64_t sum = HashWords(*words);
  EXPECT_EQ(hashes->front(), BlockHash(&sum, 1));
}

// The file of a rehearsal is read as a card's is, by its few blocks.
TEST(Recording, ARehearsalSaysHowManyBlocksItHas) {
  VectorSet set = Small("ldmatrix_stmatrix", 16);
  const absl::StatusOr<SetHashes> hashes = RecordSet(set, EmulatedMemory().get());
  ASSERT_TRUE(hashes.ok()) << hashes.status();
  const auto replay = [&](const std::string& head) {
    const absl::StatusOr<Recording> recording =
        ParseRecording(head + "\n" + ToText(set.name, *hashes));
    EXPECT_TRUE(recording.ok()) << recording.status();
    set.blocks = 32;
    return ReplaySet(set, *recording, Extent::kAll, EmulatedMemory().get());
  };
  EXPECT_EQ(replay("# kernels/emulator, sm_100, 16 blocks a set; 2027-01-02"), "");
  const std::string differs = "ldmatrix_stmatrix: some of blocks 0 to 1 differ";
  EXPECT_EQ(replay("# kernels/emulator, sm_100; 2027-01-02"), differs);
  EXPECT_EQ(replay("# kernels/emulator, sm_100, 17 blocks a set; 2027-01-02"), differs);
  EXPECT_EQ(replay("# kernels/emulator, sm_100, 0 blocks a set; 2027-01-02"), differs);
}

TEST(Recording, RefusesWhatIsNoRecording) {
  EXPECT_EQ(ParseRecording("x first 1 2").status().message(), "not a recording: x first 1 2");
  EXPECT_FALSE(ParseRecording("x last 1 2 3 4 5 6 7 8").ok());
  EXPECT_FALSE(ParseRecording("x first 1 2 3 4 5 6 7 g").ok());
}

TEST(VectorSets, NamesAndNumbersAreTheirOwn) {
  std::map<std::string, std::uint32_t> numbers;  // alike on every card that has the set
  std::set<std::uint32_t> all;
  for (const Card card : kCards) {
    const std::vector<VectorSet> sets = EmulatedVectorSets(card);
    std::set<std::string> names;
    for (const VectorSet& set : sets) {
      names.insert(set.name);
      EXPECT_EQ(numbers.insert({set.name, set.number}).first->second, set.number) << set.name;
      all.insert(set.number);
      EXPECT_LT(set.number, 1u << 16) << set.name;
      EXPECT_EQ(set.blocks % kGroups, 0u) << set.name;
      if (set.name.find("mma") == std::string::npos) continue;
      EXPECT_GE(set.blocks * set.instructions, 100000u) << set.name;
    }
    EXPECT_EQ(names.size(), sets.size());
  }
  EXPECT_EQ(all.size(), numbers.size());
}

TEST(VectorSets, TheHeadOfARecordingSaysWhoseTheyAre) {
  EXPECT_EQ(CardOf("NVIDIA H200, sm_90, driver for CUDA 13.0; 2026-11-30"), Card::kSm90);
  EXPECT_EQ(CardOf("NVIDIA B200, sm_100, driver for CUDA 13.0; 2027-01-02"), Card::kSm100);
  EXPECT_EQ(CardOf("kernels/emulator, sm_120, 16 blocks a set; 2027-01-02"), Card::kSm120);
  EXPECT_EQ(CardOf("somewhere; 2026-01-02"), absl::nullopt);
  EXPECT_EQ(CardOf("a card, sm_1000; 2026-01-02"), absl::nullopt);
}

TEST(Tcgen05Sets, NumbersSayWhatTheyAre) {
  int sets = 0;
  for (const VectorSet& set : EmulatedVectorSets(Card::kSm100)) {
    if (set.number < kTcgen05Sets) continue;
    ++sets;
    const Tcgen05Set decoded = Tcgen05SetOf(set.number);
    EXPECT_EQ(NumberOf(decoded), set.number) << set.name;
    EXPECT_NE(set.name.find(absl::StrCat("_n", decoded.columns)), std::string::npos) << set.name;
    EXPECT_EQ(decoded.is_pair, absl::EndsWith(set.name, "_pair")) << set.name;
    EXPECT_EQ(set.words, decoded.columns / (decoded.sums_f16 ? 2 : 1)) << set.name;
  }
  EXPECT_EQ(sets, 69);
}

// The emulator refuses what the PTX ISA does not have, and reports what is not ordered. Sets go
// through the classes of operands in turn.
TEST(Tcgen05Sets, EachRuns) {
  std::set<std::uint64_t> hashes;
  std::uint32_t runs = 0;
  for (const VectorSet& set : EmulatedVectorSets(Card::kSm100)) {
    if (set.number < kTcgen05Sets) continue;
    const auto run = RunBlocks(set, runs++ % kOperandClasses, 1, EmulatedMemory().get());
    ASSERT_TRUE(run.ok()) << set.name << ": " << run.status();
    hashes.insert(run->front());
  }
  EXPECT_EQ(hashes.size(), runs);
}

// Every value of what is drawn, and none that the PTX ISA does not have.
TEST(Tcgen05Sets, DrawEveryForm) {
  std::set<std::string> half;
  std::set<std::string> mx;
  std::set<std::string> fp4;
  const auto draw = [](const Tcgen05Set& set, std::set<std::string>* seen) {
    for (std::uint32_t i = 0; i < 4000; ++i) {
      const Tcgen05Form form = FormOf(set, KeyOf(NumberOf(set), i / 16, i % 16));
      for (const auto& [name, lines] :
           {std::pair<const char*, const Tcgen05Lines&>{"A ", form.a}, {"B ", form.b}}) {
        seen->insert(absl::StrCat(name, lines.is_mn_major ? "MN " : "K ", lines.span, " from ",
                                  lines.start));
        ASSERT_LE(lines.bytes, name[0] == 'A' ? 16u * 1024 : 32u * 1024);
      }
      seen->insert(absl::StrCat("M ", form.rows, " lane ", form.lane));
      seen->insert(absl::StrCat("ids ", form.a_scale_id, form.b_scale_id));
      seen->insert(absl::StrCat("signs ", form.negate_a, form.negate_b));
      seen->insert(absl::StrCat("adds ", form.accumulates));
      seen->insert(absl::StrCat("read ", form.loads_16x256b));
    }
  };
  Tcgen05Set set;
  set.columns = 256;
  draw(set, &half);
  // A and B have 8 K-major layouts each (1, 1, 2 and 4 starts) and 4 MN-major ones. Then there are
  // three places of D, 16 ids, which f16 does not use, four signs, two ways to add, two to read.
  EXPECT_EQ(half.size(), 2u * (8 + 4) + 3 + 16 + 4 + 2 + 2);
  set.kind = Tcgen05Kind::kMxf8f6f4;
  draw(set, &mx);
  EXPECT_EQ(mx.size(), 2u * (8 + 4) + 1 + 16 + 4 + 2 + 2);
  set.a_type = 4;  // e2m1 is K-major
  set.b_type = 3;
  set.kind = Tcgen05Kind::kMxf4;
  draw(set, &fp4);
  EXPECT_EQ(fp4.size(), 2u * 8 + 1 + 4 + 4 + 2 + 2);
}

// The sums of an instruction are those of its operands: D is no constant, and mostly numbers.
TEST(Tcgen05Sets, ResultsDiffer) {
  for (const char* name :
       {"tcgen05_mma_bf16_f32_n64", "tcgen05_mma_mx_e4m3_e4m3_n64", "tcgen05_mma_mx_e2m3_e3m2_n64",
        "tcgen05_mma_mxf4_n64", "tcgen05_mma_mxf4nvf4_e8m0_n64"}) {
    const VectorSet set = Small(name, 16);
    const auto words = RunInFull(set, 0, EmulatedMemory().get());
    ASSERT_TRUE(words.ok()) << words.status();
    std::set<std::uint32_t> distinct(words->begin(), words->end());
    EXPECT_GT(distinct.size(), words->size() / 4) << name;
    EXPECT_EQ(distinct.count(0x7fffffff), 0u) << name << ": NaN of operands of class normal";
  }
}

TEST(Tcgen05Sets, ADifferenceIsDescribed) {
  const VectorSet set = Small("tcgen05_mma_mx_e4m3_e5m2_n32_pair", 16);
  absl::StatusOr<std::vector<std::uint32_t>> words = RunInFull(set, 1, EmulatedMemory().get());
  ASSERT_TRUE(words.ok()) << words.status();
  ASSERT_EQ(words->size(), 256u * 32 * 16);
  std::vector<std::uint32_t> changed = *words;
  changed[256 * 32 * 3 + 32 * 130 + 7] ^= 1;
  const std::string text = FirstDifference(set, 1, changed, *words);
  EXPECT_NE(text.find("block 1, instruction 3, thread 130, word 7, operands wide; M 256, A "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("; 1 of 131072 words differ"), std::string::npos) << text;
}

// Counts what random operands are meant to contain.
TEST(RandomBits, ClassesHoldWhatTheyAreNamedFor) {
  int nans = 0;
  int infinities = 0;
  int zeros = 0;
  int subnormals = 0;
  std::set<std::uint32_t> exponents;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const auto random = static_cast<std::uint32_t>(RandomBits(1, i));
    const std::uint32_t special = RandomHalf(false, OperandClass::kSpecial, false, random);
    nans += (special & 0x7fff) > 0x7c00;
    infinities += (special & 0x7fff) == 0x7c00;
    zeros += (special & 0x7fff) == 0;
    const std::uint32_t tiny = RandomHalf(true, OperandClass::kSubnormal, false, random);
    subnormals += (tiny & 0x7f80) == 0 && (tiny & 0x7f) != 0;
    exponents.insert(RandomHalf(true, OperandClass::kWide, false, random) >> 7 & 255);
  }
  EXPECT_GT(nans, 100);
  EXPECT_GT(infinities, 100);
  EXPECT_GT(zeros, 100);
  EXPECT_GT(subnormals, 5000);
  EXPECT_EQ(exponents.size(), 255u) << "every finite exponent of bf16";
}

TEST(TensorCopyCases, CrossEveryEdgeAndStayLegal) {
  int before = 0;
  int past = 0;
  int outside = 0;
  int clipped = 0;
  for (std::uint32_t number = 0; number < 1024; ++number) {
    const RandomCopy copy = MakeRandomCopy(20, number);
    const auto columns = static_cast<std::int32_t>(copy.columns);
    const auto rows = static_cast<std::int32_t>(copy.rows);
    const auto width = static_cast<std::int32_t>(copy.box[0]);
    const auto height = static_cast<std::int32_t>(copy.box[1]);
    const std::uint32_t size = copy.element_bytes();
    ASSERT_EQ(copy.load[0] * static_cast<std::int32_t>(size) % 16, 0);
    ASSERT_GE(copy.store[0], 0);
    ASSERT_GE(copy.store[1], 0);
    ASSERT_LE(copy.box_bytes(), kMostBoxBytes);
    ASSERT_LE(copy.pitch * copy.rows, kMostTensorBytes);
    before += copy.load[0] < 0 || copy.load[1] < 0;
    past += copy.load[0] + width > columns || copy.load[1] + height > rows;
    outside += copy.load[0] >= columns || copy.load[1] >= rows || copy.load[0] + width <= 0 ||
               copy.load[1] + height <= 0;
    clipped += copy.columns * size % 16 != 0 && copy.store[0] < columns &&
               copy.store[0] + width > columns && copy.store[1] < rows;
  }
  EXPECT_GT(before, 100);
  EXPECT_GT(past, 100);
  EXPECT_GT(outside, 50);
  EXPECT_GT(clipped, 100);
}

}  // namespace
}  // namespace gemmd::conformance
