#include "server/admission/resident_stack.h"

#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/time/units.h"
#include "gtest/gtest.h"
#include "server/admission/admission.h"
#include "tests/server/device/cuda/cuda_fixture.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_device.h"

namespace gemmd {
namespace {

MatrixLayout RowMajor(DataType type, std::int64_t rows, std::int64_t columns) {
  return {type, rows, columns, Order::kRowMajor, columns};
}

PlaneSpec Said(DataType type, std::uint64_t rows, std::uint64_t columns) {
  return {type, rows, columns, Order::kRowMajor, 0};
}

// 12 x 64 int4 with scales of 32 along the columns.
OperandForm Experts() {
  OperandForm form;
  form.data = RowMajor(DataType::kInt4, 12, 64);
  form.scales = RowMajor(DataType::kF16, 12, 2);
  form.zero_points = RowMajor(DataType::kInt8, 12, 2);
  form.blocks = BlockScaling{32, 1};
  return form;
}

std::string Refusal(const OperandForm& form, const PlaneSpec& said, bool k_is_columns) {
  return std::string(FindMatrix("b", form, said, k_is_columns).status().message());
}

TEST(FindMatrix, CutsEachPlaneThatTheMatricesHaveForThemselves) {
  const MatrixOfStack one = *FindMatrix("b", Experts(), Said(DataType::kInt4, 4, 64), true);
  EXPECT_EQ(one.stack.matrices, 3);
  EXPECT_FALSE(one.stack.lies_along_k);
  EXPECT_EQ(one.form.data.rows, 4);
  EXPECT_EQ(one.form.scales->rows, 4);
  EXPECT_EQ(one.form.scales->columns, 2);
  EXPECT_EQ(one.form.zero_points->rows, 4);
  EXPECT_FALSE(one.stack.shares[PlaneName::kScales]);
  EXPECT_TRUE(one.stack.shares[PlaneName::kTensorScale]);
  // One of one is the operand itself.
  EXPECT_TRUE(FindMatrix("b", Experts(), Said(DataType::kInt4, 12, 64), true)->form == Experts());
}

TEST(FindMatrix, AlongKBlocksEndWhereMatricesDo) {
  OperandForm form;
  form.data = RowMajor(DataType::kInt8, 192, 8);
  form.scales = RowMajor(DataType::kF32, 3, 8);
  form.blocks = BlockScaling{64, 1};
  const MatrixOfStack one = *FindMatrix("b", form, Said(DataType::kInt8, 64, 8), false);
  EXPECT_TRUE(one.stack.lies_along_k);
  EXPECT_EQ(one.form.scales->rows, 1);
  EXPECT_EQ(Refusal(form, Said(DataType::kInt8, 96, 8), false),
            "b.data is 96 x 8, one of a stack whose blocks have 64 of its lines: they do not end "
            "where matrices do");
  form.scales = {DataType::kF32, 3, 8, Order::kColumnMajor, 3};
  EXPECT_EQ(Refusal(form, Said(DataType::kInt8, 64, 8), false),
            "b.scales of a stack must be row_major as the data are, and not in tiles along K: one "
            "matrix's do not lie together");
}

TEST(FindMatrix, ScalesOfLinesAreOfEachOrOfAll) {
  OperandForm form;
  form.data = RowMajor(DataType::kInt8, 12, 64);
  form.scales = RowMajor(DataType::kF32, 1, 12);
  const PlaneSpec said = Said(DataType::kInt8, 4, 64);
  const MatrixOfStack of_each = *FindMatrix("b", form, said, true);
  EXPECT_EQ(of_each.form.scales->columns, 4);
  EXPECT_FALSE(of_each.stack.shares[PlaneName::kScales]);
  // Across them: K lies along the rows.
  form.scales = RowMajor(DataType::kF32, 1, 64);
  const MatrixOfStack of_all = *FindMatrix("b", form, said, false);
  EXPECT_EQ(of_all.form.scales->columns, 64);
  EXPECT_TRUE(of_all.stack.shares[PlaneName::kScales]);
  form.scales = RowMajor(DataType::kF32, 1, 1);
  EXPECT_TRUE(FindMatrix("b", form, said, true)->stack.shares[PlaneName::kScales]);
}

TEST(FindMatrix, RefusesWhatIsNoStack) {
  const std::string is =
      "; the resident operand is 12 x 64 int4 row_major, which is no stack of "
      "such matrices, one behind the other";
  EXPECT_EQ(Refusal(Experts(), Said(DataType::kInt4, 5, 64), true),
            "b.data is 5 x 64 int4 row_major" + is);
  EXPECT_EQ(Refusal(Experts(), Said(DataType::kInt4, 0, 64), true),
            "b.data is 0 x 64 int4 row_major" + is);
  EXPECT_EQ(Refusal(Experts(), Said(DataType::kInt4, 12, 32), true),
            "b.data is 12 x 32 int4 row_major" + is);
  EXPECT_EQ(Refusal(Experts(), Said(DataType::kUint4, 4, 64), true),
            "b.data is 4 x 64 uint4 row_major" + is);
  PlaneSpec turned = Said(DataType::kInt4, 4, 64);
  turned.order = Order::kColumnMajor;
  EXPECT_EQ(Refusal(Experts(), turned, true), "b.data is 4 x 64 int4 column_major" + is);
  PlaneSpec apart = Said(DataType::kInt4, 4, 64);
  apart.leading_dimension = 80;
  EXPECT_EQ(Refusal(Experts(), apart, true),
            "b.data is 4 x 64 int4 row_major with leading dimension 80" + is);
  OperandForm odd;
  odd.data = RowMajor(DataType::kInt4, 12, 3);
  EXPECT_EQ(Refusal(odd, Said(DataType::kInt4, 3, 3), true),
            "b.data is 3 x 3 int4, one of a stack: its matrices do not begin bytes");
  OperandForm ordered;
  ordered.data = RowMajor(DataType::kF32, 4, 8);
  ordered.k_order = std::make_shared<const std::vector<std::uint32_t>>(4);
  EXPECT_EQ(Refusal(ordered, Said(DataType::kF32, 2, 8), false),
            "b has a k_order, and is a stack along K, of which it is no order");
}

TEST(ChooseMatrices, StaysWithinTheStack) {
  const MatrixLayout one = RowMajor(DataType::kF32, 3, 4);
  const auto choose = [&](std::uint64_t first, std::uint64_t stride, std::uint64_t products) {
    StackSpec stack;
    stack.matrices = 10;
    const absl::Status status =
        ChooseMatrices(OperandName::kB, first, stride, products, one, &stack);
    if (!status.ok()) return std::string(status.message());
    return std::to_string(stack.first) + " " + std::to_string(stack.each);
  };
  EXPECT_EQ(choose(0, 0, 1), "0 0");
  EXPECT_EQ(choose(9, 0, 1000), "9 0");
  EXPECT_EQ(choose(2, 12, 8), "2 1");
  EXPECT_EQ(choose(1, 36, 3), "1 3");
  EXPECT_EQ(choose(10, 0, 1), "b.matrix is 10; the resident operand has 10 matrices of 3 x 4");
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  EXPECT_EQ(choose(kMost, 0, 1),
            "b.matrix is 18446744073709551615; the resident operand has 10 matrices of 3 x 4");
  EXPECT_EQ(choose(0, 13, 1),
            "batch.b_stride is 13, and b is a resident stack of matrices of 3 x "
            "4: it must be a multiple of 12");
  EXPECT_EQ(choose(3, 12, 8),
            "batch.count is 8, and b is a resident stack of 10 matrices of 3 x 4, "
            "of which the products take every 1 from 3 on");
  EXPECT_EQ(choose(0, kMost / 12 * 12, 2).substr(0, 16), "batch.count is 2");
  EXPECT_EQ(choose(0, 12, kMost).substr(0, 16), "batch.count is 1");
}

// Layers of a server under the wire, over a CUDA device of a fake runtime.
class ResidentStacksTest : public testing::CudaDeviceTest {
 protected:
  void StartServer(std::uint32_t seed) {
    admission_.reset();
    store_.reset();
    router_.reset();
    scheduler_.reset();
    Start(seed);
    scheduler_ = std::make_unique<Scheduler>(device_.get(), &clock_, &alarm_, testing::BoundOf(64));
    router_ =
        std::make_unique<Router>(std::vector<ServedDevice>{{device_.get(), scheduler_.get()}});
    StoreOptions options;
    options.all = options.tenant = {64, 1 << 26};
    options.default_lease = options.max_lease = options.upload_lease = 1000 * kSecond;
    store_ = std::make_unique<OperandStore>(options, device_.get(), &clock_, 1);
    RequestLimits limits;
    limits.request_bytes = limits.result_bytes = 1 << 26;
    admission_ = std::make_unique<Admission>(limits, &registry_, router_.get(), &clock_,
                                             AdmissionHelpers{store_.get()});
  }
  ~ResidentStacksTest() override { scheduler_->WaitUntilIdle(60000); }

