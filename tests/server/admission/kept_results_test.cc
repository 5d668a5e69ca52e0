// Results that stay on a CUDA device over a fake runtime, from a request's header to its outcome:
// chains move no byte, pressure moves what is idle to the host and back, and after any history all
// accounts are empty.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/math.h"
#include "base/time/units.h"
#include "gtest/gtest.h"
#include "server/admission/admission.h"
#include "server/device/cuda/cuda_device.h"
#include "server/tenants/retry_after.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/products/reference_kernel.h"

namespace gemmd {
namespace {

using Matrix = std::vector<float>;

constexpr std::int64_t kSize = 40;
constexpr std::uint64_t kBytes = kSize * kSize * sizeof(float);

Registry MakeRegistry() {
  std::vector<std::unique_ptr<const Kernel>> kernels;
  kernels.push_back(std::make_unique<testing::ReferenceKernel>());
  return Registry(std::move(kernels));
}

// Elements are 1, 0 and -1, so that products of a few are exact in f32.
Matrix RandomMatrix(std::mt19937* random) {
  Matrix matrix(kSize * kSize);
  for (float& element : matrix) element = static_cast<float>((*random)() % 3) - 1;
  return matrix;
}

Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix d(kSize * kSize);
  for (std::int64_t i = 0; i < kSize; ++i) {
    for (std::int64_t k = 0; k < kSize; ++k) {
      for (std::int64_t j = 0; j < kSize; ++j) {
        d[i * kSize + j] += a[i * kSize + k] * b[k * kSize + j];
      }
    }
  }
  return d;
}

Matrix MatrixOf(const HostBuffer& pieces) {
  std::string bytes;
  for (const HostPiece& piece : pieces) bytes.append(piece.data, piece.size_bytes);
  Matrix matrix(bytes.size() / sizeof(float));
  std::memcpy(matrix.data(), bytes.data(), matrix.size() * sizeof(float));
  return matrix;
}

// One server's layers under the wire.
struct Server {
  explicit Server(std::uint32_t seed, std::uint64_t device_bytes = 16 << 20)
      : cuda(std::make_shared<testing::FakeCuda>(seed)) {
    CudaDevice::Options cuda_options;
    cuda_options.memory_bytes = device_bytes;
    cuda_options.pinned_bytes = 16 << 20;
    cuda_options.unpinned_bytes = 16 << 20;
    cuda_options.panel_bytes = 64 << 10;
    cuda_options.stall_timeout_ms = 1 << 30;  // the clock leaps
    device = *CudaDevice::Create(cuda, cuda_options, &clock);
    scheduler = std::make_unique<Scheduler>(device.get(), &clock, &alarm, testing::BoundOf(64));
    router = std::make_unique<Router>(std::vector<ServedDevice>{{device.get(), scheduler.get()}});
    StoreOptions store_options;
    store_options.all = {64, 64 * kBytes};
    store_options.tenant = {64, 64 * kBytes};
    store_options.default_lease = 100 * kSecond;
    store_options.max_lease = 1000 * kSecond;
    store_options.upload_lease = kSecond;
    store = std::make_unique<OperandStore>(store_options, device.get(), &clock, 1);
    RequestLimits limits;
    limits.request_bytes = limits.result_bytes = 1 << 26;
    admission = std::make_unique<Admission>(limits, &registry, router.get(), &clock,
                                            AdmissionHelpers{store.get()});
  }
  ~Server() { scheduler->WaitUntilIdle(60000); }

  // Returns whether nothing is held any more.
  bool IsEmpty() {
    if (!scheduler->WaitUntilIdle(60000)) return false;
    const CudaEvent looked = *cuda->CreateEvent();
    for (int i = 0; i < 10000 && cuda->allocated_bytes() != 0; ++i) {
      cuda->IsDone(looked).status().IgnoreError();
    }
    const MemoryUsage usage = device->memory().usage();
    return cuda->allocated_bytes() == 0 && usage.free_bytes() == usage.limit_bytes &&
           device->host_memory_usage().in_flight_bytes == 0 &&
           store->statistics().reserved_bytes == 0 && store->statistics().residents == 0;
  }

