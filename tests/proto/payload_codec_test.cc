#include "proto/payload_codec.h"

#include <functional>
#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "proto/chunk_framing.h"
#include "tests/proto/payload_codec_check.h"

namespace gemmd {
namespace {

using testing::kPayloadMessages;
using testing::WhereTheyDiffer;

using Random = std::mt19937;

std::string RandomBytes(Random& random, std::size_t limit) {
  std::string bytes(random() % limit, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

void AppendVarint(std::uint64_t value, std::string* to) {
  for (; value >= 0x80; value >>= 7) to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

// A field with a length, perhaps in more bytes than its tag and length need.
std::string Field(Random& random, std::uint32_t number, const std::string& content) {
  std::string field;
  for (std::uint64_t value : {std::uint64_t{number} << 3 | 2, std::uint64_t{content.size()}}) {
    AppendVarint(value, &field);
    for (unsigned i = random() % 40 == 0 ? 1 + random() % 5 : 0; i > 0; --i) {
      field.back() = static_cast<char>(field.back() | 0x80);
      field.push_back('\0');
    }
  }
  return field + content;
}

// A field of any wire type, groups included.
std::string UnknownField(Random& random, int depth) {
  const std::uint32_t number = random() % 4 == 0 ? 1 + random() % 104 : 1000 + random() % 9;
  std::string field;
  switch (random() % 5) {
    case 0:
      AppendVarint(number << 3, &field);
      AppendVarint(random(), &field);
      break;
    case 1:
      AppendVarint(number << 3 | 1, &field);
      return field + std::string(8, 'x');
    case 2:
      AppendVarint(number << 3 | 5, &field);
      return field + std::string(4, 'x');
    case 3:
      AppendVarint(number << 3 | 3, &field);
      while (depth > 0 && random() % 2 == 0) field += UnknownField(random, depth - 1);
      AppendVarint(number << 3 | 4, &field);
      break;
    default:
      return Field(random, number, RandomBytes(random, 20));
  }
  return field;
}

std::string SomeFields(Random& random, const std::function<std::string()>& one) {
  std::string fields;
  while (random() % 4 != 0) fields += random() % 6 == 0 ? UnknownField(random, 3) : one();
  return fields;
}

std::string SomeChunk(Random& random) {
  return SomeFields(random, [&random] {
    v1::Chunk chunk;
    if (random() % 2 == 0) return Field(random, 100, RandomBytes(random, 200));
    if (random() % 2 == 0) chunk.set_request_id(random());
    if (random() % 2 == 0) chunk.set_offset_bytes(random());
    if (random() % 2 == 0) chunk.set_operand(v1::B);
    return chunk.SerializeAsString();
  });
}

std::string SomeHeader(Random& random) {
  v1::MatmulHeader header;
  header.mutable_a()->mutable_data()->set_rows(random());
  header.set_kernel("sm80/a05");
  header.set_alpha(static_cast<double>(random()));
  return header.SerializeAsString();
}

// Bytes that are close to a message of that type: fields in any order, more often than once,
// unknown ones, and now and then a byte changed, lost or too many.
std::string SomeMessage(Random& random, int message) {
  const bool is_stream = message == 2 || message == 3;
  const bool is_infer = message == 6 || message == 7;
  // Raw contents have fields of their own, 6 of answers and 7 of requests.
  const auto infer_field = [&random] {
    return Field(random, 1 + random() % 8, RandomBytes(random, 20));
  };
  std::string bytes = SomeFields(random, [&] {
    if (is_infer) return infer_field();
    if (message == 8) return Field(random, 1 + random() % 2, SomeFields(random, infer_field));
    if (random() % 2 == 0) return Field(random, 100, SomeChunk(random));
    if (!is_stream) return Field(random, 1 + random() % 3, SomeHeader(random));
    return Field(random, 1 + random() % 4, SomeFields(random, [&random] {
                   return random() % 2 == 0 ? Field(random, 100, SomeChunk(random))
                                            : Field(random, 2, SomeHeader(random));
                 }));
  });
  for (unsigned i = random() % 3 == 0 ? 1 + random() % 3 : 0; i > 0 && !bytes.empty(); --i) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 3) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, 1 + random() % 4);
        break;
      default:
        bytes.insert(at, RandomBytes(random, 4));
    }
  }
  return bytes;
}

TEST(PayloadCodecTest, AgreesWithTheGeneratedParser) {
  Random random(20261121);
  for (int i = 0; i < 60000; ++i) {
    const int message = i % kPayloadMessages;
    const std::string bytes = SomeMessage(random, message);
    std::vector<std::size_t> cuts(random() % 5);
    for (std::size_t& cut : cuts) cut = random() % (bytes.size() + 1);
    const std::string difference = WhereTheyDiffer(message, bytes, cuts);
    ASSERT_EQ(difference, "") << "message type " << message << ", iteration " << i << "\n"
                              << absl::CHexEscape(bytes);
  }
}

TEST(PayloadCodecTest, DataAreViewsOfTheMessage) {
  v1::MatmulRequest request;
  request.mutable_header()->set_kernel("cpu/panel_f32");
  std::string head = request.SerializeAsString();
  v1::Chunk fields;
  fields.set_operand(v1::A);
  head += ChunkPrefix(v1::MatmulRequest::kPayloadFieldNumber, fields, 6);
  const std::string first = "abc";
  const std::string second = "def";
  v1::MatmulRequest parsed;
  PayloadViews payload;
  ASSERT_TRUE(ParseAroundPayload({head, first, second}, &parsed, &payload));
  EXPECT_EQ(parsed.header().kernel(), "cpu/panel_f32");
  ASSERT_EQ(parsed.payload_size(), 1);
  EXPECT_EQ(parsed.payload(0).operand(), v1::A);
  const auto pieces = payload.of(parsed.payload(0));
  ASSERT_EQ(pieces.size(), 2);
  EXPECT_EQ(pieces[0].data(), first.data());
  EXPECT_EQ(pieces[1].data(), second.data());
  EXPECT_EQ(pieces[1].size(), 3);
}

TEST(PayloadCodecTest, RawContentsAreViewsInTheirOrder) {
  inference::ModelInferRequest request;
  request.set_model_name("matmul_fp32");
  for (const char* data : {"first", "", "third"}) request.add_raw_input_contents(data);
  const std::string bytes = request.SerializeAsString();
  inference::ModelInferRequest parsed;
  PayloadViews payload;
  ASSERT_TRUE(ParseAroundPayload({bytes}, &parsed, &payload));
  EXPECT_EQ(parsed.model_name(), "matmul_fp32");
  ASSERT_EQ(parsed.raw_input_contents_size(), 3);
  const auto third = payload.of(parsed.raw_input_contents(2));
  ASSERT_EQ(third.size(), 1u);
  EXPECT_EQ(third[0], "third");
  EXPECT_GE(third[0].data(), bytes.data());
  EXPECT_LT(third[0].data(), bytes.data() + bytes.size());
  EXPECT_TRUE(payload.of(parsed.raw_input_contents(1)).empty());
}

TEST(PayloadCodecTest, AChunkWithoutDataHasNone) {
  v1::MatmulRequest request;
  request.add_payload()->set_operand(v1::B);
  const std::string bytes = request.SerializeAsString();
  v1::MatmulRequest parsed;
  PayloadViews payload;
  ASSERT_TRUE(ParseAroundPayload({bytes}, &parsed, &payload));
  ASSERT_EQ(parsed.payload_size(), 1);
  EXPECT_TRUE(payload.of(parsed.payload(0)).empty());
}

TEST(PayloadCodecTest, WhatIsBesidesThePayloadIsBounded) {
  constexpr int kEmptyChunks = 400000;  // 3 bytes each
  v1::MatmulRequest request;
  for (int i = 0; i < kEmptyChunks; ++i) request.add_payload();
  v1::MatmulRequest parsed;
  PayloadViews payload;
  EXPECT_FALSE(ParseAroundPayload({request.SerializeAsString()}, &parsed, &payload));
  EXPECT_EQ(payload.other_bytes(), 3U * kEmptyChunks);
  EXPECT_EQ(payload.most_other_bytes(), 1U << 20);
  request.mutable_payload(7)->set_data(std::string(2 << 20, 'x'));
  const std::string with_data = request.SerializeAsString();
  EXPECT_TRUE(ParseAroundPayload({with_data}, &parsed, &payload));
  EXPECT_EQ(parsed.payload_size(), kEmptyChunks);
  EXPECT_EQ(payload.data_bytes(), 2U << 20);
}

// A request has few raw contents, so no more else however large they are.
TEST(PayloadCodecTest, WhatIsBesidesRawContentsIsBoundedByItself) {
  inference::ModelInferRequest request;
  request.add_raw_input_contents(std::string(64 << 20, 'x'));
  request.set_id(std::string((1 << 20) - 20, 'x'));
  inference::ModelInferRequest parsed;
  PayloadViews payload;
  EXPECT_TRUE(ParseAroundPayload({request.SerializeAsString()}, &parsed, &payload));
  request.set_id(std::string(1 << 20, 'x'));
  EXPECT_FALSE(ParseAroundPayload({request.SerializeAsString()}, &parsed, &payload));
  EXPECT_EQ(payload.most_other_bytes(), 1U << 20);
}

TEST(PayloadCodecTest, EachOfABatchHasItsOwnPayload) {
  v1::MatmulStreamRequest request;
  v1::MatmulStreamResponse response;
  for (const char* data : {"first", "", "third"}) {
    request.mutable_batch()->add_begins()->add_payload()->set_data(data);
    response.mutable_batch()->add_finished()->add_payload()->set_data(data);
  }
  const std::string sent = request.SerializeAsString();
  const std::string received = response.SerializeAsString();
  request.Clear();
  response.Clear();
  PayloadViews begins;
  PayloadViews finished;
  ASSERT_TRUE(ParseAroundPayload({sent}, &request, &begins));
  ASSERT_TRUE(ParseAroundPayload({received}, &response, &finished));
  ASSERT_EQ(request.batch().begins_size(), 3);
  ASSERT_EQ(response.batch().finished_size(), 3);
  for (const int i : {0, 2}) {
    const char* const data = i == 0 ? "first" : "third";
    ASSERT_EQ(begins.of(request.batch().begins(i).payload(0)).size(), 1u);
    EXPECT_EQ(begins.of(request.batch().begins(i).payload(0))[0], data);
    EXPECT_EQ(finished.of(response.batch().finished(i).payload(0))[0], data);
  }
  EXPECT_TRUE(begins.of(request.batch().begins(1).payload(0)).empty());
}

TEST(PayloadCodecTest, AnEventReplacedByAnotherTakesItsPayloadAlong) {
  v1::MatmulStreamRequest begin;
  begin.mutable_begin()->add_payload()->set_data("of begin");
  v1::MatmulStreamRequest chunk;
  chunk.mutable_chunk()->set_data("of chunk");
  const std::string bytes = begin.SerializeAsString() + chunk.SerializeAsString();
  v1::MatmulStreamRequest parsed;
  PayloadViews payload;
  ASSERT_TRUE(ParseAroundPayload({bytes}, &parsed, &payload));
  ASSERT_TRUE(parsed.has_chunk());
  const auto pieces = payload.of(parsed.chunk());
  ASSERT_EQ(pieces.size(), 1);
  EXPECT_EQ(pieces[0], "of chunk");
}

}  // namespace
}  // namespace gemmd
