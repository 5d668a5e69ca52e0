// Nothing is read or written beyond the planes of quantized operands, whatever is said of them.
#include <cstddef>
#include <cstdint>

#include "tests/server/admission/operand_play.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gemmd::testing::PlayOperands(data, size);
  return 0;
}
