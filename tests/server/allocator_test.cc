// The allocator of gemmd, with its options.
#include <cstddef>

#include "gtest/gtest.h"

extern "C" int mallctl(const char* name, void* old_value, std::size_t* old_bytes, void* new_value,
                       std::size_t new_bytes) __attribute__((weak));

namespace gemmd {
namespace {

TEST(Allocator, GivesMemoryBackWithoutRequests) {
  if (mallctl == nullptr) GTEST_SKIP() << "a sanitizer's allocator";
  bool is_on = false;
  std::size_t bytes = sizeof(is_on);
  ASSERT_EQ(mallctl("background_thread", &is_on, &bytes, nullptr, 0), 0);
  EXPECT_TRUE(is_on);
}

}  // namespace
}  // namespace gemmd
