// The sums of a warp's tile, in the order of the family whose product it is.
//
// The tile is blocks of 16 x 16. A lane has a block's rows 2 * (lane / 4) and the one after, which
// are an instruction's rows lane / 4 and lane / 4 + 8, and columns 4 * (lane % 4) to 3 after, which
// are columns lane % 4 * 2 and the one after of two instructions, by turns. So the lines that it
// reads are neighbours, and so are its elements of D.
#pragma once

#include <type_traits>

#include "kernels/epilogue/arithmetic.h"
#include "kernels/hopper/common/compensated_sum.h"
#include "kernels/hopper/f32/parts.h"
#include "kernels/hopper/small/lines.h"
#include "kernels/ptx/mma_sync.h"
#include "kernels/ptx/mma_sync_f64.h"

namespace gemmd::hopper::small {
inline namespace GEMMD_BACKEND {

// Element e of a lane's four columns: the instruction and its accumulator of row i.
GEMMD_DEVICE constexpr int InstructionOf(int e) { return e % 2; }
GEMMD_DEVICE constexpr int AccumulatorOf(int i, int e) { return 2 * i + e / 2; }

// Accumulators of kRows x kColumns blocks, zeros to begin with.
template <class T, int kRows, int kColumns>
struct Tile {
  T sum[kRows][2 * kColumns][4];

  GEMMD_DEVICE Tile() {
    ForEach([](T& x) { x = 0; });
  }
  template <class Function>
  GEMMD_DEVICE void ForEach(const Function& function) {
    ForEachOf(*this, function);
  }
  template <class Function>
  GEMMD_DEVICE void ForEach(const Function& function) const {
    ForEachOf(*this, function);
  }

 private:
  template <class Self, class Function>
  static GEMMD_DEVICE void ForEachOf(Self& self, const Function& function) {
    GEMMD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      GEMMD_UNROLL
      for (int j = 0; j < 2 * kColumns; ++j) {
        GEMMD_UNROLL
        for (int e = 0; e < 4; ++e) function(self.sum[i][j][e]);
      }
    }
  }
};

// A step of K as it was read.
template <class T, int kRows, int kColumns>
struct Step {
  LaneLines<T> rows[kRows];
  LaneLines<T> columns[kColumns];
};

// A family's numbers have
//   Storage, Narrow, kIsOrdered   an element, how D's is made, whether K's order in a step matters
//   kStageK                       K of a stage, 128 bytes of a line
//   Add(read, steps)              adds a stage's first `steps` steps; read(i) is the i-th
//   Finish()                      the sums, once all of K was added

// f16 and bf16 as kernels/hopper/half: one chain of steps of 16. A step's products are added at
// once, so that their order is free.
template <bool kIsBf16, int kRows_, int kColumns_>
class HalfNumbers {
 public:
  using Storage = std::uint16_t;
  using Narrow = std::conditional_t<kIsBf16, epilogue::Bf16, epilogue::F16>;
  using Sums = Tile<float, kRows_, kColumns_>;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr bool kIsOrdered = false;
  static constexpr int kStageK = 64;

  template <class Read>
  GEMMD_DEVICE void Add(const Read& read, int steps) {
    GEMMD_UNROLL
    for (int i = 0; i < kStageK / kBlock; ++i) {
      if (i < steps) Multiply(read(i));
    }
  }
  GEMMD_DEVICE Sums& Finish() { return sums_; }

 private:
  GEMMD_DEVICE void Multiply(const Step<Storage, kRows, kColumns>& step) {
    GEMMD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const auto& rows = step.rows[i].pair;
      const std::uint32_t a[4] = {rows[0][0], rows[1][0], rows[0][1], rows[1][1]};
      GEMMD_UNROLL
      for (int j = 0; j < 2 * kColumns; ++j) {
        const auto& b = step.columns[j / 2].pair[j % 2];
        if constexpr (kIsBf16) {
          ptx::MmaBf16(sums_.sum[i][j], a, b);
        } else {
          ptx::MmaF16(sums_.sum[i][j], a, b);
        }
      }
    }
  }

  Sums sums_;
};

// f64 as kernels/hopper/f64: one chain of fused multiply-adds over ascending k.
template <int kRows_, int kColumns_>
class F64Numbers {
 public:
  using Storage = double;
  using Narrow = epilogue::F64;
  using Sums = Tile<double, kRows_, kColumns_>;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr bool kIsOrdered = true;
  static constexpr int kStageK = 16;

