// Copies of hot operands between two CUDA devices over fake runtimes, from a request's header to
// its outcome.
#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/time/units.h"
#include "gtest/gtest.h"
#include "server/admission/admission.h"
#include "server/device/cuda/cuda_device.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/products/reference_kernel.h"

namespace gemmd {
namespace {

constexpr std::int64_t kSize = 40;
constexpr std::uint64_t kBytes = kSize * kSize * sizeof(float);
// Far more than any product here takes.
constexpr double kBusyUs = 1e6;

Registry MakeRegistry() {
  std::vector<std::unique_ptr<const Kernel>> kernels;
  kernels.push_back(std::make_unique<testing::ReferenceKernel>());
  return Registry(std::move(kernels));
}

// Stands before a device in its scheduler's eyes. It hands on what is to be computed, but works of
// no kernel stay under way until the test ends them.
class Gate final : public Device {
 public:
  explicit Gate(Device* device) : device_(device) {}

  const DeviceTraits& traits() const override { return device_->traits(); }
  MemoryBudget& memory() override { return device_->memory(); }
  // Whatever else is under way, a launch begins at once.
  int max_in_flight() const override { return 1000; }
  int busy_in_flight() const override { return 1000; }
  void Submit(DeviceLaunch launch, Callback done) override {
    if (launch.works.front().plan.kernel != nullptr) {
      device_->Submit(std::move(launch), std::move(done));
      return;
    }
    {
      const MutexLock lock(mutex_);
      waiting_.push_back(std::move(done));
    }
    came_.notify_one();
  }
  // Another thread may be about to launch it.
  void EndOne() {
    Callback done;
    {
      const MutexLock lock(mutex_);
      while (waiting_.empty()) came_.wait(mutex_);
      done = std::move(waiting_.back());
      waiting_.pop_back();
    }
    std::move(done)(DeviceResult());
  }

 private:
  Device* const device_;
  Mutex mutex_;
  CondVar came_;
  std::vector<Callback> waiting_ ABSL_GUARDED_BY(mutex_);
};

struct Unit {
  Unit(std::uint32_t seed, const std::string& model, std::uint64_t bytes, const Clock* clock) {
    CudaProperties properties = testing::FakeCuda::H200();
    if (!model.empty()) properties.name = model;
    cuda = std::make_shared<testing::FakeCuda>(seed, properties);
    CudaDevice::Options options;
    options.memory_bytes = bytes;
    options.pinned_bytes = options.unpinned_bytes = 16 << 20;
    options.panel_bytes = 64 << 10;
    options.stall_timeout_ms = 1 << 30;  // the clock leaps
    device = *CudaDevice::Create(cuda, options, clock);
    gate = std::make_unique<Gate>(device.get());
    scheduler = std::make_unique<Scheduler>(gate.get(), clock, &alarm, testing::BoundOf(64));
  }
  ~Unit() { scheduler->WaitUntilIdle(60000); }
  std::uint64_t resident_bytes() const { return device->memory().usage().resident_bytes; }
  std::uint64_t requests() const { return scheduler->statistics().requests; }

  testing::FakeAlarm alarm;
  std::shared_ptr<testing::FakeCuda> cuda;
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<Gate> gate;
  std::unique_ptr<Scheduler> scheduler;
};

struct Options {
  bool makes_copies = true;
  std::string second_model;  // empty: the first one's
  std::uint64_t device_bytes = 16 << 20;
};

// One server's layers under the wire.
struct Server {
  explicit Server(std::uint32_t seed, const Options& given = {})
      : first(2 * seed, "", given.device_bytes, &clock),
        second(2 * seed + 1, given.second_model, given.device_bytes, &clock),
        router({{first.device.get(), first.scheduler.get()},
                {second.device.get(), second.scheduler.get()}}) {
    StoreOptions options;
    options.all = options.tenant = {64, 64 * kBytes};
    options.default_lease = 100 * kSecond;
    options.max_lease = 1000 * kSecond;
    options.upload_lease = kSecond;
    options.makes_copies = given.makes_copies;
    store = std::make_unique<OperandStore>(options, first.device.get(), &clock, 1);
    RequestLimits limits;
    limits.request_bytes = limits.result_bytes = 1 << 26;
    admission = std::make_unique<Admission>(limits, &registry, &router, &clock,
                                            AdmissionHelpers{store.get()});
  }
  // Does what is under way first: it uses the layers.
  ~Server() { WaitUntilIdle(); }
  void WaitUntilIdle() {
    router.WaitUntilIdle(60000);
    store->WaitForCopies();
  }

