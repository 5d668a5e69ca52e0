// A stage of an operand in shared memory: 128 bytes of K of each line, by cp.async.
#pragma once

#include "kernels/hopper/small/lines.h"
#include "kernels/ptx/copy_async.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::hopper::small {
inline namespace GEMMD_BACKEND {

inline constexpr int kStageLineBytes = 128;

// A stage is rows as they lie in memory: K of a line (kFours), or lines of an element of K
// (kPairs). Units of 16 bytes trade places within a row, so that a warp's reads, which are of every
// second line, touch each bank once (twice where a row has 64 bytes).
template <class T, Reading kReading, bool kIsOrdered, int kLines>
class OperandStage {
  static constexpr bool kIsKMajor = kReading == Reading::kFours;
  static constexpr std::uint32_t kSize = sizeof(T);
  static constexpr int kK = kStageLineBytes / static_cast<int>(kSize);
  static constexpr int kRows = kIsKMajor ? kLines : kK;
  static constexpr std::uint32_t kRowBytes = (kIsKMajor ? kK : kLines) * kSize;
  static constexpr std::uint32_t kUnits = kRowBytes / 16;  // of a row

  // By what a row's bytes are XORed. Mix(x + y) is Mix(x) ^ Mix(y) where x and y have no bit in
  // common, so that what is known to the compiler costs nothing at run time (Moved()).
  static GEMMD_DEVICE constexpr std::uint32_t Mix(std::uint32_t row) {
    if (kIsKMajor) return kSize == 4 ? row / 2 % 2 * 64 : row / 2 % 4 * 32;
    return (kIsOrdered ? row : row / 4) % (kRowBytes < 128 ? 2 : 4) * 32;
  }
  static GEMMD_DEVICE std::uint32_t PlaceOf(std::uint32_t row, std::uint32_t byte) {
    return row * kRowBytes + (byte ^ Mix(row));
  }
  // Moves a place, or an address in a stage. REQUIRES: its own row and byte share no bit with
  // these.
  static GEMMD_DEVICE constexpr std::uint32_t Moved(std::uint32_t place, std::uint32_t row,
                                                    std::uint32_t byte) {
    return (place ^ byte ^ Mix(row)) + row * kRowBytes;
  }

 public:
  static constexpr int kBytes = kLines * kStageLineBytes;

  // One of kThreads that copy stages of the lines from `first_line` on, one after another.
  template <int kThreads>
  class Copier {
    static constexpr std::uint32_t kRowsAtOnce = kThreads / kUnits;
    static constexpr int kCopies = kRows / static_cast<int>(kRowsAtOnce);
    static_assert(kThreads % kUnits == 0 && kRows % kRowsAtOnce == 0);

   public:
    GEMMD_DEVICE void Start(const void* plane, const OperandLines& lines, std::int32_t first_line,
                            std::uint32_t thread) {
      plane_ = static_cast<const char*>(plane);
      row_ = static_cast<std::int32_t>(thread / kUnits) + (kIsKMajor ? first_line : 0);
      along_ =
          static_cast<std::int32_t>(thread % kUnits * (16 / kSize)) + (kIsKMajor ? 0 : first_line);
      row_bytes_ = (kIsKMajor ? lines.line_stride : lines.k_stride) * std::int64_t{kSize};
    }

    // Issues the copies of the next stage, with zeros for elements outside.
    GEMMD_DEVICE void Copy(ptx::SharedAddress stage, const OperandLines& lines, std::int32_t all_k,
                           std::uint32_t thread) {
      const std::int32_t rows = (kIsKMajor ? lines.lines : all_k) - row_;
      const std::int32_t left = ((kIsKMajor ? all_k : lines.lines) - along_) * int{kSize};
      const std::uint32_t bytes = left < 0 ? 0 : left < 16 ? static_cast<std::uint32_t>(left) : 16;
      const char* from = plane_;
      if (bytes > 0) from += row_ * row_bytes_ + std::int64_t{along_} * kSize;
      const ptx::SharedAddress to = stage + PlaceOf(thread / kUnits, thread % kUnits * 16);
      GEMMD_UNROLL
      for (int i = 0; i < kCopies; ++i) {
        const std::uint32_t row = static_cast<std::uint32_t>(i) * kRowsAtOnce;
        const bool is_inside = static_cast<std::int32_t>(row) < rows;
        ptx::CopyAsync16(Moved(to, row, 0), is_inside ? from : plane_, is_inside ? bytes : 0);
        from += row_bytes_ * kRowsAtOnce;
      }
      (kIsKMajor ? along_ : row_) += kK;
    }

   private:
    const char* plane_;
    std::int64_t row_bytes_;
    std::int32_t row_;
    std::int32_t along_;
  };

  // A lane's place in stages. `first_line`: of the warp's, a multiple of 16 and a power of 2.
  GEMMD_DEVICE OperandStage(std::uint32_t first_line, std::uint32_t lane) {
    const std::uint32_t line = first_line + lane / 4 * 2;
    const auto k = static_cast<std::uint32_t>(PlaceOfK<kIsOrdered>(lane, 0));
    place_ = kIsKMajor ? PlaceOf(line, k * kSize) : PlaceOf(k, line * kSize);
  }

  // Reads the lane's lines of the `block`-th 16 of the warp, in a step.
  GEMMD_DEVICE LaneLines<T> Read(ptx::SharedAddress stage, int block, int step) const {
    using Two = typename LaneLines<T>::Two;
    using Four = typename LaneLines<T>::Four;
    const auto line = static_cast<std::uint32_t>(block * kBlock);
    const auto k = static_cast<std::uint32_t>(step * kBlock);
    const ptx::SharedAddress from = stage + place_;
    LaneLines<T> to;
    if constexpr (kIsKMajor) {
      GEMMD_UNROLL
      for (std::uint32_t i = 0; i < 2; ++i) {
        if constexpr (kIsOrdered) {
          GEMMD_UNROLL
          for (std::uint32_t e = 0; e < 4; ++e) {
            to.SetOne(static_cast<int>(i), static_cast<int>(e),
                      ptx::LoadShared<T>(Moved(from, line + i, (k + 4 * e) * kSize)));
          }
        } else {
          to.SetFour(static_cast<int>(i), ptx::LoadShared<Four>(Moved(from, line + i, k * kSize)));
        }
      }
    } else {
      Two twos[4];
      GEMMD_UNROLL
      for (std::uint32_t e = 0; e < 4; ++e) {
        twos[e] = ptx::LoadShared<Two>(Moved(from, k + (kIsOrdered ? 4 * e : e), line * kSize));
      }
      to.SetTwos(twos);
    }
    return to;
  }

 private:
  std::uint32_t place_;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::small
