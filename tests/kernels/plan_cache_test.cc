#include "kernels/plan_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace gemmd {
namespace {

constexpr char kVersion[] = "1.2 vendor-3";

DeviceTraits Gpu() {
  DeviceTraits device;
  device.kind = DeviceKind::kCuda;
  device.model = "GPU";
  return device;
}

Problem Shape(std::int64_t m) { return MakeProblem(m, 64, 128, DataType::kBf16, DataType::kF32); }

MeasuredPlan Measured(int algorithm) {
  MeasuredPlan plan;
  plan.kernel = "vendor/bf16";
  plan.config.algorithm = algorithm;
  plan.config.workspace_bytes = 4096;
  plan.measured_us = 12.5;
  return plan;
}

TEST(PlanKey, NamesWhatMattersAndNothingElse) {
  Problem problem = Shape(32);
  EXPECT_EQ(PlanKey(problem, Gpu()), "GPU: 32x64x128 bf16,bf16->f32 kn acc=f32 batch_invariant");
  problem.epilogue.alpha = 3;
  problem.a.leading_dimension = 256;
  EXPECT_EQ(PlanKey(problem, Gpu()), PlanKey(Shape(32), Gpu()));
  problem.epilogue.beta = 0.5;
  problem.epilogue.has_bias = true;
  problem.epilogue.activation = Activation::kSilu;
  problem.d.order = Order::kColumnMajor;
  problem.a_scaling = Scaling::kVector;
  problem.determinism = Determinism::kFast;
  EXPECT_EQ(PlanKey(problem, Gpu()),
            "GPU: 32x64x128 bf16,bf16->f32 kn acc=f32 fast d=column_major scales=vector,none "
            "c=row_major bias silu");
}

TEST(PlanCache, LooksBehindItInWhatIsShipped) {
  PlanCache shipped;
  ASSERT_TRUE(shipped.Insert(Shape(32), Gpu(), Measured(3)).ok());
  PlanCache cache;
  cache.set_shipped(&shipped);
  EXPECT_EQ(cache.Find(Shape(32), Gpu()), Measured(3));
  EXPECT_EQ(cache.size(), 0u);
  ASSERT_TRUE(cache.Insert(Shape(32), Gpu(), Measured(4)).ok());
  EXPECT_EQ(cache.Find(Shape(32), Gpu()), Measured(4));
  EXPECT_EQ(cache.Find(Shape(33), Gpu()), std::nullopt);
  EXPECT_EQ(PlanCache(cache).Find(Shape(32), Gpu()), Measured(4));
}

TEST(PlanCache, FindsWhatWasInserted) {
  PlanCache cache;
  EXPECT_EQ(cache.Find(Shape(32), Gpu()), std::nullopt);
  ASSERT_TRUE(cache.Insert(Shape(32), Gpu(), Measured(3)).ok());
  EXPECT_EQ(cache.Find(Shape(32), Gpu()), Measured(3));
  EXPECT_EQ(cache.Find(Shape(33), Gpu()), std::nullopt);
  ASSERT_TRUE(cache.Insert(Shape(32), Gpu(), Measured(4)).ok());
  EXPECT_EQ(cache.Find(Shape(32), Gpu()), Measured(4));
  EXPECT_EQ(cache.size(), 1u);
}

TEST(PlanCache, CopiesAreIndependent) {
  PlanCache cache;
  ASSERT_TRUE(cache.Insert(Shape(32), Gpu(), Measured(3)).ok());
  PlanCache copy = cache;
  ASSERT_TRUE(copy.Insert(Shape(33), Gpu(), Measured(5)).ok());
  EXPECT_EQ(cache.size(), 1u);
  cache = copy;
  EXPECT_EQ(cache.size(), 2u);
}

TEST(PlanCache, ThreadsShareIt) {
  PlanCache cache;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (int i = 1; i <= 100; ++i) {
        EXPECT_TRUE(cache.Insert(Shape(i), Gpu(), Measured(t)).ok());
        EXPECT_TRUE(cache.Find(Shape(i), Gpu()).has_value());
        if (i % 50 != 0) continue;
        EXPECT_GE(PlanCache(cache).size(), 50u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.size(), 100u);
}

TEST(PlanCacheFile, KeepsEveryFieldOfAPlan) {
  MeasuredPlan plan = Measured(3);
  Config& c = plan.config;
  int value = 1;
  for (int* field : {&c.tile_m, &c.tile_n, &c.tile_k, &c.stages, &c.cluster_m, &c.cluster_n,
                     &c.warps, &c.raster_group, &c.split_k, &c.threads}) {
    *field = value++;
  }
  PlanCache cache;
  ASSERT_TRUE(cache.Insert(Shape(32), Gpu(), plan).ok());
  ASSERT_TRUE(cache.Insert(Shape(33), Gpu(), Measured(1)).ok());
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/plans.json";
  ASSERT_TRUE(cache.Save(path, kVersion).ok());
  const absl::StatusOr<PlanCache> loaded = PlanCache::Load(path, kVersion);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->size(), 2u);
  EXPECT_EQ(loaded->Find(Shape(32), Gpu()), plan);
  EXPECT_EQ(loaded->Find(Shape(33), Gpu()), Measured(1));
}

TEST(PlanCacheFile, IsNotTakenFromAnotherVersion) {
  const absl::Status status = PlanCache::FromJson(PlanCache().ToJson("1.1"), kVersion).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "version is \"1.1\", and this is \"1.2 vendor-3\": measure again");
}

