// Files for trace viewers: tracks hold slices that nest, and all of the receipts' stages are there.
#include "client/trace/trace_formats.h"

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/trace/trace_model.h"
#include "google/protobuf/io/coded_stream.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace gemmd::client {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kStart = 1'700'000'000'000'000'000;

void AddStage(v1::Receipt* receipt, v1::StageName name, double start, double end) {
  v1::Stage* const stage = receipt->add_stages();
  stage->set_name(name);
  stage->set_start_us(start);
  stage->set_end_us(end);
  stage->set_exposed_us((end - start) / 2);
}

// Requests whose copies and computations overlap, some of which share a launch.
v1::TracesResponse ManyTimelines() {
  std::mt19937 random(7);
  v1::TracesResponse traces;
  for (std::uint64_t id = 1; id <= 200; ++id) {
    v1::Timeline& timeline = *traces.add_timelines();
    v1::Receipt& receipt = *timeline.mutable_receipt();
    const std::uint64_t launch = 1 + id / 3;
    timeline.set_arrival_unix_ns(kStart + launch * 70'000);
    timeline.set_launch(launch);
    timeline.set_connection(random() % 3);
    timeline.set_tenant("t");
    receipt.set_request_id(id);
    receipt.set_kernel("k");
    receipt.set_device(launch % 2 == 0 ? "cuda:0" : "cuda:1");
    receipt.set_total_us(120);
    AddStage(&receipt, v1::DECODE, 0, 1.5);
    AddStage(&receipt, v1::RECEIVE, 0.5, 4);  // overlaps
    AddStage(&receipt, v1::QUEUE, 4, 20);
    for (const double at : {20.0, 40.0, 60.0}) {
      AddStage(&receipt, v1::COPY_IN, at, at + 15.001);
      AddStage(&receipt, v1::COMPUTE, at + 10, at + 30);
      AddStage(&receipt, v1::COPY_OUT, at + 25, at + 40);
    }
    AddStage(&receipt, v1::ENCODE, 115, 120);
    if (id % 5 == 0) AddStage(&receipt, v1::VERIFY, 119, 130);  // beyond the receipt's end
  }
  return traces;
}

using Key = std::pair<std::uint64_t, std::string>;

// Returns the time of each request and stage, in ns.
std::map<Key, std::int64_t> StagesOf(const v1::TracesResponse& traces) {
  std::map<Key, std::int64_t> sums;
  for (const v1::Timeline& timeline : traces.timelines()) {
    for (const v1::Stage& stage : timeline.receipt().stages()) {
      std::string name = v1::StageName_Name(stage.name());
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      sums[{timeline.receipt().request_id(), name}] +=
          std::llround((stage.end_us() - stage.start_us()) * 1e3);
    }
  }
  return sums;
}

std::uint64_t RequestOf(const TraceSlice& slice) {
  for (const TraceArgument& each : slice.arguments) {
    if (each.first == "request") return std::get<std::uint64_t>(each.second);
  }
  return 0;
}

TEST(TraceModelTest, SlicesOfATrackNestOrDoNotTouch) {
  for (const TraceGroup& group : ModelOf(ManyTimelines()).groups) {
    for (const TraceTrack& track : group.tracks) {
      std::vector<std::int64_t> open;
      std::int64_t before = 0;
      for (const TraceSlice& slice : track.slices) {
        ASSERT_GE(slice.begin_ns, before);
        before = slice.begin_ns;
        while (!open.empty() && open.back() <= slice.begin_ns) open.pop_back();
        ASSERT_TRUE(open.empty() || slice.end_ns <= open.back())
            << group.name << " " << track.name << " " << slice.name;
        open.push_back(slice.end_ns);
      }
    }
  }
}

TEST(TraceModelTest, SlicesSumToTheReceiptsStages) {
  const v1::TracesResponse traces = ManyTimelines();
  std::map<Key, std::int64_t> sums;
  for (const TraceGroup& group : ModelOf(traces).groups) {
    for (const TraceTrack& track : group.tracks) {
      for (const TraceSlice& slice : track.slices) {
        if (slice.category != "stage") continue;
        sums[{RequestOf(slice), slice.name}] += slice.end_ns - slice.begin_ns;
      }
    }
  }
  EXPECT_EQ(sums, StagesOf(traces));
}

TEST(TraceModelTest, DevicesHaveEachLaunchOnceWithAllItsRequests) {
  const v1::TracesResponse traces = ManyTimelines();
  std::map<std::uint64_t, std::string> expected;
  for (const v1::Timeline& timeline : traces.timelines()) {
    std::string& ids = expected[timeline.launch()];
    ids += (ids.empty() ? "" : ",") + std::to_string(timeline.receipt().request_id());
  }
  const TraceModel model = ModelOf(traces);
  ASSERT_EQ(model.groups.size(), 2U + 3U);
  EXPECT_EQ(model.groups[0].name, "device cuda:0");
  EXPECT_EQ(model.groups[1].name, "device cuda:1");
  EXPECT_EQ(model.groups[2].name, "connection 1");
  std::map<std::uint64_t, std::string> found;
  int device_slices = 0;
  for (const TraceGroup& group : model.groups) {
    for (const TraceTrack& track : group.tracks) {
      for (const TraceSlice& slice : track.slices) {
        device_slices += slice.category == "device" ? 1 : 0;
        if (slice.category != "launch") continue;
        const auto launch = std::get<std::uint64_t>(slice.arguments[0].second);
        EXPECT_TRUE(found.emplace(launch, std::get<std::string>(slice.arguments[4].second)).second);
      }
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(device_slices, static_cast<int>(9 * expected.size()));
}

TEST(TraceModelTest, NothingGivesNothing) {
  EXPECT_TRUE(ModelOf({}).groups.empty());
  EXPECT_EQ(Json::parse(ToChromeJson({}))["traceEvents"].size(), 0U);
  EXPECT_EQ(ToPerfetto({}), "");
}

// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU has the fields.
TEST(ChromeJsonTest, HasTheFieldsOfTheTraceEventFormat) {
  const v1::TracesResponse traces = ManyTimelines();
  const Json trace = Json::parse(ToChromeJson(ModelOf(traces)));
  EXPECT_EQ(trace["displayTimeUnit"], "ns");
  std::map<Key, std::int64_t> sums;
  std::set<std::pair<int, int>> named;
  double first = 1;
  for (const Json& event : trace["traceEvents"]) {
    ASSERT_TRUE(event.at("pid").is_number_integer());
    ASSERT_TRUE(event.at("tid").is_number_integer());
    ASSERT_TRUE(event.at("name").is_string());
    const std::pair<int, int> thread(event["pid"], event["tid"]);
    if (event.at("ph") == "M") {
      EXPECT_TRUE(event["name"] == "process_name" || event["name"] == "thread_name");
      EXPECT_TRUE(event.at("args").at("name").is_string());
      EXPECT_TRUE(named.insert(thread).second);
      continue;
    }
    ASSERT_EQ(event["ph"], "X");
    EXPECT_EQ(named.count(thread), 1U) << "names come first";
    ASSERT_TRUE(event.at("cat").is_string());
    ASSERT_TRUE(event.at("args").is_object());
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    first = std::min(first, event["ts"].get<double>());
    if (event["cat"] != "stage") continue;
    sums[{event["args"]["request"], event["name"]}] +=
        std::llround(event["dur"].get<double>() * 1e3);
  }
  EXPECT_EQ(first, 0);
  EXPECT_EQ(sums, StagesOf(traces));
}

// The wire's fields by their numbers, read without our own description of them.
class Fields {
 public:
  explicit Fields(const std::string& bytes) {
    google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                              static_cast<int>(bytes.size()));
    while (const std::uint32_t tag = in.ReadTag()) {
      const int field = static_cast<int>(tag >> 3U);
      std::uint64_t number = 0;
      if ((tag & 7U) == 0) {
        EXPECT_TRUE(in.ReadVarint64(&number));
      } else if ((tag & 7U) == 1) {
        EXPECT_TRUE(in.ReadLittleEndian64(&number));
      } else {
        EXPECT_EQ(tag & 7U, 2U);
        std::uint32_t size = 0;
        EXPECT_TRUE(in.ReadVarint32(&size));
        std::string text;
        EXPECT_TRUE(in.ReadString(&text, static_cast<int>(size)));
        texts_.emplace(field, text);
        continue;
      }
      numbers_.emplace(field, number);
    }
  }
  std::vector<std::string> Texts(int field) const {
    std::vector<std::string> found;
    const auto [begin, end] = texts_.equal_range(field);
    for (auto each = begin; each != end; ++each) found.push_back(each->second);
    return found;
  }
  std::string Text(int field) const {
    const auto found = Texts(field);
    return found.empty() ? "" : found.front();
  }
  std::uint64_t Number(int field) const {
    const auto found = numbers_.find(field);
    return found == numbers_.end() ? 0 : found->second;
  }
  bool Has(int field) const { return texts_.count(field) + numbers_.count(field) != 0; }

 private:
  std::multimap<int, std::string> texts_;
  std::multimap<int, std::uint64_t> numbers_;
};

TEST(PerfettoTest, BeginsAndEndsSumToTheReceiptsStages) {
  const v1::TracesResponse traces = ManyTimelines();
  struct Open {
    Key key;
    bool is_stage = false;
    std::int64_t begin = 0;
  };
  std::map<std::uint64_t, std::vector<Open>> tracks;
  std::map<Key, std::int64_t> sums;
  for (const std::string& packet : Fields(ToPerfetto(ModelOf(traces))).Texts(1)) {
    const Fields fields(packet);
    EXPECT_EQ(fields.Number(10), 1U);
    if (fields.Has(60)) {
      const Fields track(fields.Text(60));
      EXPECT_TRUE(tracks.emplace(track.Number(1), std::vector<Open>()).second);
      if (track.Has(4)) {
        EXPECT_EQ(tracks.count(track.Number(5)), 1U) << "groups come first";
      }
      continue;
    }
    EXPECT_EQ(fields.Number(58), 1U);
    const Fields event(fields.Text(11));
    const auto time = static_cast<std::int64_t>(fields.Number(8));
    const auto found = tracks.find(event.Number(11));
    ASSERT_NE(found, tracks.end());
    std::vector<Open>& open = found->second;
    if (event.Number(9) == 1) {
      Open slice{{0, event.Text(23)}, event.Text(22) == "stage", time};
      for (const std::string& annotation : event.Texts(4)) {
        if (Fields(annotation).Text(10) == "request") {
          slice.key.first = Fields(annotation).Number(3);
        }
      }
      open.push_back(slice);
      continue;
    }
    ASSERT_EQ(event.Number(9), 2U);
    ASSERT_FALSE(open.empty());
    if (open.back().is_stage) sums[open.back().key] += time - open.back().begin;
    open.pop_back();
  }
  for (const auto& [uuid, open] : tracks) EXPECT_TRUE(open.empty()) << uuid;
  EXPECT_EQ(sums, StagesOf(traces));
}

}  // namespace
}  // namespace gemmd::client