  testing::FakeClock clock;
  testing::FakeAlarm alarm;
  const Registry registry = MakeRegistry();
  std::shared_ptr<testing::FakeCuda> cuda;
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<Router> router;
  std::unique_ptr<OperandStore> store;
  std::unique_ptr<Admission> admission;
};

// An operand of a call: its bytes, or the name of what is kept.
struct Factor {
  Matrix matrix;
  std::string handle;  // empty: inline
};

class Client {
 public:
  Client(Server* server, const std::string& name)
      : server_(server), tenant_(*Tenant::Named(name)) {}

  MatmulCall CallOf(const Factor& a, const Factor& b, bool keeps,
                    std::optional<TimeNs> lease = std::nullopt) const {
    MatmulCall call;
    call.tenant = tenant_;
    call.peer = tenant_.key();
    call.a = SpecOf(a);
    call.b = SpecOf(b);
    if (keeps) call.keep_result = KeepResult{lease};
    return call;
  }

  // Its outcome, when it comes; an error of Admit() or Submit() at once.
  std::future<MatmulOutcome> Begin(const MatmulCall& call, const Factor& a, const Factor& b,
                                   std::uint64_t* request_id = nullptr) {
    auto promise = std::make_shared<std::promise<MatmulOutcome>>();
    std::future<MatmulOutcome> outcome = promise->get_future();
    const auto refuse = [&](absl::Status status) {
      MatmulOutcome refused;
      refused.status = std::move(status);
      promise->set_value(std::move(refused));
    };
    Admission& admission = *server_->admission;
    auto admitted = admission.Admit(call, kNoDeadline, Admission::Carrier::kStream);
    if (!admitted.ok()) {
      refuse(admitted.status());
      return outcome;
    }
    const auto send = [&](OperandName name, const Factor& factor) {
      if (!factor.handle.empty()) return;
      const absl::string_view piece(reinterpret_cast<const char*>(factor.matrix.data()),
                                    factor.matrix.size() * sizeof(float));
      const absl::Status s = (*admitted)->payload().Receive(
          {name, PlaneName::kData, 0, absl::MakeConstSpan(&piece, 1)});
      EXPECT_TRUE(s.ok()) << s;
    };
    send(OperandName::kA, a);
    send(OperandName::kB, b);
    const std::uint64_t id = admission.NextRequestId();
    if (request_id != nullptr) *request_id = id;
    absl::Status status =
        admission.Submit(id, *std::move(admitted), RequestTimes(),
                         [promise](MatmulOutcome done) { promise->set_value(std::move(done)); });
    if (!status.ok()) refuse(std::move(status));
    return outcome;
  }
  MatmulOutcome Multiply(const Factor& a, const Factor& b, bool keeps,
                         std::optional<TimeNs> lease = std::nullopt) {
    return Begin(CallOf(a, b, keeps, lease), a, b).get();
  }

  absl::StatusOr<Matrix> Get(const std::string& handle) {
    const auto operand = server_->store->Read(tenant_, {handle, {}});
    if (!operand.ok()) return operand.status();
    const auto planes = (*operand)->Planes(PlaneName::kData);
    if (!planes.ok()) return planes.status();
    return MatrixOf(*planes);
  }
  absl::Status Release(const std::string& handle) {
    return server_->store->Release(tenant_, {handle, {}});
  }

 private:
  static OperandSpec SpecOf(const Factor& factor) {
    OperandSpec spec;
    if (factor.handle.empty()) {
      spec.data = {DataType::kF32, kSize, kSize, Order::kRowMajor, 0};
    } else {
      spec.has_data = false;
      spec.source = Source::kResident;
      spec.resident = {factor.handle, {}};
    }
    return spec;
  }