  // Uploads the planes.
  OperandKey Put(const OperandForm& form, const std::string& data, const std::string& scales) {
    OperandPlanes<std::vector<Sha256Digest>> chunks;
    chunks[PlaneName::kData] = ChunkDigests(data);
    if (form.scales.has_value()) chunks[PlaneName::kScales] = ChunkDigests(scales);
    const Sha256Digest digest = DigestOf(form, chunks);
    const auto session = *store_->BeginUpload(tenant_, digest, form, std::nullopt);
    absl::string_view piece = scales;
    if (form.scales.has_value()) {
      EXPECT_TRUE(session->Receive({PlaneName::kScales, 0, {&piece, 1}}).ok());
    }
    piece = data;
    EXPECT_TRUE(session->Receive({PlaneName::kData, 0, {&piece, 1}}).ok());
    return {{}, ToBytes(digest)};
  }

  struct Part {
    OperandName operand;
    PlaneName plane;
    std::string bytes;
  };
  absl::StatusOr<std::string> Multiply(MatmulCall call, const std::vector<Part>& payload) {
    call.tenant = tenant_;
    auto admitted = admission_->Admit(call, kNoDeadline, Admission::Carrier::kStream);
    if (!admitted.ok()) return admitted.status();
    for (const Part& part : payload) {
      const absl::string_view piece = part.bytes;
      const absl::Status s =
          (*admitted)->payload().Receive({part.operand, part.plane, 0, {&piece, 1}});
      if (!s.ok()) return s;
    }
    std::promise<MatmulOutcome> promise;
    std::future<MatmulOutcome> outcome = promise.get_future();
    absl::Status status =
        admission_->Submit(admission_->NextRequestId(), *std::move(admitted), RequestTimes(),
                           [&promise](MatmulOutcome done) { promise.set_value(std::move(done)); });
    if (!status.ok()) return status;
    MatmulOutcome done = outcome.get();
    if (!done.status.ok()) return done.status;
    std::string d;
    for (const HostPiece& piece : done.d) d.append(piece.data, piece.size_bytes);
    return d;
  }

