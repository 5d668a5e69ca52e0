// Products that a client of another language encodes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/status.pb.h"
#include "gmock/gmock.h"
#include "tests/client/c/c_fixture.h"

namespace gemmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct End {
  gemmd_result* result = nullptr;
  gemmd_error* error = nullptr;
};

void Tell(void* context, gemmd_result* result, gemmd_error* error) {
  static_cast<std::promise<End>*>(context)->set_value({result, error});
}

void SetPlane(v1::DataType type, std::uint64_t rows, std::uint64_t columns, v1::Plane* plane) {
  plane->set_type(type);
  plane->set_rows(rows);
  plane->set_columns(columns);
}

class EncodedTest : public CTest {
 protected:
  EncodedTest() {
    SetPlane(v1::F32, 2, 3, header_.mutable_a()->mutable_data());
    SetPlane(v1::F32, 3, 2, header_.mutable_b()->mutable_data());
    planes_ = {{v1::A, v1::DATA, a_values_.data(), 24}, {v1::B, v1::DATA, b_values_.data(), 24}};
    encoded_.d_type = v1::F32;
    encoded_.d_rows = encoded_.d_columns = 2;
    encoded_.d = d_.data();
  }

  // Fills in what is kept here.
  const gemmd_encoded_matmul* Encoded() {
    bytes_ = header_.SerializeAsString();
    encoded_.header = bytes_.data();
    encoded_.header_bytes = bytes_.size();
    encoded_.planes = planes_.data();
    encoded_.plane_count = static_cast<std::int64_t>(planes_.size());
    return &encoded_;
  }

  // The end of one that begins.
  End EndOfOne() {
    std::promise<End> end;
    gemmd_error* error = nullptr;
    const gemmd_code code = gemmd_matmul_encoded(client_, Encoded(), Tell, &end, nullptr, &error);
    EXPECT_EQ("OK", Told(code, error));
    return code == GEMMD_OK ? end.get_future().get() : End();
  }

  // The response of one that succeeds.
  v1::MatmulResponse Response(int32_t transport) {
    const End end = EndOfOne();
    EXPECT_EQ("OK", Told(gemmd_error_code(end.error), end.error));
    std::uint64_t bytes = 0;
    const void* const data = gemmd_result_response(end.result, &bytes);
    v1::MatmulResponse response;
    EXPECT_TRUE(response.ParseFromArray(data, static_cast<int>(bytes)));
    gemmd_route route = GEMMD_ROUTE_INIT;
    EXPECT_EQ(GEMMD_OK, gemmd_result_route(end.result, &route, nullptr));
    EXPECT_EQ(transport, route.transport);
    gemmd_result_free(end.result);
    return response;
  }

  std::string Refusal(const std::function<void(gemmd_encoded_matmul&)>& change) {
    gemmd_encoded_matmul changed = *Encoded();
    change(changed);
    std::promise<End> end;
    gemmd_error* error = nullptr;
    gemmd_call* call = reinterpret_cast<gemmd_call*>(this);
    const gemmd_code code = gemmd_matmul_encoded(client_, &changed, Tell, &end, &call, &error);
    EXPECT_EQ(nullptr, call);
    return Told(code, error);
  }

  v1::MatmulHeader header_;
  std::vector<gemmd_encoded_plane> planes_;
  gemmd_encoded_matmul encoded_ = GEMMD_ENCODED_MATMUL_INIT;
  std::vector<float> d_ = std::vector<float>(4, -1);

 private:
  std::string bytes_;
};

TEST_F(EncodedTest, DIsWrittenWhereItWasAskedForByEitherTransport) {
  for (const int32_t transport : {GEMMD_TRANSPORT_UNARY, GEMMD_TRANSPORT_STREAM}) {
    encoded_.transport = transport;
    std::fill(d_.begin(), d_.end(), -1);
    const v1::MatmulResponse response = Response(transport);
    EXPECT_THAT(d_, ElementsAre(8, 9, 20, 18));
    EXPECT_EQ(2u, response.d().rows());
    EXPECT_EQ(0, response.payload_size());
    EXPECT_EQ(24, response.receipt().flops());
  }
  header_.set_output_order(v1::COLUMN_MAJOR);
  encoded_.d_is_column_major = true;
  Response(GEMMD_TRANSPORT_STREAM);
  EXPECT_THAT(d_, ElementsAre(8, 20, 9, 18));
}

