#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "client/trace/perfetto_trace.pb.h"
#include "client/trace/trace_formats.h"

namespace gemmd::client {
namespace {

constexpr std::uint32_t kSequence = 1;
constexpr std::uint32_t kRealtimeClock = 1;            // BUILTIN_CLOCK_REALTIME
constexpr std::uint32_t kIncrementalStateCleared = 1;  // SEQ_INCREMENTAL_STATE_CLEARED

class Writer {
 public:
  explicit Writer(perfetto::Trace* trace) : trace_(trace) {}

  // A track's identity.
  std::uint64_t AddGroup(const std::string& name) {
    const std::uint64_t uuid = ++last_uuid_;
    perfetto::TrackDescriptor& track = *Next().mutable_track_descriptor();
    track.set_uuid(uuid);
    track.mutable_process()->set_pid(++pid_);
    track.mutable_process()->set_process_name(name);
    tid_ = 0;
    return uuid;
  }
  std::uint64_t AddTrack(std::uint64_t group, const std::string& name) {
    const std::uint64_t uuid = ++last_uuid_;
    perfetto::TrackDescriptor& track = *Next().mutable_track_descriptor();
    track.set_uuid(uuid);
    track.set_parent_uuid(group);
    track.mutable_thread()->set_pid(pid_);
    track.mutable_thread()->set_tid(pid_ * kMostTracks + ++tid_);
    track.mutable_thread()->set_thread_name(name);
    return uuid;
  }
  void Begin(std::uint64_t track, const TraceSlice& slice) {
    perfetto::TrackEvent& event = Event(track, slice.begin_ns);
    event.set_type(perfetto::TrackEvent::TYPE_SLICE_BEGIN);
    event.set_name(slice.name);
    event.add_categories(slice.category);
    for (const TraceArgument& argument : slice.arguments) {
      perfetto::DebugAnnotation& wire = *event.add_debug_annotations();
      wire.set_name(argument.first);
      if (const auto* number = std::get_if<std::uint64_t>(&argument.second)) {
        wire.set_uint_value(*number);
      } else if (const auto* real = std::get_if<double>(&argument.second)) {
        wire.set_double_value(*real);
      } else {
        wire.set_string_value(std::get<std::string>(argument.second));
      }
    }
  }
  void End(std::uint64_t track, std::int64_t time_ns) {
    Event(track, time_ns).set_type(perfetto::TrackEvent::TYPE_SLICE_END);
  }

 private:
  // Threads of different processes have different numbers, as a system's have.
  static constexpr int kMostTracks = 10000;

  perfetto::TracePacket& Next() {
    perfetto::TracePacket& packet = *trace_->add_packet();
    packet.set_trusted_packet_sequence_id(kSequence);
    if (trace_->packet_size() == 1) packet.set_sequence_flags(kIncrementalStateCleared);
    return packet;
  }
  perfetto::TrackEvent& Event(std::uint64_t track, std::int64_t time_ns) {
    perfetto::TracePacket& packet = Next();
    packet.set_timestamp(static_cast<std::uint64_t>(time_ns));
    packet.set_timestamp_clock_id(kRealtimeClock);
    packet.mutable_track_event()->set_track_uuid(track);
    return *packet.mutable_track_event();
  }

  perfetto::Trace* const trace_;
  std::uint64_t last_uuid_ = 0;
  int pid_ = 0;
  int tid_ = 0;
};

// The ends of slices that enclose others come after theirs.
void AddSlices(std::uint64_t uuid, const TraceTrack& track, Writer* writer) {
  std::vector<std::int64_t> open;
  for (const TraceSlice& slice : track.slices) {
    while (!open.empty() && open.back() <= slice.begin_ns) {
      writer->End(uuid, open.back());
      open.pop_back();
    }
    writer->Begin(uuid, slice);
    open.push_back(slice.end_ns);
  }
  for (; !open.empty(); open.pop_back()) writer->End(uuid, open.back());
}

}  // namespace

std::string ToPerfetto(const TraceModel& model) {
  perfetto::Trace trace;
  Writer writer(&trace);
  for (const TraceGroup& group : model.groups) {
    const std::uint64_t parent = writer.AddGroup(group.name);
    for (const TraceTrack& track : group.tracks) {
      AddSlices(writer.AddTrack(parent, track.name), track, &writer);
    }
  }
  return trace.SerializeAsString();
}

}  // namespace gemmd::client