  const Tenant tenant_ = *Tenant::Named("a");
  testing::FakeAlarm alarm_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<OperandStore> store_;
  std::unique_ptr<Admission> admission_;
};

// An operand of a batch: a stack, of which product i takes matrix first + i * each.
struct Stacked {
  MatrixLayout one;
  std::int64_t matrices = 1;
  std::int64_t first = 0;
  std::int64_t each = 1;
  std::string data;
  std::string scales;  // of all matrices; empty: none
  std::int64_t scales_each = 0;

  std::string DataOf(std::int64_t product) const {
    return data.substr((first + product * each) * one.size_bytes(), one.size_bytes());
  }
  std::string ScalesOf(std::int64_t product) const {
    const std::size_t bytes = static_cast<std::size_t>(scales_each) * sizeof(float);
    return scales.substr((first + product * each) * bytes, bytes);
  }
};

std::string ToString(const testing::PlaneBytes& plane) { return {plane.begin(), plane.end()}; }

Stacked DrawStack(const MatrixLayout& like, std::int64_t scales_each, std::int64_t products,
                  std::mt19937* random) {
  Stacked stack;
  stack.one = like;
  stack.one.leading_dimension = like.inner();
  stack.each = 1 + (*random)() % 2;
  stack.first = (*random)() % 3;
  stack.matrices = stack.first + (products - 1) * stack.each + 1 + (*random)() % 2;
  MatrixLayout all = stack.one;
  (like.order == Order::kRowMajor ? all.rows : all.columns) *= stack.matrices;
  stack.data = ToString(testing::RandomPlane(all, testing::Distribution::kNormal, (*random)()));
  stack.scales_each = scales_each;
  for (std::int64_t i = 0; i < scales_each * stack.matrices; ++i) {
    const float scale = 0.5F + static_cast<float>((*random)() % 64) / 32;
    stack.scales.append(reinterpret_cast<const char*>(&scale), sizeof(scale));
  }
  return stack;
}

OperandSpec SpecOf(const MatrixLayout& layout) {
  OperandSpec spec;
  spec.data = {layout.type, static_cast<std::uint64_t>(layout.rows),
               static_cast<std::uint64_t>(layout.columns), layout.order, 0};
  return spec;
}

std::optional<PlaneSpec> ScalesSpec(bool is_a, std::int64_t count) {
  if (count == 0) return std::nullopt;
  const auto lines = static_cast<std::uint64_t>(count);
  return is_a ? Said(DataType::kF32, lines, 1) : Said(DataType::kF32, 1, lines);
}

TEST_F(ResidentStacksTest, ProductsHaveTheBitsThatTheyHaveAlone) {
  int compared = 0;
  int refused = 0;
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    StartServer(seed);
    std::mt19937 random(seed);
    for (const auto& [type, output] : {std::pair{DataType::kF32, DataType::kF32},
                                       {DataType::kBf16, DataType::kF32},
                                       {DataType::kInt8, DataType::kF32}}) {
      const std::vector<Problem> problems = testing::SmallProblems(type, output);
      const Problem& like = problems[random() % problems.size()];
      const std::int64_t products = 1 + random() % 4;
      // Scales of one a matrix are of the whole operand where that is kept, so only vectors are
      // here.
      const bool has_scales = type == DataType::kInt8;
      const Stacked a = DrawStack(like.a, 0, products, &random);
      const bool lies_along_k = (like.b.order == Order::kRowMajor) != like.transpose_b;
      const Stacked b =
          DrawStack(like.b, has_scales && !lies_along_k ? like.n : 0, products, &random);

      MatmulCall one;
      one.transpose_a = like.transpose_a;
      one.transpose_b = like.transpose_b;
      one.output_type = output;
      one.a = SpecOf(a.one);
      one.b = SpecOf(b.one);
      one.b->scales = ScalesSpec(false, b.scales_each);

      MatmulCall batch = one;
      OperandForm form;
      form.data = b.one;
      (b.one.order == Order::kRowMajor ? form.data.rows : form.data.columns) *= b.matrices;
      if (b.scales_each != 0) form.scales = RowMajor(DataType::kF32, 1, like.n * b.matrices);
      batch.b->source = Source::kResident;
      batch.b->resident = Put(form, b.data, b.scales);
      batch.b->matrix = static_cast<std::uint64_t>(b.first);
      batch.batch = BatchSpec{};
      batch.batch->count = static_cast<std::uint64_t>(products);
      const auto elements = [](const MatrixLayout& layout) {
        return static_cast<std::uint64_t>(layout.rows * layout.columns);
      };
      batch.batch->a_stride = elements(a.one);
      batch.batch->b_stride = static_cast<std::uint64_t>(b.each) * elements(b.one);
      const std::string left = a.data.substr(0, a.one.size_bytes() * products);
      const absl::StatusOr<std::string> d =
          Multiply(batch, {{OperandName::kA, PlaneName::kData, left}});
      if (absl::IsFailedPrecondition(d.status())) {
        ++refused;
        continue;
      }
      ASSERT_TRUE(d.ok()) << d.status() << " " << gemmd::ToString(like);
      for (std::int64_t i = 0; i < products; ++i) {
        std::vector<Part> payload = {{OperandName::kA, PlaneName::kData,
                                      left.substr(i * a.one.size_bytes(), a.one.size_bytes())},
                                     {OperandName::kB, PlaneName::kData, b.DataOf(i)}};
        if (b.scales_each != 0) {
          payload.push_back({OperandName::kB, PlaneName::kScales, b.ScalesOf(i)});
        }
        const absl::StatusOr<std::string> alone = Multiply(one, payload);
        ASSERT_TRUE(alone.ok()) << alone.status();
        ASSERT_EQ(d->substr(i * alone->size(), alone->size()), *alone)
            << gemmd::ToString(like) << ", product " << i << " of " << products;
        // By itself, and not in a batch.
        MatmulCall single = batch;
        single.batch.reset();
        single.b->matrix = static_cast<std::uint64_t>(b.first + i * b.each);
        payload.resize(1);
        const absl::StatusOr<std::string> of_stack = Multiply(single, payload);
        ASSERT_TRUE(of_stack.ok()) << of_stack.status();
        ASSERT_EQ(*of_stack, *alone);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 20);
  EXPECT_GT(refused, 0);
}

// Rows by experts that stay on the device.
TEST_F(ResidentStacksTest, GroupsHaveTheBitsOfTheirRowsAlone) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    StartServer(seed);
    std::mt19937 random(seed);
    const std::int64_t groups = 2 + random() % 5;
    std::vector<std::uint64_t> ends;
    for (std::int64_t i = 0; i < groups; ++i) {
      ends.push_back((ends.empty() ? 0 : ends.back()) + random() % 4 * (random() % 40));
    }
    ++ends.back();
    const auto rows = static_cast<std::int64_t>(ends.back());
    const MatrixLayout of_a = RowMajor(DataType::kF32, rows, 32);
    const MatrixLayout of_b = RowMajor(DataType::kF32, 32, 64);
    const std::string a =
        ToString(testing::RandomPlane(of_a, testing::Distribution::kNormal, random()));
    const MatrixLayout all = RowMajor(DataType::kF32, 32 * (groups + 1), 64);
    const std::string b =
        ToString(testing::RandomPlane(all, testing::Distribution::kNormal, random()));
    OperandForm form;
    form.data = all;
    MatmulCall call;
    call.a = SpecOf(of_a);
    call.b = SpecOf(of_b);
    call.b->source = Source::kResident;
    call.b->resident = Put(form, b, "");
    call.b->matrix = 1;
    call.batch = BatchSpec{static_cast<std::uint64_t>(groups), 0, 32 * 64, 0, 0, 0, ends};
    const absl::StatusOr<std::string> d = Multiply(call, {{OperandName::kA, PlaneName::kData, a}});
    ASSERT_TRUE(d.ok()) << d.status();
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const std::uint64_t count = ends[i] - begin;
      if (count != 0) {
        MatmulCall alone = call;
        alone.batch.reset();
        alone.a->data.rows = count;
        alone.b->matrix = i + 1;
        const absl::StatusOr<std::string> one = Multiply(
            alone, {{OperandName::kA, PlaneName::kData, a.substr(begin * 128, count * 128)}});
        ASSERT_TRUE(one.ok()) << one.status();
        ASSERT_EQ(d->substr(begin * 256, count * 256), *one) << "group " << i;
      }
      begin = ends[i];
    }
  }
}

