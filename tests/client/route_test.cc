#include "client/route.h"

#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

RouteInput Input(std::uint64_t bytes_in, std::uint64_t bytes_out, int in_flight = 0) {
  RouteInput input;
  input.bytes_in = bytes_in;
  input.bytes_out = bytes_out;
  input.in_flight = in_flight;
  return input;
}

Route Auto(const RouteInput& input) { return ChooseRoute(RouteOptions(), input); }

TEST(RouteTest, SmallAndQuietIsUnary) {
  EXPECT_EQ(Auto(Input(100, 100)).transport, Transport::kUnary);
  EXPECT_EQ(Auto(Input(4 * kMiB, 100, 3)).transport, Transport::kUnary);
}

TEST(RouteTest, ManySmallOnesShareAStream) {
  const Route route = Auto(Input(100, 100, 4));
  EXPECT_EQ(route.transport, Transport::kStream);
  EXPECT_EQ(route.channels, 1);
  EXPECT_EQ(route.chunk_bytes, kMinChunkBytes);
}

TEST(RouteTest, LargeInEitherDirectionIsStreamed) {
  EXPECT_EQ(Auto(Input(4 * kMiB + 1, 1)).transport, Transport::kStream);
  EXPECT_EQ(Auto(Input(1, 4 * kMiB + 1)).transport, Transport::kStream);
}

TEST(RouteTest, ChannelsGrowWithTheWorkAtTheMeasuredRate) {
  EXPECT_EQ(Auto(Input(6 * kMiB, 1)).channels, 3);  // 2 ms each at 1 GB/s
  EXPECT_EQ(Auto(Input(64 * kMiB, 1)).channels, 8);
  EXPECT_EQ(Auto(Input(64 * kMiB, 1)).chunk_bytes, kMiB);
  EXPECT_EQ(Auto(Input(8 * kMiB, 1)).chunk_bytes, 8 * kMiB / 4 / 4);
  RouteInput fast = Input(6 * kMiB, 1);
  fast.connection_bytes_per_s = 10e9;
  EXPECT_EQ(Auto(fast).channels, 1);
  RouteInput huge = Input(UINT64_MAX, 1);
  huge.connection_bytes_per_s = 1;
  EXPECT_EQ(Auto(huge).channels, 8);
  huge.max_channels = 1;
  EXPECT_EQ(Auto(huge).channels, 1);
}

TEST(RouteTest, AServerWithoutStreamsGetsCalls) {
  RouteInput input = Input(64 * kMiB, 1, 9);
  input.can_stream = false;
  EXPECT_EQ(Auto(input).transport, Transport::kUnary);
}

TEST(RouteTest, OptionsHaveTheLastWord) {
  RouteOptions options;
  options.transport = Transport::kUnary;
  EXPECT_EQ(ChooseRoute(options, Input(64 * kMiB, 1, 9)).transport, Transport::kUnary);
  options.transport = Transport::kStream;
  options.channels = 12;
  options.chunk_bytes = 777;
  RouteInput input = Input(1, 1);
  input.can_stream = false;  // it may have learnt since
  const Route route = ChooseRoute(options, input);
  EXPECT_EQ(route.transport, Transport::kStream);
  EXPECT_EQ(route.channels, 12);
  EXPECT_EQ(route.chunk_bytes, 777U);
  options.transport = Transport::kAuto;
  EXPECT_EQ(ChooseRoute(options, Input(1, 1)).transport, Transport::kStream);
}

TEST(RouteTest, RatesAreSmoothedAndShortTransfersTellNothing) {
  EXPECT_EQ(UpdateRate(0, 1000, 1, 1), 0);
  EXPECT_EQ(UpdateRate(0, 8 * kMiB, 0, 1), 0);
  EXPECT_DOUBLE_EQ(UpdateRate(0, 8 * kMiB, 1, 8), kMiB);
  EXPECT_DOUBLE_EQ(UpdateRate(4 * kMiB, 8 * kMiB, 1, 1), 5 * kMiB);
}

}  // namespace
}  // namespace gemmd::client