  // On that device, each element being the value.
  std::string Keep(Unit* unit, float value) {
    const MatrixLayout d{DataType::kF32, kSize, kSize, Order::kRowMajor, kSize};
    // As it comes from a client.
    const std::vector<float> elements(kSize * kSize, value);
    const absl::string_view piece(reinterpret_cast<const char*>(elements.data()), kBytes);
    OperandForm form;
    form.data = d;
    OperandPlanes<std::vector<Sha256Digest>> chunks;
    chunks[PlaneName::kData] = ChunkDigests(piece);
    auto stream = *store->BeginUpload(Tenant(), DigestOf(form, chunks), form, std::nullopt);
    EXPECT_TRUE(*stream->Receive({PlaneName::kData, 0, {&piece, 1}}));
    const std::string handle = stream->info().handle;
    Problem problem = MakeProblem(kSize, kSize, kSize, DataType::kF32, DataType::kF32);
    std::uint64_t landed_bytes = 0;
    EXPECT_TRUE(
        Use(handle)->PlaceOn(unit->device.get(), problem, WorkPlane::kB, &landed_bytes).ok());
    return handle;
  }
  std::shared_ptr<StoredOperand> Use(const std::string& handle) {
    return *store->Use(Tenant(), {handle, {}}, "b");
  }
  // The device has much to do until the result goes.
  struct IsIdleAgain {
    void operator()(Unit* unit) const { unit->gate->EndOne(); }
  };
  std::unique_ptr<Unit, IsIdleAgain> Busy(Unit* unit) {
    auto job = std::make_unique<Job>();
    job->id = admission->NextRequestId();
    job->cost.device_us = kBusyUs;
    job->is_measurement = true;
    job->done = [](const absl::Status&, const Receipt&) {};
    EXPECT_TRUE(unit->scheduler->Submit(std::move(job)).ok());
    return std::unique_ptr<Unit, IsIdleAgain>(unit);
  }
  bool IsOn(const std::string& handle, const Unit& unit) {
    return Use(handle)->is_on(*unit.device);
  }

