#include "server/device/cuda/memory/slot_pool.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/device/cuda/parts.h"

namespace gemmd {
namespace {

class SlotPoolTest : public testing::CudaPartsTest {
 protected:
  std::unique_ptr<CudaSlotPool> NewPool(int slots) {
    std::vector<std::unique_ptr<CudaSlot>> made;
    for (int i = 0; i < slots; ++i) made.push_back(NewSlot());
    return std::make_unique<CudaSlotPool>(std::move(made));
  }
};

TEST_F(SlotPoolTest, GivesEachSlotToOneAtATime) {
  const std::unique_ptr<CudaSlotPool> pool = NewPool(2);
  std::unique_ptr<CudaSlot> first = pool->TryTake();
  const std::unique_ptr<CudaSlot> second = pool->TryTake();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(pool->TryTake(), nullptr);
  const CudaSlot* const slot = first.get();
  pool->GiveBack(std::move(first));
  EXPECT_EQ(pool->TryTake().get(), slot);
}

TEST_F(SlotPoolTest, ASlotThatComesBackHasItsEventsFree) {
  const std::unique_ptr<CudaSlotPool> pool = NewPool(1);
  std::unique_ptr<CudaSlot> slot = pool->TryTake();
  const CudaEvent first = *slot->NextEvent();
  EXPECT_NE(*slot->NextEvent(), first);
  pool->GiveBack(std::move(slot));
  slot = pool->Take();
  EXPECT_EQ(*slot->NextEvent(), first);
}

TEST_F(SlotPoolTest, WhoWaitsGetsWhatComesBack) {
  const std::unique_ptr<CudaSlotPool> pool = NewPool(1);
  std::unique_ptr<CudaSlot> slot = pool->TryTake();
  const CudaSlot* const expected = slot.get();
  std::unique_ptr<CudaSlot> taken;
  std::thread waiter([&] { taken = pool->Take(); });
  pool->GiveBack(std::move(slot));
  waiter.join();
  EXPECT_EQ(taken.get(), expected);
}

// A later one would leave with the slot, perhaps to stand behind the one who waits.
TEST_F(SlotPoolTest, NobodyOvertakesWhoWaits) {
  const std::unique_ptr<CudaSlotPool> pool = NewPool(1);
  std::unique_ptr<CudaSlot> slot = pool->TryTake();
  std::unique_ptr<CudaSlot> taken;
  std::thread waiter([&] { taken = pool->Take(); });
  while (pool->waiting() == 0) std::this_thread::yield();
  pool->GiveBack(std::move(slot));
  EXPECT_EQ(pool->TryTake(), nullptr);
  waiter.join();
  EXPECT_NE(taken, nullptr);
  EXPECT_EQ(pool->waiting(), 0);
}

TEST_F(SlotPoolTest, NobodyWaitsForAClosedPool) {
  const std::unique_ptr<CudaSlotPool> pool = NewPool(1);
  std::unique_ptr<CudaSlot> slot = pool->TryTake();
  std::unique_ptr<CudaSlot> taken;
  std::thread waiter([&] { taken = pool->Take(); });
  pool->Close();
  waiter.join();
  EXPECT_EQ(taken, nullptr);
  EXPECT_EQ(pool->Take(), nullptr);
  pool->GiveBack(std::move(slot));
  EXPECT_NE(pool->Take(), nullptr);  // what is free is given still
}

}  // namespace
}  // namespace gemmd
