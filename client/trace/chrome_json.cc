#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "client/trace/trace_formats.h"
#include "nlohmann/json.hpp"

namespace gemmd::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kUsPerNs = 1e-3;

std::int64_t FirstBegin(const TraceModel& model) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const TraceGroup& group : model.groups) {
    for (const TraceTrack& track : group.tracks) {
      for (const TraceSlice& slice : track.slices) first = std::min(first, slice.begin_ns);
    }
  }
  return first;
}

Json NameEvent(const char* what, int pid, int tid, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

Json SliceEvent(const TraceSlice& slice, int pid, int tid, std::int64_t first) {
  Json arguments = Json::object();
  for (const TraceArgument& argument : slice.arguments) {
    std::visit([&](const auto& value) { arguments[argument.first] = value; }, argument.second);
  }
  return {{"ph", "X"},
          {"name", slice.name},
          {"cat", slice.category},
          {"pid", pid},
          {"tid", tid},
          {"ts", static_cast<double>(slice.begin_ns - first) * kUsPerNs},
          {"dur", static_cast<double>(slice.end_ns - slice.begin_ns) * kUsPerNs},
          {"args", std::move(arguments)}};
}

}  // namespace

std::string ToChromeJson(const TraceModel& model) {
  const std::int64_t first = FirstBegin(model);
  Json events = Json::array();
  int pid = 0;
  for (const TraceGroup& group : model.groups) {
    ++pid;
    int tid = 0;
    events.push_back(NameEvent("process_name", pid, tid, group.name));
    for (const TraceTrack& track : group.tracks) {
      ++tid;
      events.push_back(NameEvent("thread_name", pid, tid, track.name));
      for (const TraceSlice& slice : track.slices) {
        events.push_back(SliceEvent(slice, pid, tid, first));
      }
    }
  }
  Json trace;
  trace["displayTimeUnit"] = "ns";
  trace["traceEvents"] = std::move(events);
  // One event a line, for people; a tenant's name may be cut within a character.
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gemmd::client
