// Timelines as tracks of slices, whatever format they are written in.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gemmd/v1/admin.pb.h"

namespace gemmd::client {

using TraceArgument = std::pair<std::string, std::variant<std::uint64_t, double, std::string>>;

// Slices of one track nest, or do not touch; they are in the order of their begins, the longer
// first.
struct TraceSlice {
  std::int64_t begin_ns = 0;  // since 1970
  std::int64_t end_ns = 0;
  std::string name;
  std::string category;  // "request", "stage", "launch" or "device"
  std::vector<TraceArgument> arguments;
};

struct TraceTrack {
  std::string name;
  std::vector<TraceSlice> slices;
};

// A device, or a connection.
struct TraceGroup {
  std::string name;
  std::vector<TraceTrack> tracks;
};

struct TraceModel {
  std::vector<TraceGroup> groups;
};

// Devices come first: each has a track of its launches, which name the requests they served, and
// one for each kind of stage on it. Then the connections, each with its requests and their stages.
// Slices that overlap lie on tracks side by side. Every stage of every receipt is a slice of
// category "stage", with its request's id; those of a device are there once for each launch.
TraceModel ModelOf(const v1::TracesResponse& traces);

}  // namespace gemmd::client
