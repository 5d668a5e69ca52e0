// Strided batches over a real socket: each product has the bits that it has alone.
#include "tests/testing/products/strided_batch.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using testing::StridedBatch;

class Served {
 public:
  explicit Served(std::vector<std::string> flags) : server_(std::move(flags)) {}

  grpc::Status Call(const v1::MatmulRequest& request, v1::MatmulResponse* response) {
    grpc::ClientContext context;
    return stub_->Matmul(&context, request, response);
  }
  std::string ResultOf(const v1::MatmulRequest& request, v1::Receipt* receipt = nullptr) {
    v1::MatmulResponse response;
    const grpc::Status status = Call(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (receipt != nullptr) *receipt = response.receipt();
    return response.payload_size() == 1 ? response.payload(0).data() : "";
  }

  // The batch's results are those of its products alone.
  void ExpectBitsOfEach(const StridedBatch& batch) {
    v1::Receipt receipt;
    const std::string all = ResultOf(testing::MakeRequest(batch), &receipt);
    const std::size_t stride = batch.result_stride();
    const std::size_t one = batch.problem.d.size_bytes();
    ASSERT_EQ(all.size(), static_cast<std::size_t>(batch.count - 1) * stride + one);
    EXPECT_EQ(receipt.products(), static_cast<std::uint64_t>(batch.count));
    EXPECT_EQ(receipt.flops(), static_cast<double>(batch.count) * batch.problem.flops());
    EXPECT_EQ(receipt.payload_bytes_out(), all.size());
    for (std::int64_t i = 0; i < batch.count; ++i) {
      const std::string alone = ResultOf(testing::MakeRequest(batch.problem, batch.of(i)));
      ASSERT_EQ(all.substr(static_cast<std::size_t>(i) * stride, one), alone)
          << ToString(batch.problem) << ", product " << i << " of " << batch.count << ", strides "
          << batch.a_stride << " " << batch.b_stride << " " << batch.c_stride << " "
          << batch.bias_stride;
    }
  }

 private:
  const testing::ServerProcess server_;
  const std::unique_ptr<v1::Gemm::Stub> stub_ = v1::Gemm::NewStub(server_.NewChannel());
};

struct Types {
  DataType a;
  DataType output;
};
constexpr Types kTypes[] = {{DataType::kF64, DataType::kF64},     {DataType::kF32, DataType::kF32},
                            {DataType::kF16, DataType::kF16},     {DataType::kBf16, DataType::kF32},
                            {DataType::kInt8, DataType::kInt32},  {DataType::kInt8, DataType::kF32},
                            {DataType::kFp8E4M3, DataType::kBf16}};

TEST(StridedBatch, EachProductHasTheBitsThatItHasAlone) {
  Served served({"--cpu.threads=2"});
  std::uint32_t seed = 0;
  for (const Types& types : kTypes) {
    const std::vector<Problem> problems = testing::SmallProblems(types.a, types.output);
    for (std::size_t i = 0; i < problems.size(); i += 5) {
      served.ExpectBitsOfEach(testing::RandomBatch(problems[i], 6, ++seed));
    }
  }
}

// Where slices are this short, batches go in many.
TEST(StridedBatch, SlicesChangeNoBits) {
  Served served({"--cpu.threads=2", "--scheduling.slice-us=100"});
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    const auto size = static_cast<std::int64_t>(5 + 9 * seed);
    const Problem problem = MakeProblem(size, size + 3, size + 1, DataType::kF32, DataType::kF32);
    served.ExpectBitsOfEach(testing::RandomBatch(problem, 200, seed));
  }
}

// Fewer products than cores go one after another, each on all of them.
TEST(StridedBatch, FewProductsHaveAllCores) {
  Served served({"--cpu.threads=4"});
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    const Problem problem = MakeProblem(70, 40, 33, DataType::kF32, DataType::kF32);
    served.ExpectBitsOfEach(testing::RandomBatch(problem, 3, seed));
  }
}

