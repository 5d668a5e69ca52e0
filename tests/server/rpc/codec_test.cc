#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/codec/encode.h"
#include "server/rpc/codec/wire_types.h"

namespace gemmd {
namespace {

// Slices need an initialised gRPC; a channel holds the initialisation.
class GrpcEnvironment final : public ::testing::Environment {
 public:
  void SetUp() override {
    channel_ = grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
};
const auto* const environment = ::testing::AddGlobalTestEnvironment(new GrpcEnvironment);

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

v1::MatmulRequest GoodRequest() {
  v1::MatmulRequest request;
  v1::MatmulHeader* header = request.mutable_header();
  for (v1::Operand* operand : {header->mutable_a(), header->mutable_b()}) {
    operand->mutable_data()->set_type(v1::F32);
    operand->mutable_data()->set_rows(2);
    operand->mutable_data()->set_columns(2);
  }
  v1::Chunk* chunk = request.add_payload();
  chunk->set_operand(v1::A);
  chunk->set_data("0123456789abcdef");
  return request;
}

TEST(Decode, DefaultsAreThoseOfTheContract) {
  const absl::StatusOr<MatmulCall> call = DecodeHeader(GoodRequest().header());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->alpha, 1);
  EXPECT_EQ(call->beta, 0);
  EXPECT_FALSE(call->output_type.has_value());
  EXPECT_EQ(call->determinism, Determinism::kBatchInvariant);
  EXPECT_EQ(call->a->source, Source::kInline);
}

TEST(Decode, AChunkIsAViewOfTheReceivedBytes) {
  const grpc::ByteBuffer buffer = Bytes(GoodRequest().SerializeAsString());
  const ReceivedMessage bytes(buffer);
  v1::MatmulRequest request;
  PayloadViews payload;
  ASSERT_TRUE(ParseMessage(bytes, &request, &payload).ok());
  const absl::StatusOr<PayloadChunk> chunk = DecodeChunk(request.payload(0), payload);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->operand, OperandName::kA);
  ASSERT_EQ(chunk->pieces.size(), 1u);
  EXPECT_EQ(chunk->pieces[0], "0123456789abcdef");
  const char* const begin = bytes.pieces()[0].data();
  EXPECT_GE(chunk->pieces[0].data(), begin);
  EXPECT_LE(chunk->pieces[0].data(), begin + bytes.pieces()[0].size());
}

TEST(Decode, PresentZerosAreNotDefaults) {
  v1::MatmulRequest request = GoodRequest();
  request.mutable_header()->set_alpha(0);
  EXPECT_EQ(DecodeHeader(request.header())->alpha, 0);
}

TEST(Decode, UnknownEnumValuesAreRefusedByField) {
  const auto message = [](auto spoil) {
    v1::MatmulRequest request = GoodRequest();
    spoil(&request);
    return std::string(DecodeHeader(request.header()).status().message());
  };
  EXPECT_EQ(
      message([](v1::MatmulRequest* r) {
        r->mutable_header()->mutable_a()->mutable_data()->set_type(static_cast<v1::DataType>(99));
      }),
      "a.data.type is 99; it must be a value of the enum in gemmd.v1");
  EXPECT_EQ(message([](v1::MatmulRequest* r) {
              r->mutable_header()->mutable_b()->mutable_data()->clear_type();
            }),
            "b.data.type is 0; it must be a value of the enum in gemmd.v1 other than unspecified");
  EXPECT_EQ(message([](v1::MatmulRequest* r) {
              r->mutable_header()->set_activation(static_cast<v1::Activation>(7));
            }),
            "activation is 7; it must be a value of the enum in gemmd.v1");
  EXPECT_EQ(message([](v1::MatmulRequest* r) { r->mutable_header()->mutable_a()->clear_data(); }),
            "a.data is missing");
  v1::Chunk chunk;
  chunk.set_operand(v1::D);
  EXPECT_EQ(DecodeChunk(chunk, PayloadViews()).status().message(),
            "payload.operand is 5; it must be a value of the enum in gemmd.v1");
}

TEST(Decode, AHandleThatNoneCouldBeIsRefused) {
  v1::MatmulRequest request = GoodRequest();
  request.mutable_header()->mutable_a()->set_handle(std::string(64, 'h'));
  EXPECT_TRUE(DecodeHeader(request.header()).ok());
  request.mutable_header()->mutable_a()->set_handle(std::string(65, 'h'));
  EXPECT_EQ(DecodeHeader(request.header()).status().message(),
            "a.handle has 65 bytes; a handle has at most 64");
}

TEST(Decode, MalformedBytesAreInvalidArguments) {
  std::mt19937 random(3);
  const std::string good = GoodRequest().SerializeAsString();
  v1::MatmulRequest request;
  EXPECT_TRUE(ParseMessage(Bytes(good), &request).ok());
  const absl::Status status = ParseMessage(Bytes("\xff\xff\xff\xff"), &request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the request is not a gemmd.v1.MatmulRequest: malformed protobuf");
  v1::MatmulRequest scattered;
  for (int i = 0; i < 400000; ++i) scattered.add_payload();
  const grpc::ByteBuffer scattered_bytes = Bytes(scattered.SerializeAsString());
  PayloadViews payload;
  EXPECT_EQ(ParseMessage(ReceivedMessage(scattered_bytes), &request, &payload).message(),
            "the request has 1200000 bytes besides 0 of payload; it may have 1048576: a mebibyte "
            "and a quarter of its payload");
  for (int round = 0; round < 2000; ++round) {  // whatever happens, nothing crashes
    std::string bytes = good;
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(bytes.size() - random() % 4);
    v1::MatmulRequest parsed;
    if (ParseMessage(Bytes(bytes), &parsed).ok()) DecodeHeader(parsed.header()).IgnoreError();
  }
}

// The hand-written payload field must be what the generated parser reads.
TEST(Encode, TheResponseParsesAsItsMessage) {
  for (const std::int64_t columns : {1, 3, 127, 5000, 70000}) {
    const MatrixLayout layout{DataType::kF32, 3, columns, Order::kRowMajor, columns + 2};
    // Two pieces, as a device may give them.
    const std::uint64_t half = layout.size_bytes() / 2;
    HostBuffer d = AllocateHostBuffer(half);
    d.push_back(AllocateHostBuffer(layout.size_bytes() - half).front());
    for (const HostPiece& piece : d) std::memset(piece.data, 'x', piece.size_bytes);
    const std::string expected(layout.size_bytes(), 'x');
    Receipt receipt;
    receipt.request_id = 9;
    receipt.kernel = "cpu/panel_f32";
    receipt.spans = {{Stage::kCompute, 1000, 3000}};
    receipt.finish = 4000;
    const grpc::ByteBuffer bytes = EncodeMatmulResponse(receipt, layout, d);
    v1::MatmulResponse response;
    ASSERT_TRUE(ParseMessage(bytes, &response).ok());
    EXPECT_EQ(response.receipt().request_id(), 9u);
    EXPECT_EQ(response.receipt().total_us(), 4);
    EXPECT_EQ(response.receipt().stages(0).start_us(), 1);
    EXPECT_EQ(response.receipt().stages(0).end_us(), 3);
    EXPECT_EQ(response.receipt().stages(0).exposed_us(), 2);
    EXPECT_EQ(response.receipt().unattributed_us(), 2);
    EXPECT_EQ(response.d().type(), v1::F32);
    EXPECT_EQ(response.d().rows(), 3u);
    EXPECT_EQ(response.d().columns(), static_cast<std::uint64_t>(columns));
    EXPECT_EQ(response.d().leading_dimension(), static_cast<std::uint64_t>(columns) + 2);
    ASSERT_EQ(response.payload_size(), 1);
    EXPECT_EQ(response.payload(0).operand(), v1::D);
    EXPECT_EQ(response.payload(0).data(), expected);
  }
}

TEST(Encode, ABatchOfAnswersParsesAsItsMessage) {
  std::vector<Outgoing> message;
  for (const std::uint64_t id : {7, 8}) {
    RequestFinished finished{id, absl::OkStatus(), {}, {}, {}, {}};
    finished.d = {DataType::kF32, 1, 100, Order::kRowMajor, 100};
    finished.payload = AllocateHostBuffer(400);
    std::memset(finished.payload.front().data, static_cast<int>('0' + id), 400);
    message.emplace_back(std::move(finished));
  }
  message.emplace_back(RequestFinished{9, absl::InvalidArgumentError("no"), {}, {}, {}, {}});
  v1::MatmulStreamResponse response;
  ASSERT_TRUE(ParseMessage(EncodeStreamResponse(message, true), &response).ok());
  ASSERT_EQ(response.batch().finished_size(), 3);
  for (const int i : {0, 1}) {
    const auto& finished = response.batch().finished(i);
    EXPECT_EQ(finished.request_id(), static_cast<std::uint64_t>(i) + 7);
    EXPECT_EQ(finished.code(), 0u);
    ASSERT_EQ(finished.payload_size(), 1);
    EXPECT_EQ(finished.payload(0).data(), std::string(400, static_cast<char>('7' + i)));
  }
  EXPECT_EQ(response.batch().finished(2).code(), 3u);
  EXPECT_EQ(response.batch().finished(2).message(), "no");
  EXPECT_FALSE(response.batch().finished(2).has_d());
}

// So a client learns from its first answer that it may send batches.
TEST(Encode, OneAnswerIsABatchToAClientThatAcceptsBatches) {
  const std::vector<Outgoing> finished = {RequestFinished{7, absl::OkStatus(), {}, {}, {}, {}}};
  const std::vector<Outgoing> accepted = {RequestAccepted{8}};
  v1::MatmulStreamResponse response;
  ASSERT_TRUE(ParseMessage(EncodeStreamResponse(finished, true), &response).ok());
  ASSERT_EQ(response.batch().finished_size(), 1);
  EXPECT_EQ(response.batch().finished(0).request_id(), 7u);
  ASSERT_TRUE(ParseMessage(EncodeStreamResponse(finished, false), &response).ok());
  EXPECT_EQ(response.finished().request_id(), 7u);
  ASSERT_TRUE(ParseMessage(EncodeStreamResponse(accepted, true), &response).ok());
  EXPECT_EQ(response.accepted().request_id(), 8u);
}

TEST(Decode, DurationsAndDigestsAreWhole) {
  google::protobuf::Duration duration;
  duration.set_seconds(1);
  duration.set_nanos(999999999);
  EXPECT_EQ(*DecodeDuration("lease", duration), 1999999999);
  duration.set_nanos(1000000000);
  EXPECT_EQ(DecodeDuration("lease", duration).status().message(),
            "lease.nanos is 1000000000; it must be 0 to 999999999");
  duration.set_nanos(0);
  duration.set_seconds(366 * 24 * 3600);
  EXPECT_TRUE(DecodeDuration("lease", duration).ok());
  duration.set_seconds(366 * 24 * 3600 + 1);
  EXPECT_FALSE(DecodeDuration("lease", duration).ok());
  EXPECT_TRUE(DecodeDigest("digest", std::string(32, 'x')).ok());
  for (const std::size_t bytes : {0, 31, 33}) {
    EXPECT_FALSE(DecodeDigest("digest", std::string(bytes, 'x')).ok()) << bytes;
  }
}

TEST(WireTypes, EveryValueComesBack) {
  for (int i = 1; i <= v1::DataType_MAX; ++i) {
    const auto wire = static_cast<v1::DataType>(i);
    ASSERT_TRUE(FromWire(wire).has_value()) << i;
    EXPECT_EQ(ToWire(*FromWire(wire)), wire);
  }
  for (std::size_t i = 0; i < kStageCount; ++i) {
    EXPECT_EQ(ToWire(static_cast<Stage>(i)), static_cast<v1::StageName>(i + 1));
  }
  EXPECT_FALSE(FromWire(v1::DATA_TYPE_UNSPECIFIED).has_value());
}

}  // namespace
}  // namespace gemmd
