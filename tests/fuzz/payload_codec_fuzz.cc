// The payload codec agrees with the generated parser on every input. The first byte chooses the
// message, the second where the bytes are cut.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "tests/proto/payload_codec_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string difference = gemmd::testing::WhereTheyDiffer(
      data[0] % gemmd::testing::kPayloadMessages,
      {reinterpret_cast<const char*>(data) + 2, size - 2}, {data[1], 3U * data[1]});
  if (difference.empty()) return 0;
  std::fputs(difference.c_str(), stderr);
  std::abort();
}