  testing::FakeClock clock;
  const Registry registry = MakeRegistry();
  Unit first;
  Unit second;
  Router router;
  std::unique_ptr<OperandStore> store;
  std::unique_ptr<Admission> admission;
};

OperandSpec Named(const std::string& handle) {
  OperandSpec spec;
  spec.has_data = false;
  spec.source = Source::kResident;
  spec.resident = {handle, {}};
  return spec;
}

// A product over what is kept. `a` empty: of ones, inline.
std::future<MatmulOutcome> Begin(Server* server, const std::string& a, const std::string& b,
                                 bool keeps = false) {
  static const auto& ones = *new std::vector<float>(kSize * kSize, 1);
  MatmulCall call;
  call.b = Named(b);
  if (a.empty()) {
    call.a = OperandSpec();
    call.a->data = {DataType::kF32, kSize, kSize, Order::kRowMajor, 0};
  } else {
    call.a = Named(a);
  }
  if (keeps) call.keep_result = KeepResult{};
  auto promise = std::make_shared<std::promise<MatmulOutcome>>();
  std::future<MatmulOutcome> outcome = promise->get_future();
  const auto refuse = [&](absl::Status status) {
    MatmulOutcome refused;
    refused.status = std::move(status);
    promise->set_value(std::move(refused));
  };
  auto admitted = server->admission->Admit(call, kNoDeadline, Admission::Carrier::kStream);
  if (!admitted.ok()) {
    refuse(admitted.status());
    return outcome;
  }
  if (a.empty()) {
    const absl::string_view piece(reinterpret_cast<const char*>(ones.data()), kBytes);
    EXPECT_TRUE(
        (*admitted)->payload().Receive({OperandName::kA, PlaneName::kData, 0, {&piece, 1}}).ok());
  }
  absl::Status status = server->admission->Submit(
      server->admission->NextRequestId(), *std::move(admitted), RequestTimes(),
      [promise](MatmulOutcome done) { promise->set_value(std::move(done)); });
  if (!status.ok()) refuse(std::move(status));
  return outcome;
}

// The first element of D.
float Multiply(Server* server, const std::string& a, const std::string& b) {
  const MatmulOutcome outcome = Begin(server, a, b).get();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  float element = 0;
  if (!outcome.d.empty()) std::memcpy(&element, outcome.d.front().data, sizeof element);
  return element;
}

// Products until one of them has a copy made; whether any did.
bool MultiplyUntilCopied(Server* server, const std::string& a, const std::string& b) {
  const std::uint64_t before = server->store->statistics().copies;
  for (int i = 0; i < 1000; ++i) {
    Multiply(server, a, b);
    server->store->WaitForCopies();
    if (server->store->statistics().copies != before) return true;
  }
  return false;
}

TEST(OperandCopies, WhatWaitsForItsHolderIsServedByBothAtLast) {
  Server server(1);
  const std::string b = server.Keep(&server.first, 2);
  const auto busy = server.Busy(&server.first);
  ASSERT_TRUE(MultiplyUntilCopied(&server, "", b));
  EXPECT_TRUE(server.IsOn(b, server.first));
  EXPECT_TRUE(server.IsOn(b, server.second));
  EXPECT_EQ(server.store->statistics().copy_bytes, server.second.resident_bytes());
  // The other one is idle, so it has the next ones, and nothing more is copied.
  const std::uint64_t served = server.second.requests();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Multiply(&server, "", b), 2 * kSize);
  EXPECT_EQ(server.second.requests(), served + 20);
  server.store->WaitForCopies();
  EXPECT_EQ(server.store->statistics().copies, 1u);
  EXPECT_TRUE(server.store->Release(Tenant(), {b, {}}).ok());
  EXPECT_EQ(server.first.resident_bytes() + server.second.resident_bytes(), 0u);
}

TEST(OperandCopies, NoneIsMadeOfWhatWaitsForNobody) {
  Server server(2);
  const std::string b = server.Keep(&server.first, 2);
  // The holder has less to do than the other.
  const auto busy = server.Busy(&server.first);
  const auto as_busy = server.Busy(&server.second);
  const auto busier = server.Busy(&server.second);
  EXPECT_FALSE(MultiplyUntilCopied(&server, "", b));
  EXPECT_FALSE(server.IsOn(b, server.second));
}

// Their payload is still to come: nothing waits for the device.
TEST(OperandCopies, NoneIsMadeForProductsThatWaitForTheirClients) {
  Server server(10);
  const std::string b = server.Keep(&server.first, 2);
  JobQueue::Newcomer newcomer;
  newcomer.us = kBusyUs;
  const ExpectedJob expected = server.first.scheduler->Expect(newcomer);
  EXPECT_FALSE(MultiplyUntilCopied(&server, "", b));
}

TEST(OperandCopies, NoneIsMadeWhereTheyAreOff) {
  Options given;
  given.makes_copies = false;
  Server server(3, given);
  const std::string b = server.Keep(&server.first, 2);
  const auto busy = server.Busy(&server.first);
  EXPECT_FALSE(MultiplyUntilCopied(&server, "", b));
}

// Its bits might be others.
TEST(OperandCopies, NoneIsMadeOnAnotherModel) {
  Options given;
  given.second_model = "another";
  Server server(4, given);
  ASSERT_NE(server.first.device->traits().model, server.second.device->traits().model);
  const std::string b = server.Keep(&server.first, 2);
  const auto busy = server.Busy(&server.first);
  EXPECT_FALSE(MultiplyUntilCopied(&server, "", b));
}

TEST(OperandCopies, OneThatIsUsedNowAndThenHasNone) {
  Server server(5);
  const std::string b = server.Keep(&server.first, 2);
  const auto busy = server.Busy(&server.first);
  for (int i = 0; i < 200; ++i) {
    Multiply(&server, "", b);
    server.clock.Advance(10 * kSecond);
  }
  server.store->WaitForCopies();
  EXPECT_EQ(server.store->statistics().copies, 0u);
}

// A product that needs both finds them on one device.
TEST(OperandCopies, TwoOfOneProductAreCopiedTogether) {
  Server server(6);
  const std::string a = server.Keep(&server.first, 3);
  const std::string b = server.Keep(&server.first, 2);
  const auto busy = server.Busy(&server.first);
  ASSERT_TRUE(MultiplyUntilCopied(&server, a, b));
  EXPECT_TRUE(server.IsOn(a, server.second));
  EXPECT_TRUE(server.IsOn(b, server.second));
  EXPECT_EQ(server.store->statistics().copies, 2u);
  const std::uint64_t served = server.second.requests();
  EXPECT_EQ(Multiply(&server, a, b), 6 * kSize);
  EXPECT_EQ(server.second.requests(), served + 1);
}

// Each link of a chain is used once: a copy of the weights alone would serve none of them.
TEST(OperandCopies, WeightsOfAChainStayWithIt) {
  Server server(7);
  const std::string weights = server.Keep(&server.first, 0.025F);
  std::string link = server.Keep(&server.first, 1);
  const auto busy = server.Busy(&server.first);
  for (int i = 0; i < 30; ++i) {
    const MatmulOutcome outcome = Begin(&server, link, weights, true).get();
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.receipt.landed_bytes, 0u);
    ASSERT_TRUE(server.store->Release(Tenant(), {link, {}}).ok());
    link = outcome.handle;
  }
  server.store->WaitForCopies();
  EXPECT_EQ(server.store->statistics().copies, 0u);
}

