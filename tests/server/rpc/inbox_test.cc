// Tests that messages are handled once each, in order, by one at a time.
#include "server/rpc/reactors/inbox.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(Inbox, WhoeverBringsAMessageWhileNobodyHandlesDoes) {
  Inbox<int> inbox({});
  EXPECT_TRUE(inbox.is_idle());
  EXPECT_TRUE(inbox.Put(1, 1));
  EXPECT_FALSE(inbox.Put(2, 1));
  EXPECT_FALSE(inbox.is_idle());
  EXPECT_EQ(inbox.Take(), (std::vector<int>{1, 2}));
  EXPECT_FALSE(inbox.is_idle());  // they are being handled
  EXPECT_FALSE(inbox.Put(3, 1));
  EXPECT_EQ(inbox.Take(), std::vector<int>{3});
  EXPECT_TRUE(inbox.Take().empty());
  EXPECT_TRUE(inbox.is_idle());
  EXPECT_TRUE(inbox.Put(4, 1));
}

TEST(Inbox, ItsRoomIsBoundedByMessagesAndBytes) {
  Inbox<int> inbox({3, 100});
  inbox.Put(1, 10);
  inbox.Put(2, 10);
  EXPECT_TRUE(inbox.has_room());
  inbox.Put(3, 10);
  EXPECT_FALSE(inbox.has_room());
  inbox.Take();
  EXPECT_TRUE(inbox.has_room());
  inbox.Put(4, 1000);  // whatever its size
  EXPECT_FALSE(inbox.has_room());
  inbox.Take();
  EXPECT_TRUE(inbox.has_room());
}

// Random histories of a reader that reads while there is room, and of handlers that take.
TEST(Inbox, NothingIsLostOrOvertakenWhateverTheOrder) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const Inbox<int>::Bounds bounds{1 + random() % 5, 1 + random() % 50};
    Inbox<int> inbox(bounds);
    int read = 0;
    bool is_handled = false;
    std::vector<int> handled;
    for (int step = 0; step < 500; ++step) {
      if (random() % 2 == 0 && inbox.has_room()) {
        const bool takes_over = inbox.Put(read++, random() % 20);
        EXPECT_EQ(takes_over, !is_handled);
        is_handled = true;
      } else if (is_handled && random() % 3 == 0) {
        const std::vector<int> taken = inbox.Take();
        EXPECT_LE(taken.size(), bounds.messages);
        EXPECT_TRUE(inbox.has_room());
        handled.insert(handled.end(), taken.begin(), taken.end());
        is_handled = !taken.empty();
      }
      EXPECT_EQ(inbox.is_idle(), !is_handled);
    }
    if (is_handled) {
      const std::vector<int> rest = inbox.Take();
      handled.insert(handled.end(), rest.begin(), rest.end());
    }
    ASSERT_EQ(handled.size(), static_cast<std::size_t>(read)) << "seed " << seed;
    for (int i = 0; i < read; ++i) ASSERT_EQ(handled[static_cast<std::size_t>(i)], i);
  }
}

}  // namespace
}  // namespace gemmd
