#include "server/store/upload.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/thread_executor.h"

namespace gemmd {
namespace {

// An upload that tells which thread gave its memory back.
struct TracedUpload {
  explicit TracedUpload(std::uint64_t bytes) : TracedUpload(std::string(bytes, '\0')) {}
  explicit TracedUpload(const std::string& content) : storage(content.size(), '\0') {
    const std::uint64_t bytes = content.size();
    OperandForm form;
    form.data = {DataType::kInt8, static_cast<std::int64_t>(bytes), 1, Order::kRowMajor, 1};
    Upload::Memory memory;
    memory[PlaneName::kData] = {
        {storage.data(), bytes, std::shared_ptr<void>(nullptr, [this](void*) {
           released_by = std::this_thread::get_id();
         })}};
    OperandPlanes<std::vector<Sha256Digest>> chunks;
    chunks[PlaneName::kData] = ChunkDigests(content);
    upload =
        std::make_unique<Upload>(form, DigestOf(form, chunks), std::move(memory),
                                 std::make_shared<StoreHold>(*budget.Reserve({}, bytes)), &helpers);
  }

  bool is_released() const { return released_by != std::thread::id(); }

  std::string storage;
  std::thread::id released_by;
  StoreBudget budget{{{1, 1 << 30}, {1, 1 << 30}, {1, 1 << 30}}};
  ThreadExecutor helpers{3};
  std::unique_ptr<Upload> upload;
};

absl::StatusOr<Upload::Received> Send(Upload* upload, std::uint64_t offset,
                                      absl::string_view bytes) {
  return upload->Receive({PlaneName::kData, offset, {&bytes, 1}});
}

TEST(Upload, AbandonedBetweenChunksGivesItsMemoryBackAtOnce) {
  TracedUpload traced(100);
  ASSERT_TRUE(Send(traced.upload.get(), 0, std::string(60, '\0')).ok());
  EXPECT_FALSE(traced.is_released());
  traced.upload->Abandon();
  EXPECT_TRUE(traced.is_released());
  EXPECT_EQ(traced.budget.used_bytes(), 0u);
  EXPECT_TRUE(
      absl::IsResourceExhausted(Send(traced.upload.get(), 60, std::string(40, '\0')).status()));
}

// By the thread that brings the chunk, at its end: nobody else may, and nobody else will.
TEST(Upload, AbandonedWhileAChunkComesGivesItsMemoryBackWithTheChunksEnd) {
  constexpr std::uint64_t kBytes = 8 << 20;
  const std::string bytes(kBytes, '\0');
  // A thread may be too early or too late; the answer to the chunk tells.
  for (int round = 0; round < 300; ++round) {
    TracedUpload traced(kBytes);
    absl::StatusOr<Upload::Received> received;
    std::atomic<bool> is_begun{false};
    std::thread bringer([&] {
      is_begun = true;
      received = Send(traced.upload.get(), 0, bytes);
    });
    const std::thread::id bringer_id = bringer.get_id();
    while (!is_begun) std::this_thread::yield();
    traced.upload->Abandon();
    bringer.join();
    if (!received.ok() || received->is_last) continue;
    EXPECT_EQ(traced.released_by, bringer_id);
    EXPECT_EQ(traced.budget.used_bytes(), 0u);
    traced.upload->WaitUntilStill();
    return;
  }
  FAIL() << "no chunk was under way when its upload was abandoned";
}

// The thread that brought the last byte makes the operand of it; until that is told, nobody waits
// in vain and nobody takes the memory away.
TEST(Upload, AbandonedWhileItIsFinishedIsDropped) {
  TracedUpload traced(100);
  const auto received = Send(traced.upload.get(), 0, std::string(100, '\0'));
  ASSERT_TRUE(received.ok() && received->is_last);
  traced.upload->Abandon();
  EXPECT_FALSE(traced.is_released());
  EXPECT_TRUE(
      absl::IsResourceExhausted(traced.upload->Finish(std::make_shared<StoreTraffic>()).status()));
  EXPECT_TRUE(traced.is_released());
  EXPECT_EQ(traced.budget.used_bytes(), 0u);
  traced.upload->SetEnded(absl::OkStatus(), 0);
  traced.upload->WaitUntilStill();
}

TEST(Upload, TheLastByteIsToldOnce) {
  TracedUpload traced(100);
  Upload* const upload = traced.upload.get();
  EXPECT_FALSE(Send(upload, 50, std::string(50, '\0'))->is_last);
  EXPECT_TRUE(Send(upload, 0, std::string(60, '\0'))->is_last);
  const auto again = Send(upload, 0, std::string(60, '\0'));
  EXPECT_FALSE(again->is_last);
  EXPECT_EQ(again->repeated_bytes, 60u);
  EXPECT_EQ(upload->received_bytes(), 100u);
  EXPECT_TRUE(upload->Finish(std::make_shared<StoreTraffic>()).ok());
  upload->SetEnded(absl::OkStatus(), 1);
}

// Whatever chunks come in whatever order, by several threads, some of them twice: the bytes are
// those that were sent, and what is hashed of them is the digest.
TEST(Upload, ChunksOfSeveralThreadsMakeTheWhole) {
  std::mt19937_64 random(11);
  std::string content((5 << 20) + 12345, '\0');
  for (std::size_t i = 0; i + 8 <= content.size(); i += 8) {
    const std::uint64_t value = random();
    std::memcpy(&content[i], &value, sizeof value);
  }
  for (int round = 0; round < 20; ++round) {
    TracedUpload traced(content);
    Upload* const upload = traced.upload.get();
    struct Sent {
      std::uint64_t begin = 0;
      std::uint64_t end = 0;
    };
    std::vector<Sent> chunks;
    for (std::uint64_t at = 0; at < content.size();) {
      const std::uint64_t end =
          std::min<std::uint64_t>(content.size(), at + 1 + random() % (3 << 20));
      // One chunk in three reaches back over what others bring.
      chunks.push_back(
          {random() % 3 == 0 ? at - std::min<std::uint64_t>(at, random() % (1 << 20)) : at, end});
      at = end;
    }
    std::shuffle(chunks.begin(), chunks.end(), random);
    std::atomic<std::size_t> next{0};
    std::atomic<int> lasts{0};
    std::atomic<std::uint64_t> new_bytes{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        for (std::size_t c = next++; c < chunks.size(); c = next++) {
          const Sent& sent = chunks[c];
          const auto received =
              Send(upload, sent.begin,
                   absl::string_view(content).substr(sent.begin, sent.end - sent.begin));
          ASSERT_TRUE(received.ok()) << received.status();
          new_bytes += received->new_bytes;
          if (received->is_last) ++lasts;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(lasts, 1);
    EXPECT_EQ(new_bytes, content.size());
    EXPECT_EQ(traced.storage, content);
    const auto finished = upload->Finish(std::make_shared<StoreTraffic>());
    EXPECT_TRUE(finished.ok()) << finished.status();
    upload->SetEnded(absl::OkStatus(), 1);
  }
}

// The new part may begin and end in any of its pieces.
TEST(Upload, AChunkInPiecesBringsWhatIsNewOfIt) {
  const std::string content = "abcdefghij";
  for (std::uint64_t begin = 0; begin < content.size(); ++begin) {
    for (std::uint64_t end = begin; end <= content.size(); ++end) {
      TracedUpload traced(content);
      Upload* const upload = traced.upload.get();
      ASSERT_TRUE(Send(upload, begin, absl::string_view(content).substr(begin, end - begin)).ok());
      const absl::string_view pieces[] = {"abc", "", "defg", "h", "ij"};
      const auto received = upload->Receive({PlaneName::kData, 0, pieces});
      ASSERT_TRUE(received.ok()) << received.status();
      EXPECT_EQ(received->repeated_bytes, end - begin);
      EXPECT_EQ(traced.storage, content);
      if (!received->is_last) continue;  // the first chunk was all of it
      EXPECT_TRUE(upload->Finish(std::make_shared<StoreTraffic>()).ok());
      upload->SetEnded(absl::OkStatus(), 1);
    }
  }
}

}  // namespace
}  // namespace gemmd