TEST(OperandCopies, AProductGoesWhereMostOfItsOperandsLie) {
  Server server(8);
  const std::string a = server.Keep(&server.first, 3);
  const std::string b = server.Keep(&server.first, 2);
  std::uint64_t landed_bytes = 0;
  const Problem problem = MakeProblem(kSize, kSize, kSize, DataType::kF32, DataType::kF32);
  ASSERT_TRUE(server.Use(b)
                  ->PlaceOn(server.second.device.get(), problem, WorkPlane::kB, &landed_bytes)
                  .ok());
  const auto busy = server.Busy(&server.first);
  // The second one holds B, and is idle.
  EXPECT_EQ(Multiply(&server, a, b), 6 * kSize);
  EXPECT_EQ(server.first.requests(), 1u);
  EXPECT_EQ(Multiply(&server, "", b), 2 * kSize);
  EXPECT_EQ(server.second.requests(), 1u);
}

TEST(OperandCopies, TheyGoFirstWhenARequestNeedsTheirMemory) {
  Options given;
  given.device_bytes = 12 * kBytes;
  Server server(9, given);
  const std::string sole = server.Keep(&server.second, 5);
  const std::string b = server.Keep(&server.first, 2);
  {
    const auto busy = server.Busy(&server.first);
    ASSERT_TRUE(MultiplyUntilCopied(&server, "", b));
  }
  server.WaitUntilIdle();
  const MemoryUsage usage = server.second.device->memory().usage();
  const auto taken = server.second.device->memory().Reserve(usage.free_bytes() - kBytes, 0);
  ASSERT_TRUE(taken.ok());
  // It needs room for A, for D and to work in.
  EXPECT_EQ(Multiply(&server, "", sole), 5 * kSize);
  EXPECT_FALSE(server.IsOn(b, server.second));
  EXPECT_TRUE(server.IsOn(sole, server.second));
  EXPECT_EQ(server.store->statistics().copies_dropped, 1u);
  EXPECT_EQ(server.store->statistics().moves_out, 0u);
  // It does not come back at once, however much is to be gained.
  const auto busy = server.Busy(&server.first);
  EXPECT_FALSE(MultiplyUntilCopied(&server, "", b));
}

// Products of several clients while copies come and go: each has its bits, and in the end nothing
// holds memory.
TEST(OperandCopies, NoHistoryChangesAResultOrKeepsMemory) {
  std::uint64_t copies = 0;
  std::uint64_t dropped = 0;
  // The threads decide by how they meet how many copies a history has, so there may be more of
  // them.
  for (std::uint32_t seed = 0; seed < 12 || (copies <= 12 && seed < 60); ++seed) {
    Options given;
    given.device_bytes = 24 * kBytes;
    Server server(seed, given);
    std::vector<std::string> kept;
    for (int i = 0; i < 4; ++i) {
      kept.push_back(
          server.Keep(i % 2 == 0 ? &server.first : &server.second, static_cast<float>(i + 1)));
    }
    const auto play = [&](std::uint32_t own_seed) {
      std::mt19937 random(own_seed);
      for (int step = 0; step < 40; ++step) {
        const auto busy = server.Busy(random() % 2 == 0 ? &server.first : &server.second);
        const std::size_t b = random() % kept.size();
        const std::size_t a = random() % (kept.size() + 2);
        const bool is_inline = a >= kept.size();
        switch (random() % 12) {
          case 0:
            server.store->MoveOutOf(random() % 2 == 0 ? server.first.device.get()
                                                      : server.second.device.get());
            break;
          case 1:
            server.clock.Advance(kSecond);
            break;
          default: {
            const MatmulOutcome outcome = Begin(&server, is_inline ? "" : kept[a], kept[b]).get();
            if (!outcome.status.ok()) {
              EXPECT_TRUE(absl::IsResourceExhausted(outcome.status)) << outcome.status;
              break;
            }
            float element = 0;
            std::memcpy(&element, outcome.d.front().data, sizeof element);
            EXPECT_EQ(element, (is_inline ? 1 : static_cast<float>(a + 1)) *
                                   static_cast<float>(b + 1) * kSize);
          }
        }
      }
    };
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < 3; ++i) threads.emplace_back(play, 3 * seed + i);
    for (std::thread& each : threads) each.join();
    server.WaitUntilIdle();
    copies += server.store->statistics().copies;
    dropped += server.store->statistics().copies_dropped;
    for (const std::string& each : kept) {
      EXPECT_TRUE(server.store->Release(Tenant(), {each, {}}).ok());
    }
    ASSERT_EQ(server.first.resident_bytes() + server.second.resident_bytes(), 0u);
    EXPECT_EQ(server.store->statistics().reserved_bytes, 0u);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(copies, 12u);
  EXPECT_GT(dropped, 5u);
}

}  // namespace
}  // namespace gemmd