TEST_F(EncodedTest, ResultsOfABatchFollowEachOther) {
  a_values_.insert(a_values_.end(), {2, 4, 6, 8, 10, 12});
  planes_[0].data = a_values_.data();
  planes_[0].data_bytes = 48;
  header_.mutable_batch()->set_count(2);
  header_.mutable_batch()->set_a_stride(6);
  encoded_.d_count = 2;
  for (const int32_t transport : {GEMMD_TRANSPORT_UNARY, GEMMD_TRANSPORT_STREAM}) {
    d_.assign(8, -1);
    encoded_.d = d_.data();
    encoded_.transport = transport;
    EXPECT_EQ(2u, Response(transport).receipt().products());
    EXPECT_THAT(d_, ElementsAre(8, 9, 20, 18, 16, 18, 40, 36));
  }
  EXPECT_THAT(Refusal([](gemmd_encoded_matmul& e) { e.d_count = 3; }),
              HasSubstr("encoded.d_count is 3: the header's batch has 2 results"));
  // As a program passes it that was compiled before.
  EXPECT_THAT(
      Refusal([](gemmd_encoded_matmul& e) { e.size = offsetof(gemmd_encoded_matmul, d_count); }),
      HasSubstr("encoded.d_count is 0: the header's batch has 2 results"));
}

TEST_F(EncodedTest, OneThatStaysHasAHandleAndNeedsNoMemory) {
  header_.mutable_keep_result();
  encoded_.d = nullptr;
  const v1::MatmulResponse kept = Response(GEMMD_TRANSPORT_UNARY);
  EXPECT_NE("", kept.handle());

  header_.clear_keep_result();
  header_.mutable_b()->Clear();
  header_.mutable_b()->set_handle(kept.handle());
  planes_.pop_back();
  header_.mutable_a()->mutable_data()->set_columns(2);
  planes_[0].data_bytes = 16;
  encoded_.d = d_.data();
  Response(GEMMD_TRANSPORT_UNARY);
  EXPECT_THAT(d_, ElementsAre(48, 45, 104, 99));  // by {1, 2, 3, 4}
}

TEST_F(EncodedTest, AnErrorHasTheServersDetails) {
  header_.mutable_b()->Clear();
  header_.mutable_b()->set_handle("none");
  planes_.pop_back();
  const End end = EndOfOne();
  EXPECT_EQ(GEMMD_NOT_FOUND, gemmd_error_code(end.error));
  std::uint64_t bytes = 0;
  const void* const data = gemmd_error_details(end.error, &bytes);
  v1::StatusDetails details;
  ASSERT_TRUE(details.ParseFromArray(data, static_cast<int>(bytes)));
  ASSERT_EQ(1, details.details_size());
  v1::MissingOperands missing;
  ASSERT_TRUE(details.details(0).UnpackTo(&missing));
  EXPECT_THAT(missing.handles(), ElementsAre("none"));
  gemmd_error_free(end.error);
  EXPECT_EQ(nullptr, gemmd_error_details(nullptr, &bytes));
  EXPECT_EQ(0u, bytes);
}

TEST_F(EncodedTest, ADThatTheServerMakesOtherwiseIsRefusedAndNothingIsWritten) {
  encoded_.d_columns = 3;  // the header's is 2 x 2
  const End end = EndOfOne();
  EXPECT_EQ(GEMMD_INTERNAL, gemmd_error_code(end.error));
  EXPECT_THAT(gemmd_error_message(end.error), HasSubstr("2 x 3 f32 row-major was asked for"));
  EXPECT_THAT(d_, ElementsAre(-1, -1, -1, -1));
  gemmd_error_free(end.error);
}

