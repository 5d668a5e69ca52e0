#include "server/verification/verifier.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/resident_part.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/reference.h"
#include "tests/testing/products/reference_kernel.h"

namespace gemmd {
namespace {

using testing::Operands;

// A device of its own memory: it gives back what was stored.
class FetchingDevice final : public Device {
 public:
  struct Resident final : ResidentResult {
    const void* data() const override { return nullptr; }
    void* memory() const override { return nullptr; }
    const MatrixLayout& layout() const override { return landed; }
    std::uint64_t size_bytes() const override { return bytes.size(); }
    std::uint64_t given_bytes() const override { return bytes.size(); }
    MatrixLayout landed;
    testing::PlaneBytes bytes;
  };

  const DeviceTraits& traits() const override { return traits_; }
  MemoryBudget& memory() override { return memory_; }
  bool uses_host_memory() const override { return false; }
  int max_in_flight() const override { return 1; }
  void Submit(DeviceLaunch, Callback) override {}
  absl::Status Fetch(const ResidentOperand& operand, void* to) override {
    if (is_lost) return absl::UnavailableError("lost");
    const auto& bytes = static_cast<const Resident&>(operand).bytes;
    std::memcpy(to, bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  bool is_lost = false;

 private:
  DeviceTraits traits_;
  MemoryBudget memory_{1 << 20};
};

// The kernel is less accurate than its problems' accumulate type promises, and so taken by name
// only.
class ReducedKernel final : public Kernel {
 public:
  ReducedKernel()
      : Kernel({"test/reduced", "cpu", "none", Determinism::kFast, /*only_by_name=*/true,
                /*is_reduced=*/true}) {}
  std::string UnavailableReason(const DeviceTraits&) const override { return ""; }
  std::string Rejection(const Problem&) const override { return ""; }
  Config Configure(const Problem&, const DeviceTraits&) const override { return {}; }
  double PredictedUs(const Problem&, const Config&, const DeviceTraits&) const override {
    return 1;
  }
  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }
  std::string NumericsId(const Problem&) const override { return "test/reduced/1"; }
  absl::Status Launch(const Problem&, const Config&, const Arguments&,
                      const LaunchTarget&) const override {
    return absl::UnimplementedError("it launches nothing");
  }
};

class VerifierTest : public ::testing::Test {
 protected:
  // A right product, whose operands live as long as the test.
  FinishedProduct Right(std::uint64_t id = 1) {
    operands_.push_back(
        std::make_unique<Operands>(problem_, testing::Distribution::kNormal, 1 + id));
    Operands& operands = *operands_.back();
    const ReferenceResult result = ReferenceGemm(problem_, operands.arguments());
    for (std::int64_t i = 0; i < problem_.m; ++i) {
      for (std::int64_t j = 0; j < problem_.n; ++j) {
        StoreElement(problem_.d, operands.d.data(), i, j, result.d[i * problem_.n + j]);
      }
    }
    FinishedProduct product;
    product.request_id = id;
    product.problem = problem_;
    product.buffers[WorkPlane::kA] = operands.a.data();
    product.buffers[WorkPlane::kB] = operands.b.data();
    product.buffers.d = {{operands.d.data(), operands.d.size(), nullptr}};
    product.device = &device_;
    product.kernel = &kernel_;
    return product;
  }

  FinishedProduct Wrong(std::uint64_t id = 1) {
    FinishedProduct product = Right(id);
    StoreElement(problem_.d, operands_.back()->d.data(), 3, 4, 1000);
    return product;
  }

  static VerifierOptions SampleAll() {
    VerifierOptions options;
    options.sampled_per_million = 1000000;
    return options;
  }

  absl::StatusOr<double> Verify(Verifier* verifier, FinishedProduct product) {
    absl::StatusOr<double> result = absl::UnknownError("not called");
    verifier->Verify(std::move(product), 3,
                     [&result](absl::StatusOr<double> residual) { result = std::move(residual); });
    verifier->WaitUntilIdle();
    return result;
  }