  Server* const server_;
  const Tenant tenant_;
};

// It may be stored in the host's memory, which has room for more, and would wait for ever here.
TEST(ResidentOperands, OneThatIsLargerThanTheDeviceIsRefusedAtOnce) {
  Server server(1, kBytes / 2);
  Client client(&server, "a");
  std::mt19937 random(1);
  const Factor a{RandomMatrix(&random), {}};
  const Matrix b = RandomMatrix(&random);
  const absl::string_view piece(reinterpret_cast<const char*>(b.data()), kBytes);
  OperandForm form;
  form.data = {DataType::kF32, kSize, kSize, Order::kRowMajor, kSize};
  OperandPlanes<std::vector<Sha256Digest>> chunks;
  chunks[PlaneName::kData] = ChunkDigests(piece);
  auto stream =
      server.store->BeginUpload(*Tenant::Named("a"), DigestOf(form, chunks), form, std::nullopt);
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE(*(*stream)->Receive({PlaneName::kData, 0, {&piece, 1}}));
  MatmulCall call = client.CallOf(a, Factor{{}, (*stream)->info().handle}, false);
  call.a->data.rows = 1;
  const absl::Status refused =
      server.admission->Admit(call, kNoDeadline, Admission::Carrier::kStream).status();
  EXPECT_EQ(refused,
            absl::InvalidArgumentError(absl::StrCat("the resident operands take ", kBytes,
                                                    " bytes on cuda:0, which has ", kBytes / 2)));
}

// The device is idle, and a store has room when a lease ends.
TEST(KeptResults, AFullStoreSaysToComeBackWhenALeaseMayHaveEnded) {
  Server server(1);
  Client client(&server, "a");
  std::mt19937 random(1);
  const Factor a{RandomMatrix(&random), {}};
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(client.Multiply(a, a, true).status.ok()) << i;
  const absl::Status full = client.Multiply(a, a, true).status;
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_EQ(RetryAfterMs(full), LeastRetryMs(WaitsFor::kLeases));
}

TEST(KeptResults, AChainCrossesNothing) {
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    Server server(seed);
    Client client(&server, "a");
    std::mt19937 random(seed);
    const Factor a{RandomMatrix(&random), {}};
    const Factor identity{[] {
                            Matrix matrix(kSize * kSize);
                            for (std::int64_t i = 0; i < kSize; ++i) matrix[i * kSize + i] = 1;
                            return matrix;
                          }(),
                          {}};
    // The first ones bring what the chain is made of.
    MatmulOutcome b = client.Multiply(identity, Factor{RandomMatrix(&random), {}}, true);
    ASSERT_TRUE(b.status.ok()) << b.status;
    EXPECT_TRUE(b.d.empty());
    const Factor weights{*client.Get(b.handle), b.handle};
    MatmulOutcome link = client.Multiply(a, weights, true);
    ASSERT_TRUE(link.status.ok()) << link.status;
    EXPECT_EQ(link.receipt.copied_bytes_in, kBytes);
    EXPECT_EQ(link.receipt.copied_bytes_out, 0u);
    Matrix expected = Product(a.matrix, weights.matrix);
    const std::uint64_t crossed = server.cuda->crossed_bytes();
    for (int i = 0; i < 2; ++i) {
      const Factor before{{}, link.handle};
      link = client.Multiply(before, weights, true);
      ASSERT_TRUE(link.status.ok()) << link.status;
      const Receipt& receipt = link.receipt;
      EXPECT_EQ(receipt.copied_bytes_in + receipt.copied_bytes_out + receipt.landed_bytes +
                    receipt.evicted_bytes + receipt.payload_bytes_in + receipt.payload_bytes_out,
                0u);
      expected = Product(expected, weights.matrix);
      EXPECT_TRUE(client.Release(before.handle).ok());
    }
    EXPECT_EQ(server.cuda->crossed_bytes(), crossed);
    EXPECT_EQ(server.device->host_memory_usage().in_flight_bytes, 0u);
    EXPECT_EQ(server.store->statistics().landings, 0u);
    EXPECT_EQ(*client.Get(link.handle), expected);
    EXPECT_EQ(server.cuda->crossed_bytes(), crossed + kBytes);
    EXPECT_EQ(server.store->statistics().fetched_bytes, 2 * kBytes);
    EXPECT_TRUE(client.Release(link.handle).ok());
    EXPECT_TRUE(client.Release(b.handle).ok());
    EXPECT_TRUE(server.IsEmpty());
  }
}