TEST_F(EncodedTest, EachFieldIsChecked) {
  using E = gemmd_encoded_matmul;
  const auto invalid = [](const std::string& rest) { return "INVALID_ARGUMENT: " + rest; };
  EXPECT_EQ(invalid("encoded.header is NULL: it is needed [encoded.header, -1]"),
            Refusal([](E& e) { e.header = nullptr; }));
  EXPECT_EQ(invalid("encoded.header is 2 bytes that are no gemmd.v1.MatmulHeader "
                    "[encoded.header, -1]"),
            Refusal([](E& e) { e.header = "\x0a\x7f", e.header_bytes = 2; }));
  EXPECT_THAT(Refusal([](E& e) { e.header_bytes = std::uint64_t{1} << 40; }),
              HasSubstr("encoded.header_bytes is 1099511627776"));
  EXPECT_THAT(Refusal([](E& e) { e.plane_count = 21; }), HasSubstr("encoded.plane_count is 21"));
  EXPECT_THAT(Refusal([](E& e) { e.plane_count = -1; }), HasSubstr("encoded.plane_count is -1"));
  EXPECT_EQ(invalid("encoded.planes is NULL: it is needed [encoded.planes, -1]"),
            Refusal([](E& e) { e.planes = nullptr; }));
  EXPECT_THAT(Refusal([](E& e) { e.d_type = v1::UINT4; }), HasSubstr("encoded.d_type is 14"));
  EXPECT_THAT(Refusal([](E& e) { e.d_type = 99; }), HasSubstr("encoded.d_type is 99"));
  EXPECT_THAT(Refusal([](E& e) { e.d_rows = 0; }), HasSubstr("encoded.d_rows is 0"));
  EXPECT_THAT(Refusal([](E& e) { e.d_columns = std::int64_t{1} << 31; }),
              HasSubstr("encoded.d_columns is 2147483648"));
  EXPECT_EQ(invalid("encoded.d is NULL: it is needed [encoded.d, -1]"),
            Refusal([](E& e) { e.d = nullptr; }));
  EXPECT_THAT(Refusal([](E& e) { e.transport = 3; }), HasSubstr("encoded.transport is 3"));
  EXPECT_THAT(Refusal([](E& e) { e.channels = 65; }), HasSubstr("encoded.channels is 65"));
  EXPECT_THAT(Refusal([](E& e) { e.chunk_bytes = 1; }), HasSubstr("encoded.chunk_bytes is 1"));
  EXPECT_THAT(Refusal([](E& e) { e.timeout_us = -1; }), HasSubstr("encoded.timeout_us is -1"));
  EXPECT_THAT(Refusal([](E& e) { e.size = 3; }), HasSubstr("encoded.size is 3"));

  planes_[1].operand = v1::D;
  EXPECT_THAT(Refusal([](E&) {}), HasSubstr("encoded.planes.1.operand is 5"));
  planes_[1].operand = v1::B;
  planes_[1].plane = 5;
  EXPECT_THAT(Refusal([](E&) {}), HasSubstr("encoded.planes.1.plane is 5"));
  planes_[1].plane = v1::DATA;
  planes_[1].data = nullptr;
  EXPECT_THAT(Refusal([](E&) {}), HasSubstr("encoded.planes.1.data is NULL"));

  gemmd_error* error = nullptr;
  gemmd_code code = gemmd_matmul_encoded(client_, nullptr, Tell, nullptr, nullptr, &error);
  EXPECT_EQ(invalid("encoded is NULL: it is needed [encoded, -1]"), Told(code, error));
  code = gemmd_matmul_encoded(client_, Encoded(), nullptr, nullptr, nullptr, &error);
  EXPECT_EQ(invalid("callback is NULL: it is needed [callback, -1]"), Told(code, error));
  code = gemmd_matmul_encoded(nullptr, Encoded(), Tell, nullptr, nullptr, &error);
  EXPECT_EQ(invalid("client is NULL: it is needed [client, -1]"), Told(code, error));
}

TEST_F(EncodedTest, OtherResultsHaveNoResponse) {
  const gemmd_operand a = OperandOf(a_);
  const gemmd_operand b = OperandOf(b_);
  gemmd_result* result = nullptr;
  ASSERT_EQ(GEMMD_OK, gemmd_matmul(client_, &a, &b, nullptr, &result, nullptr));
  std::uint64_t bytes = 1;
  EXPECT_EQ(nullptr, gemmd_result_response(result, &bytes));
  EXPECT_EQ(0u, bytes);
  gemmd_route route = GEMMD_ROUTE_INIT;
  EXPECT_EQ(GEMMD_OK, gemmd_result_route(result, &route, nullptr));
  EXPECT_EQ(GEMMD_TRANSPORT_UNARY, route.transport);
  gemmd_result_free(result);
}

}  // namespace
}  // namespace gemmd
