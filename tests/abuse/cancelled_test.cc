// Calls that their client resets: within a message, after it, while the product is computed.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/attacks.h"
#include "tests/abuse/raw_http2.h"

namespace gemmd {
namespace {

using CancelledTest = testing::AbuseFixture;

TEST_F(CancelledTest, CallsHoldNothing) {
  int address = 0;
  for (const char* method : testing::kAllProducts) {
    const std::string message = testing::OuterProduct(method, 1500);
    for (const std::size_t sent :
         {std::size_t{0}, std::size_t{1}, std::size_t{5}, message.size() / 2, message.size()}) {
      // One that resets many calls is closed, and opens no other for a while.
      testing::RawConnection::Options options;
      options.source = "127.0.5." + std::to_string(++address);
      testing::RawConnection connection(server_.address(), options);
      for (int i = 0; i < 20; ++i) {
        const std::uint32_t call = connection.Begin(method);
        if (sent > 0) connection.Send(call, message.substr(0, sent), false);
        if (!connection.Reset(call)) break;
      }
    }
    AwaitFreeMemory();
  }
}

}  // namespace
}  // namespace gemmd
