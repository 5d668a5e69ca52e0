#include "client/cli/views/top_view.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

void AddKernel(const std::string& name, std::uint64_t requests, double compute_us, TopSample* to) {
  v1::KernelStatistics* const kernel = to->statistics.add_kernels();
  kernel->set_kernel(name);
  kernel->set_requests(requests);
  kernel->set_compute_us(compute_us);
  kernel->set_flops(1e9 * static_cast<double>(requests));
}

TopSample SampleAt(std::int64_t seconds) {
  TopSample sample;
  sample.info.set_version("1.2.3");
  v1::DeviceInfo* const device = sample.info.add_devices();
  device->set_name("cuda:0");
  device->set_model("H200");
  device->mutable_memory()->set_limit_bytes(1000);
  device->mutable_memory()->set_free_bytes(250);
  sample.statistics.mutable_uptime()->set_seconds(seconds);
  return sample;
}

class TopViewTest : public ::testing::Test {
 protected:
  TopViewTest() {
    (*before_.statistics.mutable_finished_requests())["OK"] = 100;
    (*now_.statistics.mutable_finished_requests())["OK"] = 300;
    (*now_.statistics.mutable_finished_requests())["UNAVAILABLE"] = 5;
    (*now_.statistics.mutable_refused_requests())["draining"] = 5;
    AddKernel("sm90/a", 100, 1e6, &before_);
    AddKernel("sm90/a", 300, 3e6, &now_);
    AddKernel("sm90/b", 10, 9e6, &now_);
    v1::QueueStatistics* const queue = now_.statistics.add_queues();
    queue->set_device("cuda:0");
    queue->set_backlog_us(2500);
    queue->mutable_rows()->set_launches(40);
    v1::StageStatistics* stage = before_.statistics.add_stages();
    stage->set_name(v1::COMPUTE);
    stage->set_count(100);
    stage->set_sum_us(1000);
    stage = now_.statistics.add_stages();
    stage->set_name(v1::COMPUTE);
    stage->set_count(300);
    stage->set_sum_us(6000);
    v1::TenantStatistics* const tenant = now_.statistics.add_tenants();
    tenant->set_ok_requests(3);
    tenant->set_failed_requests(1);
  }

  std::string Render(TopOrder order = TopOrder::kTime) const {
    return RenderTop("node:50051", before_, now_, order);
  }

  TopSample before_ = SampleAt(10);
  TopSample now_ = SampleAt(20);
};

TEST_F(TopViewTest, ShowsRatesBetweenTheLooks) {
  const std::string text = Render();
  EXPECT_THAT(text, HasSubstr("node:50051, gemmd 1.2.3, serving for 20s"));
  EXPECT_THAT(text, HasSubstr("OK 20.0, UNAVAILABLE 0.50"));
  EXPECT_THAT(text, HasSubstr("draining 0.50"));
  EXPECT_THAT(text, ContainsRegex("cuda:0 +H200 +1000 B +75.0 % +0 +2.5 +4.00"));
  EXPECT_THAT(text, ContainsRegex("compute +20.0 +25.0 +0.1 %"));
  EXPECT_THAT(text, ContainsRegex("sm90/a +20.0 +20.0 +20.0 %"));
  EXPECT_THAT(text, ContainsRegex("[(]none[)] +0.40"));
}

TEST_F(TopViewTest, SortsByWhatIsAsked) {
  const auto first = [this](TopOrder order) {
    const std::string text = Render(order);
    return text.find("sm90/a") < text.find("sm90/b") ? 'a' : 'b';
  };
  EXPECT_EQ(first(TopOrder::kTime), 'b');
  EXPECT_EQ(first(TopOrder::kRequests), 'a');
  EXPECT_EQ(first(TopOrder::kFlops), 'a');
  EXPECT_EQ(first(TopOrder::kName), 'a');
}

// Counters that are less than they were are of another life.
TEST_F(TopViewTest, AServerThatStartedAgainIsShownSinceThen) {
  now_.statistics.mutable_uptime()->set_seconds(2);
  (*now_.statistics.mutable_finished_requests())["OK"] = 50;
  EXPECT_THAT(Render(), HasSubstr("OK 25.0"));
}

TEST_F(TopViewTest, ARowThatBeganAnewIsNoHugeRate) {
  before_.statistics.mutable_kernels(0)->set_requests(1000);
  EXPECT_THAT(Render(), Not(ContainsRegex("[0-9]{6}")));
}

TEST_F(TopViewTest, FitsTheScreen) {
  const std::string text = RenderTop("node:50051", before_, now_, TopOrder::kTime, 30, 5);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_EQ(lines.size(), 5u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 30u);
}

TEST_F(TopViewTest, WrongProductsAreNotOverlooked) {
  EXPECT_THAT(Render(), Not(HasSubstr("WRONG")));
  now_.statistics.mutable_verification()->set_failed(2);
  EXPECT_THAT(Render(), HasSubstr("WRONG"));
}

}  // namespace
}  // namespace gemmd::cli