TEST_F(ResidentStacksTest, AWrongMatrixIsRefusedBeforeAnyPayload) {
  StartServer(1);
  MatmulCall call;
  call.a = SpecOf(RowMajor(DataType::kF32, 2, 16));
  call.b = SpecOf(RowMajor(DataType::kF32, 16, 8));
  call.b->source = Source::kResident;
  const MatrixLayout all = RowMajor(DataType::kF32, 64, 8);
  OperandForm form;
  form.data = all;
  call.b->resident = Put(form, std::string(all.size_bytes(), '\0'), "");
  const auto refusal = [&](const std::function<void(MatmulCall*)>& spoil) {
    MatmulCall spoilt = call;
    spoil(&spoilt);
    return Multiply(spoilt, {}).status().ToString();
  };
  EXPECT_EQ(refusal([](MatmulCall* c) { c->b->matrix = 4; }),
            "INVALID_ARGUMENT: b.matrix is 4; the resident operand has 4 matrices of 16 x 8");
  EXPECT_EQ(refusal([](MatmulCall* c) {
              c->b->matrix = 0;
              c->b->has_data = false;
            }),
            "INVALID_ARGUMENT: b.data is missing; b is a resident stack, of which it describes a "
            "matrix");
  // Without `matrix` a resident operand is one matrix.
  EXPECT_EQ(refusal([](MatmulCall*) {}),
            "INVALID_ARGUMENT: b.data is 16 x 8 f32 row_major; the resident operand is 64 x 8 f32 "
            "row_major, tightly packed (leave the field out to mean that)");
  EXPECT_EQ(
      refusal([](MatmulCall* c) { c->batch = BatchSpec{5, 32, 128, 0, 0, 0}; }),
      "INVALID_ARGUMENT: batch.count is 5, and b is a resident stack of 4 matrices of 16 x 8, "
      "of which the products take every 1 from 0 on");
}

}  // namespace
}  // namespace gemmd
