#include "client/wire/message.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

std::string TextOf(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(message.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// Slices need an initialised gRPC; a channel holds the initialisation.
class MessageWriterTest : public ::testing::Test {
 protected:
  const std::shared_ptr<grpc::Channel> channel_ =
      grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  const Bytes plane_{std::string(5000, 'p')};
};

// Lengths are written before what they are of, so a writer's size must be that of its message.
TEST_F(MessageWriterTest, KnowsItsSizeWhateverItIsMadeOf) {
  for (const std::uint64_t part : {10, 1024, 1025, 5000}) {
    MessageWriter inner;
    inner.Append("head");
    inner.Append(plane_, 5000 - part, part);
    EXPECT_EQ(inner.size(), 4 + part);
    MessageWriter outer;
    outer.Append("a");
    outer.Append(std::move(inner));
    outer.Append("z");
    EXPECT_EQ(outer.size(), 6 + part);
    EXPECT_EQ(TextOf(std::move(outer).Finish()), "ahead" + std::string(part, 'p') + "z");
  }
}

}  // namespace
}  // namespace gemmd::client
