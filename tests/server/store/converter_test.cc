#include "server/store/converter.h"

#include <future>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(Converter, ATenantThatUploadsMuchKeepsOthersForOneTaskAtMost) {
  std::vector<std::string> order;
  std::promise<void> gate;
  std::promise<void> is_busy;
  {
    Converter converter;
    converter.Post(*Tenant::Named("hog"), 100, [&is_busy, opened = gate.get_future().share()] {
      is_busy.set_value();
      opened.wait();
    });
    is_busy.get_future().wait();
    for (int i = 0; i < 10; ++i) {
      converter.Post(*Tenant::Named("hog"), 100, [&order] { order.emplace_back("hog"); });
    }
    for (int i = 0; i < 3; ++i) {
      converter.Post(*Tenant::Named("other"), 10, [&order] { order.emplace_back("other"); });
    }
    gate.set_value();
    // Its end carries out what was posted.
  }
  ASSERT_EQ(order.size(), 13u);
  EXPECT_EQ(std::vector<std::string>(order.begin() + 1, order.begin() + 4),
            std::vector<std::string>(3, "other"));
}

}  // namespace
}  // namespace gemmd
