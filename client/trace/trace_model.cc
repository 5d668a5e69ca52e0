#include "client/trace/trace_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/time/units.h"

namespace gemmd::client {
namespace {

// Places slices that may overlap on tracks: each takes the first that is free. `slices` of one unit
// stay together.
class Lanes {
 public:
  explicit Lanes(std::string name) : name_(std::move(name)) {}

  // The numbers of `count` tracks that are free from `begin` to `end`, and then no longer. Units
  // come in the order of their begins.
  std::vector<std::size_t> Take(std::size_t count, std::int64_t begin, std::int64_t end) {
    std::vector<std::size_t> taken;
    for (std::size_t i = 0; taken.size() < count; ++i) {
      if (i == free_from_.size()) {
        free_from_.push_back(begin);
        tracks_.push_back({i == 0 ? name_ : absl::StrCat(name_, " ", i + 1), {}});
      }
      if (free_from_[i] > begin) continue;
      free_from_[i] = end;
      taken.push_back(i);
    }
    return taken;
  }
  void Add(std::size_t track, TraceSlice slice) {
    tracks_[track].slices.push_back(std::move(slice));
  }
  void MoveTo(std::vector<TraceTrack>* tracks) {
    for (TraceTrack& track : tracks_) {
      std::stable_sort(
          track.slices.begin(), track.slices.end(), [](const TraceSlice& x, const TraceSlice& y) {
            return std::make_tuple(x.begin_ns, -x.end_ns) < std::make_tuple(y.begin_ns, -y.end_ns);
          });
      tracks->push_back(std::move(track));
    }
    tracks_.clear();
  }