// Groups share a block where their matrices begin at multiples of 256 bytes, which 3,200 are not.
TEST(KeptResults, GroupsOfAChainCopyTheirWeightsAlone) {
  Server server(1);
  Client client(&server, "a");
  std::mt19937 random(1);
  const Factor a{RandomMatrix(&random), {}};
  const MatmulOutcome x = client.Multiply(a, a, true);
  ASSERT_TRUE(x.status.ok()) << x.status;
  const Matrix rows = Product(a.matrix, a.matrix);
  for (const std::int64_t n : {16, 20}) {
    Factor weights{RandomMatrix(&random), {}};
    weights.matrix.resize(static_cast<std::size_t>(2 * kSize * n));
    const Factor before{{}, x.handle};
    MatmulCall call = client.CallOf(before, weights, true);
    call.b->data = {DataType::kF32, kSize, static_cast<std::uint64_t>(n), Order::kRowMajor, 0};
    call.batch = BatchSpec{2, 0, static_cast<std::uint64_t>(kSize * n), 0, 0, 0, {10, kSize}};
    const MatmulOutcome d = client.Begin(call, before, weights).get();
    ASSERT_TRUE(d.status.ok()) << d.status;
    // A block's planes begin at multiples of 256 bytes, and are one copy.
    const std::uint64_t each = RoundUp(static_cast<std::uint64_t>(kSize * n) * sizeof(float), 256);
    EXPECT_EQ(d.receipt.copied_bytes_in, 2 * each);
    EXPECT_EQ(d.receipt.copied_bytes_out, 0u);
    Matrix expected(kSize * n);
    for (std::int64_t i = 0; i < kSize; ++i) {
      for (std::int64_t k = 0; k < kSize; ++k) {
        for (std::int64_t j = 0; j < n; ++j) {
          expected[i * n + j] +=
              rows[i * kSize + k] * weights.matrix[((i < 10 ? 0 : kSize) + k) * n + j];
        }
      }
    }
    EXPECT_EQ(*client.Get(d.handle), expected);
    EXPECT_TRUE(client.Release(d.handle).ok());
    // A row of A's transpose is no line.
    call.transpose_a = true;
    EXPECT_EQ(client.Begin(call, before, weights).get().status,
              absl::FailedPreconditionError(
                  "a is resident, and batch.row_ends is set: groups begin at rows, which on cuda:0 "
                  "do not lie as lines of f32; let a, c and d travel with the request"));
  }
  EXPECT_TRUE(client.Release(x.handle).ok());
  EXPECT_TRUE(server.IsEmpty());
}

// Ten matrices' room: leased results go to the host, and come back where they are used.
TEST(KeptResults, PressureMovesThemOutAndUseBringsThemBack) {
  Server server(1, 10 * kBytes);
  Client client(&server, "a");
  std::mt19937 random(1);
  std::map<std::string, Matrix> kept;
  std::uint64_t evicted_bytes = 0;
  for (int i = 0; i < 16; ++i) {
    const Factor a{RandomMatrix(&random), {}};
    const Factor b{RandomMatrix(&random), {}};
    const MatmulOutcome outcome = client.Multiply(a, b, true);
    ASSERT_TRUE(outcome.status.ok()) << i << ": " << outcome.status;
    kept[outcome.handle] = Product(a.matrix, b.matrix);
    evicted_bytes += outcome.receipt.evicted_bytes;
  }
  StoreStatistics statistics = server.store->statistics();
  EXPECT_EQ(statistics.residents, 16u);
  EXPECT_EQ(statistics.evictions, 0u);
  EXPECT_GE(statistics.moves_out, 8u);
  // Lines of 40 f32 are 160 bytes, and so they lie on the device.
  EXPECT_EQ(evicted_bytes, statistics.moves_out * kBytes);
  EXPECT_EQ(statistics.moved_out_bytes, evicted_bytes);
  std::uint64_t landed_bytes = 0;
  for (const auto& [handle, matrix] : kept) {
    const Factor b{RandomMatrix(&random), {}};
    const MatmulOutcome outcome = client.Multiply(Factor{{}, handle}, b, false);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(MatrixOf(outcome.d), Product(matrix, b.matrix));
    landed_bytes += outcome.receipt.landed_bytes;
  }
  statistics = server.store->statistics();
  EXPECT_GE(statistics.landings, 8u);
  EXPECT_EQ(statistics.landed_bytes, landed_bytes);
  for (const auto& [handle, matrix] : kept) {
    EXPECT_EQ(*client.Get(handle), matrix);
    EXPECT_TRUE(client.Release(handle).ok());
  }
  EXPECT_TRUE(server.IsEmpty());
}

