// A session tells every request's end once and leaks nothing, whatever the order of events.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/server/transfer/session_play.h"

namespace {

// Each choice is one byte, which is enough for the play's: what to do, to what, how much.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  std::uint32_t operator()() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices(data, size);
  const std::string fault = gemmd::testing::PlaySession(choices, static_cast<unsigned>(size) / 3);
  if (fault.empty()) return 0;
  std::fputs(fault.c_str(), stderr);
  std::abort();
}