TEST(StridedBatch, GpuKernelsComputeTheirProducts) {
  Served served({"--device=emulated"});
  std::uint32_t seed = 0;
  for (const Types& types : {Types{DataType::kF16, DataType::kF16},
                             {DataType::kBf16, DataType::kF32},
                             {DataType::kF32, DataType::kF32}}) {
    const std::vector<Problem> problems = testing::SmallProblems(types.a, types.output);
    for (std::size_t i = 0; i < problems.size(); i += 17) {
      served.ExpectBitsOfEach(testing::RandomBatch(problems[i], 4, ++seed));
    }
  }
}

// Groups of the rows of one A, each by a matrix of a stack of B.
void ExpectBitsOfGroups(Served* served, DataType type, DataType output, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&random](int below) { return static_cast<std::int64_t>(random() % below); };
  const std::int64_t count = 1 + draw(6);
  std::vector<std::uint64_t> ends;
  for (std::int64_t i = 0; i < count; ++i) {
    // Groups without rows are common, and one may have many.
    const std::int64_t rows = i == count - 1 ? 1 + draw(9) : draw(4) * draw(i == 1 ? 200 : 7);
    ends.push_back((ends.empty() ? 0 : ends.back()) + static_cast<std::uint64_t>(rows));
  }
  const Problem problem = MakeProblem(static_cast<std::int64_t>(ends.back()), 8 + draw(40),
                                      8 + draw(60), type, output, draw(2) == 1, draw(2) == 1);
  const testing::Operands all(problem, testing::Distribution::kNormal, seed);
  const std::uint64_t b_bytes = problem.b.size_bytes();
  std::string b;
  for (std::int64_t i = 0; i < count; ++i) {
    const testing::PlaneBytes one =
        testing::RandomPlane(problem.b, testing::Distribution::kNormal, random());
    b.append(one.begin(), one.end());
  }
  v1::MatmulRequest request = testing::MakeRequest(problem, all);
  const auto set_b = [](v1::MatmulRequest* to, const std::string& bytes) {
    for (v1::Chunk& chunk : *to->mutable_payload()) {
      if (chunk.operand() == v1::B && chunk.plane() == v1::DATA) chunk.set_data(bytes);
    }
  };
  set_b(&request, b);
  v1::StridedBatch* const batch = request.mutable_header()->mutable_batch();
  batch->set_count(static_cast<std::uint64_t>(count));
  batch->set_b_stride(static_cast<std::uint64_t>(problem.b.rows * problem.b.columns));
  batch->mutable_row_ends()->Add(ends.begin(), ends.end());
  v1::Receipt receipt;
  const std::string d = served->ResultOf(request, &receipt);
  EXPECT_EQ(receipt.products(), static_cast<std::uint64_t>(count));
  EXPECT_EQ(receipt.flops(), problem.flops());
  // All rows by each of the matrices: a row's bits do not depend on the others.
  const auto line = static_cast<std::uint64_t>(problem.n * SizeBits(problem.d.type) / 8);
  ASSERT_EQ(d.size(), static_cast<std::uint64_t>(problem.m) * line);
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    v1::MatmulRequest alone = testing::MakeRequest(problem, all);
    set_b(&alone, b.substr(i * b_bytes, b_bytes));
    const std::string whole = served->ResultOf(alone);
    ASSERT_EQ(d.substr(begin * line, (ends[i] - begin) * line),
              whole.substr(begin * line, (ends[i] - begin) * line))
        << ToString(problem) << ", group " << i << " of " << count;
    begin = ends[i];
  }
}

TEST(Groups, RowsHaveTheBitsThatTheyHaveAlone) {
  Served served({"--cpu.threads=2"});
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    const Types& types = kTypes[seed % 5];
    ExpectBitsOfGroups(&served, types.a, types.output, seed);
  }
}

TEST(Groups, SlicesChangeNoBits) {
  Served served({"--cpu.threads=2", "--scheduling.slice-us=100"});
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    ExpectBitsOfGroups(&served, DataType::kF32, DataType::kF32, 100 + seed);
  }
}

TEST(Groups, GpuKernelsComputeThem) {
  Served served({"--device=emulated"});
  ExpectBitsOfGroups(&served, DataType::kBf16, DataType::kF32, 7);
  ExpectBitsOfGroups(&served, DataType::kF32, DataType::kF32, 8);
}

