// Uploads that a real server quantizes as they arrive, over the bare wire.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/numbers/quant/quantize.h"
#include "client/client.h"
#include "client/operands.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd::client {
namespace {

constexpr std::uint64_t kRows = 96;
constexpr std::uint64_t kColumns = 200;

Matrix Random(DataType type, std::uint64_t rows, std::uint64_t columns, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const MatrixFormat format{type, rows, columns, Order::kRowMajor, 0};
  std::string bytes;
  for (std::uint64_t i = 0; i < rows * columns; ++i) {
    const float value = normal(random);
    const auto* const at = reinterpret_cast<const char*>(&value);
    // bf16 is the upper half.
    bytes.append(type == DataType::kF32 ? at : at + 2, type == DataType::kF32 ? 4 : 2);
  }
  return *Matrix::Create(format, std::move(bytes));
}

class StoredForm : public ::testing::Test {
 protected:
  StoredForm() {
    channel_ = server_.NewChannel();
    stub_ = v1::Operands::NewStub(channel_);
    options_.channel.target = server_.address();
  }

  // An upload of the whole matrix, to be kept as `stored`.
  grpc::Status Upload(const OperandSource& source, const v1::Operand& stored,
                      v1::UploadResponse* response, bool says_so = true) {
    grpc::ClientContext context;
    auto stream = stub_->Upload(&context, response);
    v1::UploadRequest begin;
    begin.mutable_begin()->set_digest(source.digest());
    *begin.mutable_begin()->mutable_operand() = source.Describe();
    *begin.mutable_begin()->mutable_stored_form() = stored;
    stream->Write(begin);
    v1::UploadRequest chunk;
    chunk.mutable_chunk()->set_data(std::string(source.data().bytes()));
    stream->Write(chunk);
    // The answer comes without the stream's end, too.
    if (says_so) stream->WritesDone();
    return stream->Finish();
  }

  // mxfp8 with blocks along rows or columns of the data.
  static v1::Operand Mxfp8(bool k_is_columns) {
    v1::Operand stored;
    const auto set = [](v1::Plane* plane, v1::DataType type, std::uint64_t rows,
                        std::uint64_t columns) {
      plane->set_type(type);
      plane->set_rows(rows);
      plane->set_columns(columns);
    };
    set(stored.mutable_data(), v1::FP8_E4M3, kRows, kColumns);
    set(stored.mutable_scales(), v1::E8M0, k_is_columns ? kRows : (kRows + 31) / 32,
        k_is_columns ? (kColumns + 31) / 32 : kColumns);
    stored.mutable_quantization()->set_block_k(32);
    return stored;
  }

  v1::OperandStatistics Statistics() const {
    grpc::ClientContext context;
    v1::StatisticsResponse response;
    EXPECT_TRUE(v1::Admin::NewStub(channel_)
                    ->Statistics(&context, v1::StatisticsRequest(), &response)
                    .ok());
    return response.operands();
  }

  testing::ServerProcess server_{std::vector<std::string>{"--cpu.threads=1"}};
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Operands::Stub> stub_;
  ClientOptions options_;
};

TEST_F(StoredForm, IsWhatAClientThatQuantizesWouldUpload) {
  for (const DataType type : {DataType::kF32, DataType::kBf16}) {
    const OperandSource source = *OperandSource::Create(Random(type, kRows, kColumns, 1));
    v1::UploadResponse response;
    const grpc::Status status = Upload(source, Mxfp8(true), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const v1::ResidentOperand& resident = response.resident();
    EXPECT_EQ(response.saved_bytes(), source.size_bytes() - resident.size_bytes());
    EXPECT_EQ(resident.operand().data().type(), v1::FP8_E4M3);

    std::vector<float> values(kRows * kColumns);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t bytes = type == DataType::kF32 ? 4 : 2;
      std::memcpy(reinterpret_cast<char*>(&values[i]) + 4 - bytes,
                  source.data().bytes().data() + i * bytes, bytes);
    }
    RealView real;
    real.data = values.data();
    real.lines = kRows;
    real.k = real.line_stride = kColumns;
    const QuantizedMatrix quantized = *Quantize(*FindQuantFormat("mxfp8-e4m3"), real);
    Operands operands(options_);
    const auto back = operands.Get({resident.handle(), {}});
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(back->data.bytes() ==
                absl::string_view(reinterpret_cast<const char*>(quantized.codes.data()),
                                  quantized.codes.size()));
    // Under the digest that its uploader would give it.
    const OperandSource same = *OperandSource::Create(*back);
    EXPECT_EQ(resident.digest(), same.digest());
    // And it multiplies as that.
    Client client(options_);
    const Matrix x = Random(DataType::kBf16, kColumns, 16, 2);
    const auto by_name = client.Matmul({OperandName{resident.handle(), {}}, InlineOperand{x}}, {});
    const auto inlined = client.Matmul({*back, InlineOperand{x}}, {});
    ASSERT_TRUE(by_name.ok() && inlined.ok()) << by_name.status() << inlined.status();
    EXPECT_TRUE(by_name->d->bytes() == inlined->d->bytes());
    ASSERT_TRUE(operands.Release({resident.handle(), {}}).ok());
    EXPECT_EQ(Statistics().reserved_bytes(), 0u) << "what was sent is gone, too";
  }
}

TEST_F(StoredForm, IsAnsweredWhetherOrNotTheStreamEnds) {
  const OperandSource source = *OperandSource::Create(Random(DataType::kBf16, kRows, kColumns, 1));
  v1::UploadResponse first;
  ASSERT_TRUE(Upload(source, Mxfp8(false), &first, false).ok());
  v1::UploadResponse second;
  ASSERT_TRUE(Upload(source, Mxfp8(false), &second).ok());
  EXPECT_EQ(first.resident().handle(), second.resident().handle());
  // Kept as it comes, the matrix is another operand than its stored form.
  Operands operands(options_);
  const auto by_library = operands.PutAs(source, Mxfp8(false), absl::Minutes(3));
  ASSERT_TRUE(by_library.ok()) << by_library.status();
  EXPECT_EQ(by_library->resident().handle(), first.resident().handle());
  EXPECT_EQ(by_library->resident().lease().seconds(), 600) << "a lease does not get shorter";
  EXPECT_EQ(by_library->saved_bytes(), first.saved_bytes());
  const auto plain = operands.Put(source);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->digest(), source.digest());
  EXPECT_EQ(Statistics().residents(), 2u);
}