 private:
  const std::string name_;
  std::vector<TraceTrack> tracks_;
  std::vector<std::int64_t> free_from_;
};

std::string StageWord(v1::StageName name) {
  return absl::AsciiStrToLower(v1::StageName_Name(name));
}

bool IsOfDevice(v1::StageName name) {
  return name == v1::COPY_IN || name == v1::COMPUTE || name == v1::COPY_OUT;
}

std::int64_t At(const v1::Timeline& timeline, double us) {
  return static_cast<std::int64_t>(timeline.arrival_unix_ns()) + std::llround(us * kMicrosecond);
}

TraceSlice SliceOf(const v1::Timeline& timeline, const v1::Stage& stage) {
  TraceSlice slice;
  slice.begin_ns = At(timeline, stage.start_us());
  slice.end_ns = At(timeline, stage.end_us());
  slice.name = StageWord(stage.name());
  return slice;
}

TraceSlice SliceOf(const v1::Timeline& timeline) {
  const v1::Receipt& receipt = timeline.receipt();
  TraceSlice slice;
  slice.begin_ns = At(timeline, 0);
  slice.end_ns = At(timeline, receipt.total_us());
  slice.name = absl::StrCat("request ", receipt.request_id());
  slice.category = "request";
  slice.arguments = {{"request", receipt.request_id()},
                     {"code", std::uint64_t{timeline.code()}},
                     {"tenant", timeline.tenant()},
                     {"device", receipt.device()},
                     {"kernel", receipt.kernel()},
                     {"plan", receipt.plan()},
                     {"launch", timeline.launch()},
                     {"batch_requests", receipt.batch_requests()},
                     {"batch_rows", receipt.batch_rows()},
                     {"flops", receipt.flops()},
                     {"payload_bytes_in", receipt.payload_bytes_in()},
                     {"payload_bytes_out", receipt.payload_bytes_out()},
                     {"unattributed_us", receipt.unattributed_us()}};
  if (!timeline.trace_id().empty()) {
    slice.arguments.emplace_back("trace_id", timeline.trace_id());
    slice.arguments.emplace_back("parent_span_id", timeline.parent_span_id());
  }
  if (timeline.stages_left_out() != 0) {
    slice.arguments.emplace_back("stages_left_out", std::uint64_t{timeline.stages_left_out()});
  }
  return slice;
}

// A request and its stages: the first level holds the request itself and what nests in it, the
// others what overlaps.
std::vector<std::vector<TraceSlice>> LevelsOf(const v1::Timeline& timeline) {
  const TraceSlice request = SliceOf(timeline);
  std::vector<TraceSlice> stages;
  for (const v1::Stage& stage : timeline.receipt().stages()) {
    TraceSlice slice = SliceOf(timeline, stage);
    slice.category = "stage";
    slice.arguments = {{"request", timeline.receipt().request_id()},
                       {"exposed_us", stage.exposed_us()}};
    stages.push_back(std::move(slice));
  }
  std::stable_sort(stages.begin(), stages.end(), [](const TraceSlice& x, const TraceSlice& y) {
    return x.begin_ns < y.begin_ns;
  });
  std::vector<std::vector<TraceSlice>> levels = {{request}};
  std::vector<std::int64_t> free_from = {request.begin_ns};
  for (TraceSlice& stage : stages) {
    std::size_t level = stage.end_ns <= request.end_ns ? 0 : 1;
    while (level < levels.size() && free_from[level] > stage.begin_ns) ++level;
    if (level >= levels.size()) {
      level = levels.size();
      levels.emplace_back();
      free_from.push_back(stage.begin_ns);
    }
    free_from[level] = stage.end_ns;
    levels[level].push_back(std::move(stage));
  }
  return levels;
}

// The requests of each connection, in the order of their begins.
std::vector<TraceGroup> ConnectionsOf(const std::vector<const v1::Timeline*>& timelines) {
  std::map<std::uint64_t, std::size_t> numbers;
  std::vector<Lanes> lanes;
  for (const v1::Timeline* timeline : timelines) {
    const auto [number, is_new] = numbers.emplace(timeline->connection(), lanes.size());
    if (is_new) lanes.emplace_back("requests");
    Lanes& own = lanes[number->second];
    std::vector<std::vector<TraceSlice>> levels = LevelsOf(*timeline);
    std::int64_t begin = levels[0][0].begin_ns;
    std::int64_t end = levels[0][0].end_ns;
    for (const auto& level : levels) {
      for (const TraceSlice& slice : level) {
        begin = std::min(begin, slice.begin_ns);
        end = std::max(end, slice.end_ns);
      }
    }
    const std::vector<std::size_t> tracks = own.Take(levels.size(), begin, end);
    for (std::size_t i = 0; i < levels.size(); ++i) {
      for (TraceSlice& slice : levels[i]) own.Add(tracks[i], std::move(slice));
    }
  }
  std::vector<TraceGroup> groups;
  for (Lanes& each : lanes) {
    TraceGroup group;
    group.name = absl::StrCat("connection ", groups.size() + 1);
    each.MoveTo(&group.tracks);
    groups.push_back(std::move(group));
  }
  return groups;
}

// A launch, by one of its requests: all of them have the same stages on the device.
struct Launch {
  const v1::Timeline* first = nullptr;
  std::vector<std::uint64_t> requests;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

std::vector<Launch> LaunchesOf(const std::vector<const v1::Timeline*>& timelines) {
  std::map<std::uint64_t, Launch> launches;
  for (const v1::Timeline* timeline : timelines) {
    if (timeline->launch() == 0) continue;
    Launch& launch = launches[timeline->launch()];
    launch.requests.push_back(timeline->receipt().request_id());
    if (launch.first != nullptr) continue;
    launch.first = timeline;
    bool is_first = true;
    for (const v1::Stage& stage : timeline->receipt().stages()) {
      if (!IsOfDevice(stage.name())) continue;
      const TraceSlice slice = SliceOf(*timeline, stage);
      launch.begin_ns = is_first ? slice.begin_ns : std::min(launch.begin_ns, slice.begin_ns);
      launch.end_ns = is_first ? slice.end_ns : std::max(launch.end_ns, slice.end_ns);
      is_first = false;
    }
    if (is_first) launches.erase(timeline->launch());
  }
  std::vector<Launch> sorted;
  sorted.reserve(launches.size());
  for (auto& [number, launch] : launches) sorted.push_back(std::move(launch));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Launch& x, const Launch& y) { return x.begin_ns < y.begin_ns; });
  return sorted;
}

struct DeviceLanes {
  Lanes launches{"launches"};
  std::map<v1::StageName, std::vector<TraceSlice>> stages;
};

void AddLaunch(const Launch& launch, DeviceLanes* lanes) {
  const v1::Timeline& first = *launch.first;
  const v1::Receipt& receipt = first.receipt();
  std::string requests;
  for (const std::uint64_t id : launch.requests) {
    absl::StrAppend(&requests, requests.empty() ? "" : ",", id);
  }
  TraceSlice slice;
  slice.begin_ns = launch.begin_ns;
  slice.end_ns = launch.end_ns;
  slice.name = receipt.kernel();
  slice.category = "launch";
  slice.arguments = {{"launch", first.launch()},
                     {"plan", receipt.plan()},
                     {"batch_requests", receipt.batch_requests()},
                     {"batch_rows", receipt.batch_rows()},
                     {"requests", requests}};
  const std::size_t track = lanes->launches.Take(1, slice.begin_ns, slice.end_ns).front();
  lanes->launches.Add(track, std::move(slice));
  for (const v1::Stage& stage : receipt.stages()) {
    if (!IsOfDevice(stage.name())) continue;
    TraceSlice part = SliceOf(first, stage);
    part.category = "device";
    part.arguments = {{"launch", first.launch()}};
    lanes->stages[stage.name()].push_back(std::move(part));
  }
}

std::vector<TraceGroup> DevicesOf(const std::vector<const v1::Timeline*>& timelines) {
  std::map<std::string, DeviceLanes> devices;
  for (const Launch& launch : LaunchesOf(timelines)) {
    AddLaunch(launch, &devices[launch.first->receipt().device()]);
  }
  std::vector<TraceGroup> groups;
  for (auto& [name, lanes] : devices) {
    TraceGroup group;
    group.name = absl::StrCat("device ", name);
    lanes.launches.MoveTo(&group.tracks);
    for (auto& [stage, slices] : lanes.stages) {
      std::stable_sort(slices.begin(), slices.end(), [](const TraceSlice& x, const TraceSlice& y) {
        return x.begin_ns < y.begin_ns;
      });
      Lanes own(StageWord(stage));
      for (TraceSlice& slice : slices) {
        const std::size_t track = own.Take(1, slice.begin_ns, slice.end_ns).front();
        own.Add(track, std::move(slice));
      }
      own.MoveTo(&group.tracks);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

TraceModel ModelOf(const v1::TracesResponse& traces) {
  std::vector<const v1::Timeline*> timelines;
  for (const v1::Timeline& timeline : traces.timelines()) timelines.push_back(&timeline);
  std::stable_sort(timelines.begin(), timelines.end(),
                   [](const v1::Timeline* x, const v1::Timeline* y) {
                     return x->arrival_unix_ns() < y->arrival_unix_ns();
                   });
  TraceModel model;
  model.groups = DevicesOf(timelines);
  for (TraceGroup& group : ConnectionsOf(timelines)) model.groups.push_back(std::move(group));
  return model;
}

}  // namespace gemmd::client