TEST(Groups, AreVerified) {
  Served served({"--cpu.threads=2"});
  const Problem problem = MakeProblem(9, 8, 7, DataType::kF32, DataType::kF32);
  v1::MatmulRequest request =
      testing::MakeRequest(problem, testing::Operands(problem, testing::Distribution::kNormal, 1));
  request.mutable_header()->mutable_verification()->set_vectors(2);
  v1::StridedBatch* const batch = request.mutable_header()->mutable_batch();
  batch->set_count(3);
  for (const std::uint64_t end : {4, 4, 9}) batch->add_row_ends(end);
  v1::Receipt receipt;
  EXPECT_NE(served.ResultOf(request, &receipt), "");
  EXPECT_LE(receipt.verification_residual(), 1);
}

TEST(StridedBatch, IsVerified) {
  Served served({"--cpu.threads=2"});
  const Problem problem = MakeProblem(9, 8, 7, DataType::kF32, DataType::kF32);
  v1::MatmulRequest request = testing::MakeRequest(testing::RandomBatch(problem, 9, 3));
  request.mutable_header()->mutable_verification()->set_vectors(2);
  v1::Receipt receipt;
  EXPECT_NE(served.ResultOf(request, &receipt), "");
  EXPECT_LE(receipt.verification_residual(), 1);
}

TEST(StridedBatch, WithoutASumThereIsTheBiasOfEach) {
  Served served({"--cpu.threads=2"});
  v1::MatmulRequest request;
  v1::MatmulHeader& header = *request.mutable_header();
  const auto plane = [](v1::Operand* operand, std::uint64_t rows, std::uint64_t columns) {
    operand->mutable_data()->set_type(v1::F32);
    operand->mutable_data()->set_rows(rows);
    operand->mutable_data()->set_columns(columns);
  };
  plane(header.mutable_a(), 2, 0);
  plane(header.mutable_b(), 0, 2);
  plane(header.mutable_bias(), 1, 2);
  header.mutable_batch()->set_count(3);
  header.mutable_batch()->set_bias_stride(1);
  const std::vector<float> bias = {1, 2, 3, 4};
  v1::Chunk* const chunk = request.add_payload();
  chunk->set_operand(v1::BIAS);
  chunk->set_data(bias.data(), bias.size() * sizeof(float));
  const std::string d = served.ResultOf(request);
  const std::vector<float> expected = {1, 2, 1, 2, 2, 3, 2, 3, 3, 4, 3, 4};
  EXPECT_EQ(d, std::string(reinterpret_cast<const char*>(expected.data()), 48));
}

TEST(StridedBatch, BadOnesAreRefusedAndTheServerGoesOn) {
  Served served({"--cpu.threads=1", "--cpu.memory-bytes=67108864"});
  const auto refused = [&served](std::uint64_t count, std::uint64_t stride) {
    v1::MatmulRequest request = testing::ZeroRequest(4);
    request.mutable_header()->mutable_batch()->set_count(count);
    request.mutable_header()->mutable_batch()->set_a_stride(stride);
    v1::MatmulResponse response;
    const grpc::Status status = served.Call(request, &response);
    return absl::StrCat(static_cast<int>(status.error_code()), " ", status.error_message());
  };
  EXPECT_EQ(refused(0, 0), "3 batch.count is 0; it must be 1 to 16777216");
  EXPECT_EQ(refused(std::uint64_t{1} << 40, 0),
            "3 batch.count is 1099511627776; it must be 1 to 16777216");
  EXPECT_EQ(refused(2, ~std::uint64_t{0}).substr(0, 40),
            "3 the operands and the results of batch.");
  EXPECT_EQ(refused(16777216, 16).substr(0, 30), "3 d is 16777216 x 4 x 4 f32; a");
  // The payload has the matrices of one.
  EXPECT_EQ(refused(2, 16),
            "3 payload of a has 64 bytes, and the next byte is 64; its plane has 128");
  v1::MatmulResponse response;
  EXPECT_TRUE(served.Call(testing::ZeroRequest(4), &response).ok());
}

}  // namespace
}  // namespace gemmd
