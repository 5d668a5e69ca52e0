#include "tests/client/testing/session_wires.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/stream/stream_message.h"
#include "gtest/gtest.h"

namespace gemmd::testing {
namespace {

struct OwnedAnswer : client::StreamAnswer {
  std::string bytes;
};

client::Matrix RandomMatrix(std::uint64_t rows, std::uint64_t columns, std::mt19937_64& random) {
  std::string bytes(rows * columns, 0);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return *client::Matrix::Create(
      client::MatrixFormat{DataType::kInt8, rows, columns, Order::kRowMajor, 0}, std::move(bytes));
}

}  // namespace

std::shared_ptr<client::StreamAnswer> AnswerOf(const v1::MatmulStreamResponse& message) {
  const auto answer = std::make_shared<OwnedAnswer>();
  answer->bytes = message.SerializeAsString();
  EXPECT_TRUE(ParseAroundPayload({answer->bytes}, &answer->message, &answer->payload));
  return answer;
}

v1::MatmulStreamRequest Written(const client::Outgoing& outgoing) {
  const grpc::ByteBuffer bytes = client::StreamMessage(outgoing, absl::UnixEpoch());
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(bytes.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  v1::MatmulStreamRequest message;
  EXPECT_TRUE(message.ParseFromString(text));
  return message;
}

std::shared_ptr<Asked> Ask(std::uint64_t m, std::uint64_t n, std::uint64_t k,
                           std::mt19937_64& random, bool with_bias) {
  const client::Matrix a = RandomMatrix(m, k, random);
  const client::Matrix b = RandomMatrix(k, n, random);
  client::MatmulInputs inputs{a, b};
  std::string all = absl::StrCat(a.bytes(), b.bytes());
  if (with_bias) {
    const client::Matrix bias = RandomMatrix(1, n, random);
    absl::StrAppend(&all, bias.bytes());
    inputs.bias = bias;
  }
  client::MatmulOptions options;
  options.output_type = DataType::kInt8;
  const auto asked = std::make_shared<Asked>();
  asked->matmul = client::Encode(std::move(inputs), options);
  asked->product = ScriptedProduct(all, m * n);
  return asked;
}

client::StreamRequest RequestOf(const std::shared_ptr<Asked>& asked, std::uint64_t chunk_bytes,
                                absl::Time deadline) {
  client::StreamRequest request;
  request.matmul = asked->matmul;
  request.deadline = deadline;
  request.chunk_bytes = chunk_bytes;
  request.done = [asked](absl::StatusOr<client::Answer> result, const client::Pushback& pushback) {
    ++asked->ends;
    asked->status = result.status();
    asked->pushback = pushback;
    if (result.ok()) asked->result = std::string(result->d->bytes());
  };
  return request;
}

SessionWires::SessionWires(int streams, std::uint64_t seed)
    : state(streams), peer(seed), random(seed), streams_(streams), knows_batches_(seed % 2 == 1) {
  if (knows_batches_) state.ReceivesBatches();
}

void SessionWires::Do(client::Actions actions) {
  for (client::Outgoing& message : actions.writes) {
    EXPECT_EQ(writing.count(message.stream), 0U) << "two writes on a stream";
    const int stream = message.stream;
    writing.emplace(stream, std::move(message));
  }
  for (client::ChunkCopy& copy : actions.copies) copies.push_back(std::move(copy));
  for (const client::StreamEnd& end : actions.ends) client::Notify(end);
  if (actions.wake != absl::InfiniteFuture()) wakes.push_back(actions.wake);
  cancelled = cancelled || actions.cancel_streams;
}

bool SessionWires::Step() {
  std::vector<std::function<void()>> steps;
  for (const auto& [stream, message] : writing) {
    steps.emplace_back([this, i = stream] { FinishWrite(i); });
  }
  for (int i = 0; i < streams_; ++i) {
    if (!peer.has_to_send(i) || cancelled) continue;
    steps.emplace_back([this, i] { Deliver(i); });
    if (knows_batches_) steps.emplace_back([this, i] { DeliverBatch(i); });
  }
  if (waits_) steps.emplace_back([this] { Flush(); });
  for (std::size_t i = 0; i < copies.size(); ++i) steps.emplace_back([this, i] { Copy(i); });
  if (steps.empty()) return false;
  steps[random() % steps.size()]();
  return true;
}

void SessionWires::Run() {
  while (Step()) {
  }
}

void SessionWires::FinishWrite(int stream) {
  const client::Outgoing message = std::move(writing.extract(stream).mapped());
  peer.Receive(stream, Written(message));
  Do(state.Written(stream));
}

void SessionWires::DeliverBatch(int stream) {
  std::vector<std::shared_ptr<client::StreamAnswer>> batch;
  std::shared_ptr<client::StreamAnswer> other;
  while (other == nullptr && peer.has_to_send(stream)) {
    std::shared_ptr<client::StreamAnswer> answer = AnswerOf(*peer.Send(stream));
    (answer->message.has_finished() ? batch.emplace_back() : other) = std::move(answer);
  }
  if (!batch.empty()) Do(state.ReceivedBatch(stream, batch));
  if (other != nullptr) Do(state.Received(stream, std::move(other)));
}

void SessionWires::Flush() {
  waits_ = false;
  Do(state.Flush());
}

void SessionWires::Copy(std::size_t index) {
  const client::ChunkCopy copy = std::move(copies[index]);
  copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(index));
  const v1::Chunk& chunk = copy.from->message.chunk();
  Do(state.Copied(copy.request_id,
                  copy.into->Copy(chunk.offset_bytes(), copy.from->payload.of(chunk))));
}

void SessionWires::Start(client::StreamRequest request, std::uint64_t* id, bool waits) {
  waits_ = waits_ || waits;
  Do(state.Start(std::move(request), id, waits));
}

std::uint64_t SessionWires::Start(client::StreamRequest request, bool waits) {
  std::uint64_t id = 0;
  Start(std::move(request), &id, waits);
  return id;
}

void SessionWires::EndAll(const absl::Status& first) {
  for (int i = 0; i < streams_; ++i) {
    Do(state.Ended(i, i == 0 ? first : absl::CancelledError("broken")));
  }
}

}  // namespace gemmd::testing