std::string Refusal(const std::string& text) {
  const absl::Status status = PlanCache::FromJson(text, kVersion).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

std::string FileWith(const std::string& plan) {
  return R"({"format": 1, "version": "1.2 vendor-3", "plans": [)" + plan + "]}";
}

TEST(PlanCacheFile, RefusalsNameTheLineOrTheField) {
  EXPECT_NE(Refusal("{\n \"format\": 1,\n oops").find("line 3"), std::string::npos);
  EXPECT_EQ(Refusal("[]"), "the file must be an object");
  EXPECT_NE(Refusal(R"({"format": 1e999})").find("1e999"), std::string::npos);
  EXPECT_EQ(Refusal("{}"), "format is missing");
  EXPECT_EQ(Refusal(R"({"format": 2})"), "format is 2; it must be 1");
  EXPECT_EQ(Refusal(R"({"format": 1})"), "version is missing");
  EXPECT_EQ(Refusal(R"({"format": 1, "version": "1.2 vendor-3"})"), "plans must be a list");
  EXPECT_EQ(Refusal(FileWith("7")), "plans[0] must be an object");
  EXPECT_EQ(Refusal(FileWith("{}")), "plans[0].key is missing");
  EXPECT_EQ(Refusal(FileWith(R"({"key": 3})")), "plans[0].key is 3; it must be text");
  EXPECT_EQ(Refusal(FileWith(R"({"key": "x", "kernel": "y"})")), "plans[0].config is missing");
  const auto with_config = [](const std::string& config) {
    return FileWith(R"({"key": "x", "kernel": "y", "config": )" + config +
                    R"(, "measured_us": 1})");
  };
  EXPECT_EQ(Refusal(with_config(R"({"algorithm": -1})")),
            "plans[0].config.algorithm is -1; it must be 0 to 2147483647");
  EXPECT_EQ(Refusal(with_config(R"({"speed": 1})")),
            "plans[0].config.speed is no field of a config");
  EXPECT_EQ(Refusal(FileWith(R"({"key": "x", "kernel": "y", "config": {}})")),
            "plans[0].measured_us is missing");
  EXPECT_EQ(Refusal(FileWith(R"({"key": "x", "kernel": "y", "config": {}, "measured_us": 0})")),
            "plans[0].measured_us is 0; it must be a number above 0");
  const std::string twice = R"({"key": "x", "kernel": "y", "config": {}, "measured_us": 1})";
  EXPECT_EQ(Refusal(FileWith(twice + "," + twice)), "plans[1].key is \"x\" a second time");
}

TEST(PlanCacheFile, ErrorsNameThePath) {
  const absl::Status missing = PlanCache::Load("/nowhere/plans.json", kVersion).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "/nowhere/plans.json: cannot be read: No such file or directory");
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/broken.json";
  std::ofstream(path) << "{}";
  EXPECT_EQ(PlanCache::Load(path, kVersion).status().message(), path + ": format is missing");
  EXPECT_EQ(PlanCache().Save("/nowhere/plans.json", kVersion).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gemmd
