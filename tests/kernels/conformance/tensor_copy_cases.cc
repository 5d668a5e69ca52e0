#include "tests/kernels/conformance/tensor_copy_cases.h"

#include <cstring>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "tests/kernels/conformance/random_bits.h"

namespace gemmd::conformance {
namespace {

// Random numbers of one case, one after the other.
class CaseRandom {
 public:
  explicit CaseRandom(std::uint64_t key) : key_(key) {}
  std::uint32_t Below(std::uint32_t limit) {
    return static_cast<std::uint32_t>(RandomBits(key_, next_++) >> 32) % limit;
  }
  std::uint32_t Word() { return static_cast<std::uint32_t>(RandomBits(key_, next_++)); }

 private:
  const std::uint64_t key_;
  std::uint64_t next_ = 0;
};

float Number(CaseRandom* random) { return (static_cast<float>(random->Below(4001)) - 2000) / 37; }

// The tensor's bytes, padding included.
std::vector<std::uint32_t> RandomTensor(const RandomCopy& copy, CaseRandom* random) {
  std::vector<std::uint32_t> words(std::size_t{copy.pitch} * copy.rows / 4);
  for (std::uint32_t& word : words) {
    word = random->Word();
    if (copy.element == CopyElement::kU32 || copy.element == CopyElement::kU8) continue;
    if (copy.element == CopyElement::kF32) {
      const float value = Number(random);
      std::memcpy(&word, &value, sizeof word);
      continue;
    }
    const auto format = copy.element == CopyElement::kBf16 ? emulator::HalfFormat::kBf16
                                                           : emulator::HalfFormat::kF16;
    const std::uint32_t low = emulator::Narrow(format, Number(random));
    word = low | std::uint32_t{emulator::Narrow(format, Number(random))} << 16;
  }
  return words;
}

}  // namespace

std::uint32_t RandomCopy::element_bytes() const {
  if (element == CopyElement::kU8) return 1;
  return element == CopyElement::kF16 || element == CopyElement::kBf16 ? 2 : 4;
}

RandomCopy MakeRandomCopy(std::uint32_t set, std::uint32_t number) {
  static constexpr std::uint32_t kSwizzles[] = {0, 32, 64, 128};
  static constexpr CopyElement kElements[] = {CopyElement::kBf16, CopyElement::kF16,
                                              CopyElement::kF32, CopyElement::kU32,
                                              CopyElement::kU8};
  CaseRandom random(KeyOf(set, number, 0));
  RandomCopy copy;
  copy.element = kElements[random.Below(5)];
  copy.swizzle = kSwizzles[random.Below(4)];
  const std::uint32_t size = copy.element_bytes();
  copy.columns = 1 + random.Below(480 / size);
  copy.rows = 1 + random.Below(40);
  copy.pitch = (copy.columns * size + 15) / 16 * 16 + 16 * random.Below(2);
  // The hardware takes coordinates and boxes in whole units of 16 bytes.
  const auto unit = static_cast<std::int32_t>(16 / size);
  // Swizzled rows fill the span: tensor maps take no others.
  const auto box_units =
      static_cast<std::int32_t>(copy.swizzle == 0 ? 1 + random.Below(256 / 16) : copy.swizzle / 16);
  copy.box[0] = static_cast<std::uint32_t>(box_units * unit);
  copy.box[1] = 1 + random.Below(24);
  // Draws a corner from `least` to a box behind the tensor.
  const auto corner = [&random](std::int32_t least, std::int32_t extent, std::int32_t box) {
    return least + static_cast<std::int32_t>(
                       random.Below(static_cast<std::uint32_t>(extent + box - least)));
  };
  const std::int32_t units = static_cast<std::int32_t>(copy.columns) / unit + 1;
  const auto rows = static_cast<std::int32_t>(copy.rows);
  const auto box_rows = static_cast<std::int32_t>(copy.box[1]);
  copy.load[0] = unit * corner(-box_units - 1, units, box_units);
  copy.load[1] = corner(-box_rows - 1, rows, box_rows);
  copy.store[0] = unit * corner(0, units, box_units);
  copy.store[1] = corner(0, rows, box_rows);
  copy.in = RandomTensor(copy, &random);
  copy.out = RandomTensor(copy, &random);
  return copy;
}

std::uint64_t HashWords(const std::vector<std::uint32_t>& words) {
  std::uint64_t hash = 0;
  for (std::uint64_t i = 0; i < words.size(); ++i) hash += HashTerm(i, words[i]);
  return hash;
}

}  // namespace gemmd::conformance