  template <class Read>
  GEMMD_DEVICE void Add(const Read& read, int /*steps*/) {
    const Step<double, kRows, kColumns> step = read(0);
    GEMMD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      double a[8];
      GEMMD_UNROLL
      for (int e = 0; e < 8; ++e) a[e] = step.rows[i].line[e % 2][e / 2];
      GEMMD_UNROLL
      for (int j = 0; j < 2 * kColumns; ++j) {
        ptx::MmaF64Rows16<16>(sums_.sum[i][j], a, step.columns[j / 2].line[j % 2]);
      }
    }
  }
  // A sum of zeros is +0, whatever K was filled up with.
  GEMMD_DEVICE Sums& Finish() {
    sums_.ForEach([](double& sum) { sum += 0.0; });
    return sums_;
  }

 private:
  Sums sums_;
};

// f32 as kernels/hopper/f32: three bf16 parts of each element, six products of parts for each 32 of
// K, small ones first, and compensated sums of these.
template <int kRows_, int kColumns_>
class F32Numbers {
 public:
  using Storage = float;
  using Narrow = epilogue::F32;
  using Sums = Tile<float, kRows_, kColumns_>;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr bool kIsOrdered = false;
  static constexpr int kStageK = 32;

  template <class Read>
  GEMMD_DEVICE void Add(const Read& read, int steps) {
    // A second step past K would add zeros. Where there is one, no branch parts the products.
    if (steps > 1) {
      AddSteps<2>(read);
    } else {
      AddSteps<1>(read);
    }
  }
  GEMMD_DEVICE Sums& Finish() {
    GEMMD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      GEMMD_UNROLL
      for (int j = 0; j < 2 * kColumns; ++j) {
        GEMMD_UNROLL
        for (int e = 0; e < 4; ++e) {
          sums_.sum[i][j][e] = (sums_.sum[i][j][e] + rest_.sum[i][j][e]) * f32::kUnscale;
        }
      }
    }
    return sums_;
  }

 private:
  // A step's parts, as mma.sync takes them.
  struct Parts {
    std::uint32_t a[kRows][f32::kParts][4];
    std::uint32_t b[2 * kColumns][f32::kParts][2];
  };

  static GEMMD_DEVICE void Split(const Step<float, kRows, kColumns>& step, Parts& parts) {
    GEMMD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      GEMMD_UNROLL
      for (int x = 0; x < 4; ++x) {
        const auto& row = step.rows[i].line[x % 2];
        const f32::PartWords words = f32::SplitPair(row[x / 2 * 2], row[x / 2 * 2 + 1]);
        GEMMD_UNROLL
        for (int part = 0; part < f32::kParts; ++part) parts.a[i][part][x] = words.word[part];
      }
    }
    GEMMD_UNROLL
    for (int j = 0; j < 2 * kColumns; ++j) {
      GEMMD_UNROLL
      for (int x = 0; x < 2; ++x) {
        const auto& column = step.columns[j / 2].line[j % 2];
        const f32::PartWords words = f32::SplitPair(column[2 * x], column[2 * x + 1]);
        GEMMD_UNROLL
        for (int part = 0; part < f32::kParts; ++part) parts.b[j][part][x] = words.word[part];
      }
    }
  }

  template <int kSteps, class Read>
  GEMMD_DEVICE void AddSteps(const Read& read) {
    constexpr int kTerms[6][2] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};  // of A and B
    Parts parts[kSteps];
    GEMMD_UNROLL
    for (int step = 0; step < kSteps; ++step) Split(read(step), parts[step]);
    GEMMD_UNROLL
    for (const auto& term : kTerms) {
      GEMMD_UNROLL
      for (int step = 0; step < kSteps; ++step) MultiplyTerm(parts[step], term[0], term[1]);
    }
    GEMMD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      GEMMD_UNROLL
      for (int j = 0; j < 2 * kColumns; ++j) hopper::AddRest(sums_.sum[i][j], rest_.sum[i][j]);
    }
  }

  GEMMD_DEVICE void MultiplyTerm(const Parts& parts, int of_a, int of_b) {
    GEMMD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      GEMMD_UNROLL
      for (int j = 0; j < 2 * kColumns; ++j) {
        ptx::MmaBf16(rest_.sum[i][j], parts.a[i][of_a], parts.b[j][of_b]);
      }
    }
  }

  Sums sums_;
  Sums rest_;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::small