  const Problem problem_ = MakeProblem(17, 19, 23, DataType::kF32, DataType::kF32);
  testing::FakeClock clock_;
  testing::FakeDevice device_{&clock_, 1 << 20, 1};
  testing::ReferenceKernel kernel_;
  std::vector<std::unique_ptr<Operands>> operands_;
};

TEST_F(VerifierTest, TakesARightProductAndNoOther) {
  Verifier verifier({});
  const absl::StatusOr<double> right = Verify(&verifier, Right());
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_LE(*right, 1);
  const absl::StatusOr<double> wrong = Verify(&verifier, Wrong());
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_GT(*wrong, 1);
  const VerificationStatistics statistics = verifier.statistics();
  EXPECT_EQ(statistics.checked, 2U);
  EXPECT_EQ(statistics.failed, 1U);
  EXPECT_EQ(statistics.worst_residual, *wrong);
}

TEST_F(VerifierTest, HoldsAKernelToTheAccuracyThatItHas) {
  Verifier verifier({});
  FinishedProduct product = Right();
  const double usual = *Verify(&verifier, product);
  const ReducedKernel reduced;
  product.kernel = &reduced;
  EXPECT_GT(usual, 0);
  EXPECT_LT(*Verify(&verifier, product), usual / 2);
}

TEST_F(VerifierTest, UsesSeveralThreads) {
  VerifierOptions options;
  options.threads = 3;
  Verifier verifier(options);
  EXPECT_LE(*Verify(&verifier, Right()), 1);
  EXPECT_GT(*Verify(&verifier, Wrong()), 1);
}

TEST_F(VerifierTest, PutsTogetherAResultInPieces) {
  FinishedProduct product = Right();
  const HostPiece whole = product.buffers.d.front();
  product.buffers.d = {{whole.data, 100, nullptr},
                       {whole.data + 100, whole.size_bytes - 100, nullptr}};
  Verifier verifier({});
  EXPECT_LE(*Verify(&verifier, product), 1);
  whole.data[200] ^= 0x40;
  whole.data[203] ^= 0x40;
  EXPECT_GT(*Verify(&verifier, product), 1);
}

TEST_F(VerifierTest, BringsResidentsBack) {
  FetchingDevice device;
  FinishedProduct product = Right();
  auto resident = std::make_shared<FetchingDevice::Resident>();
  resident->bytes = operands_.back()->b;
  product.device = &device;
  product.resident[WorkPlane::kB] = resident;
  product.buffers[WorkPlane::kB] = nullptr;
  Verifier verifier({});
  EXPECT_LE(*Verify(&verifier, product), 1);
  device.is_lost = true;
  EXPECT_EQ(Verify(&verifier, product).status(), absl::UnavailableError("lost"));
  EXPECT_EQ(verifier.statistics().unverifiable, 1U);
}

// B is the second matrix of a stack.
TEST_F(VerifierTest, FindsTheMatrixOfAResidentStack) {
  FetchingDevice device;
  FinishedProduct product = Right();
  auto resident = std::make_shared<FetchingDevice::Resident>();
  const testing::PlaneBytes& b = operands_.back()->b;
  resident->bytes.assign(b.size(), 7);
  resident->bytes.insert(resident->bytes.end(), b.begin(), b.end());
  product.device = &device;
  product.buffers[WorkPlane::kB] = nullptr;
  Verifier verifier({});
  product.resident[WorkPlane::kB] =
      std::make_shared<const ResidentPart>(resident, ResidentPart::Place{4096, 0, b.size()});
  EXPECT_LE(*Verify(&verifier, product), 1);
  product.resident[WorkPlane::kB] = resident;
  EXPECT_GT(*Verify(&verifier, product), 1);
}

// The result stays on the device too, and has never been on the host.
TEST_F(VerifierTest, BringsEveryPlaneBack) {
  FetchingDevice device;
  for (const bool is_right : {true, false}) {
    FinishedProduct product;
    Problem problem = problem_;
    problem.epilogue.beta = 0.5;
    problem.epilogue.has_bias = true;
    Operands operands(problem, testing::Distribution::kNormal, 7);
    const ReferenceResult result = ReferenceGemm(problem, operands.arguments());
    for (std::int64_t i = 0; i < problem.m; ++i) {
      for (std::int64_t j = 0; j < problem.n; ++j) {
        StoreElement(problem.d, operands.d.data(), i, j, result.d[i * problem.n + j]);
      }
    }
    if (!is_right) StoreElement(problem.d, operands.d.data(), 3, 4, 1000);
    const auto resident = [](const testing::PlaneBytes& bytes) {
      auto plane = std::make_shared<FetchingDevice::Resident>();
      plane->bytes = bytes;
      return plane;
    };
    product.problem = problem;
    product.device = &device;
    product.kernel = Right().kernel;
    product.resident[WorkPlane::kA] = resident(operands.a);
    product.resident[WorkPlane::kB] = resident(operands.b);
    product.resident[WorkPlane::kC] = resident(operands.c);
    product.resident[WorkPlane::kBias] = resident(operands.bias);
    product.resident.d = resident(operands.d);
    Verifier verifier({});
    const absl::StatusOr<double> residual = Verify(&verifier, product);
    ASSERT_TRUE(residual.ok()) << residual.status();
    EXPECT_EQ(*residual <= 1, is_right);
  }
}

TEST_F(VerifierTest, ChoosesItsShare) {
  VerifierOptions options;
  options.sampled_per_million = 100000;
  options.seed = 5;
  Verifier verifier(options);
  int chosen = 0;
  for (std::uint64_t id = 0; id < 20000; ++id) {
    if (verifier.Samples(id, problem_, {})) ++chosen;
  }
  EXPECT_NEAR(chosen, 2000, 200);
  EXPECT_FALSE(Verifier({}).Samples(1, problem_, {}));
}

TEST_F(VerifierTest, CountsWhatItCannotCheck) {
  Verifier verifier(SampleAll());
  Problem activated = problem_;
  activated.epilogue.activation = Activation::kRelu;
  EXPECT_FALSE(verifier.Samples(1, activated, {}));
  HostBuffers in_place;
  in_place.d_access = Access::kDirect;
  EXPECT_FALSE(verifier.Samples(1, problem_, in_place));
  EXPECT_TRUE(verifier.Samples(1, problem_, {}));
  EXPECT_EQ(verifier.statistics().unverifiable, 2U);
}

TEST_F(VerifierTest, DropsWhatDoesNotFitAndFreesWhatItChecked) {
  VerifierOptions options = SampleAll();
  options.max_waiting = 2;
  Verifier verifier(options);
  const auto memory = std::make_shared<int>();
  // A request keeps the verifier's thread until the products are there.
  std::mutex gate;
  gate.lock();
  verifier.Verify(Right(), 1, [&gate](const absl::StatusOr<double>&) {
    const std::lock_guard<std::mutex> lock(gate);
  });
  for (std::uint64_t id = 0; id < 5; ++id) {
    FinishedProduct product = id == 1 ? Wrong(id) : Right(id);
    product.memory = memory;
    verifier.Sample(std::move(product));
  }
  EXPECT_EQ(memory.use_count(), 1 + 2);
  gate.unlock();
  verifier.WaitUntilIdle();
  EXPECT_EQ(memory.use_count(), 1);
  const VerificationStatistics statistics = verifier.statistics();
  EXPECT_EQ(statistics.checked, 1U + 2U);
  EXPECT_EQ(statistics.failed, 1U);
  EXPECT_EQ(statistics.dropped, 3U);
}

TEST_F(VerifierTest, ATenantsProductsWaitForOneOfAnothersEach) {
  std::vector<std::string> order;
  {
    Verifier verifier(SampleAll());
    std::mutex gate;
    gate.lock();
    verifier.Verify(Right(), 1, [&gate](const absl::StatusOr<double>&) {
      const std::lock_guard<std::mutex> lock(gate);
    });
    for (const char* tenant : {"hog", "hog", "hog", "polite"}) {
      FinishedProduct product = Right();
      product.tenant = tenant;
      verifier.Verify(std::move(product), 3, [&order, tenant](const absl::StatusOr<double>&) {
        order.emplace_back(tenant);
      });
    }
    gate.unlock();
    verifier.WaitUntilIdle();
  }
  EXPECT_EQ(order, (std::vector<std::string>{"hog", "polite", "hog", "hog"}));
}

TEST_F(VerifierTest, DropsWhatIsTooLarge) {
  VerifierOptions options = SampleAll();
  options.max_waiting_bytes = 1000;
  Verifier verifier(options);
  verifier.Sample(Right());
  EXPECT_EQ(verifier.statistics().dropped, 1U);
}

// Room for one: the second comes when the first was checked.
TEST_F(VerifierTest, WhatWasCheckedMakesRoom) {
  VerifierOptions options = SampleAll();
  options.max_waiting_bytes = Right().size_bytes();
  Verifier verifier(options);
  for (std::uint64_t id = 0; id < 2; ++id) {
    verifier.Sample(Right(id));
    verifier.WaitUntilIdle();
  }
  EXPECT_EQ(verifier.statistics().checked, 2U);
  EXPECT_EQ(verifier.statistics().dropped, 0U);
}

TEST_F(VerifierTest, EndsWithWhatWasRequestedChecked) {
  int called = 0;
  {
    Verifier verifier(SampleAll());
    for (std::uint64_t id = 0; id < 5; ++id) {
      verifier.Verify(Right(id), 3, [&called](const absl::StatusOr<double>& residual) {
        EXPECT_LE(*residual, 1);
        ++called;
      });
      verifier.Sample(Right(id));
    }
  }
  EXPECT_EQ(called, 5);
}

}  // namespace
}  // namespace gemmd
