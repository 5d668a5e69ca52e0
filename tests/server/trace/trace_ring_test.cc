#include "server/trace/trace_ring.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

std::vector<std::string> AllOf(const TraceRing& ring) {
  std::vector<std::string> records;
  ring.Read([&records](absl::string_view record) { records.emplace_back(record); });
  return records;
}

// A record of that size which is its number again and again, so that a torn one shows.
std::string Record(std::uint64_t number, std::size_t size) {
  std::string record;
  while (record.size() < size) absl::StrAppend(&record, number, ";");
  record.resize(size);
  return record;
}

TEST(TraceRingTest, ReadsWhatWasWrittenInItsOrder) {
  TraceRing ring(1 << 16);
  const std::vector<std::string> records = {"a",
                                            "",
                                            std::string(240, 'b'),
                                            std::string(241, 'c'),
                                            std::string(TraceRing::kMostRecordBytes, 'x'),
                                            std::string("d\0e", 3)};
  for (const std::string& each : records) ring.Write(each);
  EXPECT_EQ(AllOf(ring), records);
  EXPECT_EQ(AllOf(ring), records) << "reading changes nothing";
  EXPECT_EQ(ring.written(), records.size());
  EXPECT_EQ(ring.dropped(), 0U);
}

TEST(TraceRingTest, TheNewestTakeTheOldestsPlaceAndNoMoreMemory) {
  TraceRing ring(10'000);
  EXPECT_LE(ring.bytes(), 10'000U);
  EXPECT_GT(ring.bytes(), 9'700U);
  const std::size_t slots = ring.bytes() / TraceRing::kSlotBytes;
  for (int i = 0; i < 1000; ++i) ring.Write(absl::StrCat(i));
  const std::vector<std::string> records = AllOf(ring);
  ASSERT_EQ(records.size(), slots);
  for (std::size_t i = 0; i < slots; ++i) EXPECT_EQ(records[i], absl::StrCat(1000 - slots + i));
  EXPECT_EQ(ring.written(), 1000U);
}

TEST(TraceRingTest, OfARecordThatIsPartlyOverwrittenNothingIsRead) {
  TraceRing ring(20 * TraceRing::kSlotBytes);
  ring.Write(Record(1, 1000));  // 5 slots
  for (int i = 0; i < 15; ++i) ring.Write("s");
  EXPECT_EQ(AllOf(ring).size(), 16U);
  ring.Write("last");  // in the place of the first one's first part
  const std::vector<std::string> records = AllOf(ring);
  ASSERT_EQ(records.size(), 16U);
  EXPECT_EQ(records.front(), "s");
  EXPECT_EQ(records.back(), "last");
}

TEST(TraceRingTest, OneThatIsTooSmallIsOff) {
  for (const std::size_t bytes : {0, 1, 4095}) {
    TraceRing ring(bytes);
    ring.Write("a");
    EXPECT_EQ(ring.bytes(), 0U);
    EXPECT_EQ(ring.written(), 0U);
    EXPECT_TRUE(AllOf(ring).empty());
  }
}

TEST(TraceRingTest, NoRecordIsTornWhoeverReadsAndWrites) {
  TraceRing ring(40 * TraceRing::kSlotBytes);
  constexpr int kWriters = 3;
  constexpr std::uint64_t kEach = 4000;
  std::atomic<int> writing{kWriters};
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&ring, &writing, w] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const std::uint64_t number = static_cast<std::uint64_t>(w) * kEach + i;
        ring.Write(Record(number, 20 + number * 37 % 900));
      }
      --writing;
    });
  }
  while (writing > 0) {
    ring.Read([](absl::string_view record) {
      std::uint64_t number = 0;
      ASSERT_TRUE(absl::SimpleAtoi(record.substr(0, record.find(';')), &number)) << record;
      ASSERT_EQ(record, Record(number, 20 + number * 37 % 900));
    });
  }
  for (std::thread& each : writers) each.join();
  EXPECT_EQ(ring.written(), kWriters * kEach);
  EXPECT_FALSE(AllOf(ring).empty());
  EXPECT_LT(ring.dropped(), ring.written());
}

}  // namespace
}  // namespace gemmd