TEST(KeptResults, WhatNeverFitsIsToldSo) {
  Server server(2, 3 * kBytes);
  Client client(&server, "a");
  std::mt19937 random(2);
  const Factor a{RandomMatrix(&random), {}};
  const absl::Status status = client.Multiply(a, a, true).status;
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("for a result that stays on cuda:0"), std::string::npos)
      << status;
  EXPECT_TRUE(server.IsEmpty());
}

// The result was to stay, and its request ends otherwise.
TEST(KeptResults, ACancelledOrFailedOneLeavesNothing) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Server server(seed);
    Client client(&server, "a");
    std::mt19937 random(seed);
    const Factor a{RandomMatrix(&random), {}};
    if (seed % 2 == 0) server.cuda->FailCall("Launch", absl::InternalError("a fault"));
    std::vector<std::future<MatmulOutcome>> outcomes;
    for (int i = 0; i < 4; ++i) {
      std::uint64_t id = 0;
      outcomes.push_back(client.Begin(client.CallOf(a, a, true), a, a, &id));
      if (i % 2 == 1) server.admission->Cancel(id);
    }
    for (auto& each : outcomes) {
      const MatmulOutcome outcome = each.get();
      if (outcome.status.ok()) {
        EXPECT_EQ(*client.Get(outcome.handle), Product(a.matrix, a.matrix));
        EXPECT_TRUE(client.Release(outcome.handle).ok());
      } else {
        EXPECT_TRUE(outcome.handle.empty());
      }
    }
    EXPECT_TRUE(server.IsEmpty()) << "seed " << seed;
  }
}

TEST(KeptResults, ALostDeviceEndsTheChain) {
  Server server(3);
  Client client(&server, "a");
  std::mt19937 random(3);
  const Factor a{RandomMatrix(&random), {}};
  const MatmulOutcome first = client.Multiply(a, a, true);
  ASSERT_TRUE(first.status.ok()) << first.status;
  server.cuda->LoseDevice(absl::UnavailableError("cudaErrorIllegalAddress"));
  EXPECT_TRUE(absl::IsUnavailable(client.Multiply(Factor{{}, first.handle}, a, true).status));
  EXPECT_TRUE(absl::IsUnavailable(client.Get(first.handle).status()));
  EXPECT_TRUE(client.Release(first.handle).ok());
  EXPECT_EQ(server.store->statistics().reserved_bytes, 0u);
  EXPECT_EQ(server.device->memory().usage().resident_bytes, 0u);
}

// One that does things at random, and knows what its matrices are.
class Historian {
 public:
  Historian(Server* server, const std::string& name, std::uint32_t seed)
      : client_(server, name), server_(server), random_(seed) {}