TEST_F(StoredForm, BadInputIsNamedByField) {
  const OperandSource source = *OperandSource::Create(Random(DataType::kBf16, kRows, kColumns, 1));
  const auto expect = [&](const v1::Operand& stored, const std::string& message) {
    v1::UploadResponse response;
    const grpc::Status status = Upload(source, stored, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), message);
  };
  v1::Operand stored;
  expect(stored, "begin.stored_form.data is missing");
  stored = Mxfp8(true);
  stored.mutable_data()->set_rows(kRows + 1);
  stored.mutable_scales()->set_rows(kRows + 1);
  expect(stored,
         "begin.stored_form.data is 97 x 200 row_major; it must be as begin.operand.data, 96 x 200 "
         "row_major");
  stored = Mxfp8(true);
  stored.mutable_data()->set_order(v1::COLUMN_MAJOR);
  expect(stored,
         "begin.stored_form.data is 96 x 200 column_major; it must be as begin.operand.data, 96 x "
         "200 row_major");
  stored = Mxfp8(true);
  stored.clear_scales();
  stored.clear_quantization();
  expect(stored,
         "begin.stored_form.scales is missing; it says what of begin.stored_form.data is quantized "
         "together");
  stored = Mxfp8(true);
  stored.mutable_data()->set_type(v1::BF16);
  expect(stored,
         "begin.stored_form.scales is set, and begin.stored_form.data.type is bf16; only quantized "
         "types have scales");
  stored = Mxfp8(true);
  stored.mutable_scales()->set_columns(6);
  expect(stored,
         "begin.stored_form.scales is 96 x 6; it must be 96 x 7: the data are 96 x 200, in blocks "
         "of 1 x 32");
  stored = Mxfp8(true);
  stored.set_handle("a-1");
  expect(stored, "begin.stored_form has a source; an upload brings the bytes itself");

  // Data that are quantized already.
  v1::UploadResponse response;
  MatrixFormat codes{DataType::kInt8, 2, 2, Order::kRowMajor, 0};
  const OperandSource quantized = *OperandSource::Create(*Matrix::Create(codes, "abcd"));
  stored = Mxfp8(true);
  grpc::Status status = Upload(quantized, stored, &response);
  EXPECT_EQ(status.error_message(),
            "begin.stored_form is set, and begin.operand.data.type is int8; only f32, f16 and bf16 "
            "are quantized");

  // An element that no block can hold.
  const float infinity = std::numeric_limits<float>::infinity();
  MatrixFormat one{DataType::kF32, 1, 1, Order::kRowMajor, 0};
  const OperandSource infinite = *OperandSource::Create(
      *Matrix::Create(one, std::string(reinterpret_cast<const char*>(&infinity), 4)));
  stored = Mxfp8(true);
  for (v1::Plane* const plane : {stored.mutable_data(), stored.mutable_scales()}) {
    plane->set_rows(1);
    plane->set_columns(1);
  }
  status = Upload(infinite, stored, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "begin.stored_form: element (0, 0) is inf: quantized matrices are finite");
  EXPECT_EQ(Statistics().residents(), 0u);
  EXPECT_EQ(Statistics().reserved_bytes(), 0u);
}

}  // namespace
}  // namespace gemmd::client