  void Step() {
    switch (random_() % 8) {
      case 0:
        if (Kept* const kept = Any(); kept != nullptr) {
          const absl::StatusOr<Matrix> matrix = client_.Get(kept->handle);
          ASSERT_TRUE(matrix.ok()) << matrix.status();
          EXPECT_EQ(*matrix, kept->matrix);
        }
        break;
      case 1:
        if (Kept* const kept = Any(); kept != nullptr) {
          EXPECT_TRUE(client_.Release(kept->handle).ok());
          *kept = std::move(kept_.back());
          kept_.pop_back();
        }
        break;
      default:
        Multiply();
    }
  }
  void ReleaseAll() {
    for (const Kept& kept : kept_) EXPECT_TRUE(client_.Release(kept.handle).ok());
    kept_.clear();
  }
  int products() const { return products_; }

 private:
  struct Kept {
    std::string handle;
    Matrix matrix;
    int depth = 0;  // of the chain that it is the end of
  };
  struct Use {
    Factor factor;
    int depth = 0;
  };

  Kept* Any() { return kept_.empty() ? nullptr : &kept_[random_() % kept_.size()]; }
  Use AnyFactor() {
    constexpr int kMostDepth = 2;  // deeper ones would round
    const Kept* const kept = random_() % 3 == 0 ? nullptr : Any();
    if (kept == nullptr || kept->depth > kMostDepth) return {{RandomMatrix(&random_), {}}, 0};
    return {{kept->matrix, kept->handle}, kept->depth};
  }

  // Several at once.
  void Multiply() {
    struct Begun {
      Matrix expected;
      int depth = 0;
      bool keeps = false;
      std::future<MatmulOutcome> outcome;
    };
    std::vector<Begun> begun;
    for (std::uint32_t i = 0; i <= random_() % 3; ++i) {
      const Use a = AnyFactor();
      Use b = AnyFactor();
      if (a.depth + b.depth > 2) b = {{RandomMatrix(&random_), {}}, 0};
      const bool keeps = random_() % 3 != 0;
      std::uint64_t id = 0;
      Begun each{Product(a.factor.matrix, b.factor.matrix), a.depth + b.depth + 1, keeps,
                 client_.Begin(client_.CallOf(a.factor, b.factor, keeps), a.factor, b.factor, &id)};
      if (random_() % 10 == 0) server_->admission->Cancel(id);
      begun.push_back(std::move(each));
    }
    for (Begun& each : begun) {
      MatmulOutcome outcome = each.outcome.get();
      if (!outcome.status.ok()) {
        // Full while others are in flight, or cancelled.
        EXPECT_TRUE(absl::IsResourceExhausted(outcome.status) || absl::IsCancelled(outcome.status))
            << outcome.status;
        continue;
      }
      ++products_;
      if (each.keeps) {
        kept_.push_back({outcome.handle, std::move(each.expected), each.depth});
      } else {
        EXPECT_EQ(MatrixOf(outcome.d), each.expected);
      }
    }
  }

  Client client_;
  Server* const server_;
  std::mt19937 random_;
  std::vector<Kept> kept_;
  int products_ = 0;
};

TEST(KeptResults, AnyHistoryLeavesNothingBehind) {
  std::uint64_t moves_out = 0;
  std::uint64_t landings = 0;
  int products = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    Server server(seed, 14 * kBytes);
    Historian historian(&server, "a", seed);
    for (int step = 0; step < 25; ++step) historian.Step();
    products += historian.products();
    historian.ReleaseAll();
    moves_out += server.store->statistics().moves_out;
    landings += server.store->statistics().landings;
    ASSERT_TRUE(server.IsEmpty()) << "seed " << seed;
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  // They reach what they are there for.
  EXPECT_GT(products, 500);
  EXPECT_GT(moves_out, 50u);
  EXPECT_GT(landings, 50u);
}

TEST(KeptResults, HistoriesOfSeveralThreadsLeaveNothingBehind) {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    Server server(seed, 24 * kBytes);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < 3; ++i) {
      threads.emplace_back([&server, seed, i] {
        Historian historian(&server, std::string(1, static_cast<char>('a' + i)), seed * 3 + i);
        for (int step = 0; step < 15; ++step) historian.Step();
        historian.ReleaseAll();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(server.IsEmpty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gemmd
