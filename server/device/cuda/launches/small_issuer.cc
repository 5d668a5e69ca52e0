#include "server/device/cuda/launches/small_issuer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "server/device/cuda/planes/plane.h"
#include "server/device/cuda/planes/resident.h"
#include "server/device/rows.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kMaxBytes = 256 << 10;

// Line by line, with zeros for what the sent plane does not fill.
void Pack(const MatrixLayout& sent, const void* from, const MatrixLayout& to_layout,
          const AllocationLayout::Part& part, char* staging) {
  char* const to = staging + part.offset;
  const std::uint64_t width = ElementBytes(sent, sent.inner());
  std::memset(to, 0, part.bytes);
  for (std::int64_t line = 0; line < sent.outer(); ++line) {
    std::memcpy(to + static_cast<std::uint64_t>(line) * Pitch(to_layout),
                static_cast<const char*>(from) + static_cast<std::uint64_t>(line) * Pitch(sent),
                width);
  }
}

// An operand of a small work: packed into the staging memory, where the CPU may touch it.
struct SmallInput {
  const void* data = nullptr;
  Access access = Access::kHost;
  MatrixLayout sent;
  MatrixLayout to_layout;
  AllocationLayout::Part part;
};

std::vector<SmallInput> SmallInputs(const PreparedWork& prepared) {
  const Problem& sent = prepared.work->problem;
  const Problem& landed = prepared.landed;
  const HostBuffers& buffers = prepared.work->buffers;
  const AllocationLayout& layout = prepared.block;
  std::vector<SmallInput> inputs;
  for (const WorkPlane plane : {WorkPlane::kA, WorkPlane::kB, WorkPlane::kC}) {
    if (layout.inputs[plane].bytes == 0) continue;
    const MatrixLayout from = PlaneOf(sent, plane);
    inputs.push_back({buffers[plane], buffers.access[plane], CopiedLayout(from),
                      InputLayout(from, PlaneOf(landed, plane)), layout.inputs[plane]});
  }
  return inputs;
}

// Brings equal works together, otherwise in their order: their planes then lie at equal
// distances, as a batch likes them best.
void Gather(std::vector<PreparedWork>* works) {
  for (auto first = works->begin(); first != works->end();) {
    first = std::stable_partition(first + 1, works->end(), [&first](const PreparedWork& work) {
      return HaveEqualLaunches(*first, work);
    });
  }
}

// Queues the products, equal ones that stand together as one batch.
void ComputeTogether(const std::vector<PreparedWork>& works, char* block, CudaStream stream,
                     CudaCommands* commands) {
  for (const PreparedWork& work : works) {
    TransposePanel(work, work.panels.front(), true, block, stream, commands);
  }
  for (std::size_t i = 0; i < works.size();) {
    const PreparedWork& first = works[i];
    std::vector<Arguments> batch;
    for (; i < works.size() && (batch.empty() || HaveEqualLaunches(first, works[i])); ++i) {
      const PreparedWork& work = works[i];
      const Problem& sent = work.work->problem;
      Arguments arguments = PanelArguments(work, work.panels.front(), block);
      // Copies in have ended before the first launch; what is transposed is written by one.
      arguments.a_is_settled = work.resident[WorkPlane::kA] || !IsTransposed(sent.a, work.landed.a);
      arguments.b_is_settled = work.resident[WorkPlane::kB] || !IsTransposed(sent.b, work.landed.b);
      batch.push_back(arguments);
    }
    const Plan& plan = first.work->plan;
    commands->Launch(
        [kernel = plan.kernel, config = plan.config, problem = first.landed,
         batch = std::move(batch)](const LaunchTarget& target) {
          return kernel->LaunchBatch(problem, config, batch, target);
        },
        stream);
  }
}

// The block of several works: the inputs of all first, so that they travel in one copy.
struct SharedBlock {
  std::uint64_t inputs_bytes = 0;
  std::uint64_t total_bytes = 0;
};

SharedBlock LayOutTogether(std::vector<PreparedWork>* works) {
  SharedBlock shared;
  for (const PreparedWork& work : *works) shared.inputs_bytes += work.block.inputs_bytes;
  shared.total_bytes = shared.inputs_bytes;
  std::uint64_t inputs_begin = 0;
  for (PreparedWork& work : *works) {
    AllocationLayout& block = work.block;
    const std::uint64_t inputs = block.inputs_bytes;
    const auto move = [&](AllocationLayout::Part* part) {
      part->offset = part->offset < inputs ? inputs_begin + part->offset
                                           : shared.total_bytes + (part->offset - inputs);
    };
    const std::uint64_t rest = block.total_bytes - inputs;
    for (const WorkPlane plane : kWorkPlanes) {
      move(&block.inputs[plane]);
      move(&block.landed[plane]);
    }
    move(&block.d);
    move(&block.workspace);
    inputs_begin += inputs;
    shared.total_bytes += rest;
  }
  return shared;
}

std::uint64_t BytesOf(const std::vector<CopySpan>& spans) {
  return std::accumulate(spans.begin(), spans.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const CopySpan& span) { return sum + span.bytes; });
}

// The pieces of D as spans, where these are few enough to go together.
constexpr std::size_t kMostSpans = 2 * kMaxCopySpans;

bool AppendSpans(const std::vector<CudaRect>& rects, std::vector<CopySpan>* spans) {
  for (const CudaRect& rect : rects) {
    const bool is_one = rect.to_pitch == rect.width && rect.from_pitch == rect.width;
    const std::uint64_t lines = is_one ? 1 : rect.lines;
    if (spans->size() + lines > kMostSpans) return false;
    for (std::uint64_t line = 0; line < lines; ++line) {
      spans->push_back({static_cast<const char*>(rect.from) + line * rect.from_pitch,
                        static_cast<char*>(rect.to) + line * rect.to_pitch,
                        is_one ? rect.width * rect.lines : rect.width});
    }
  }
  return true;
}

// The rows of D, from where the joined product has them.
void AppendRows(const DeviceWork& work, const char* from, std::uint64_t from_pitch,
                std::vector<CopySpan>* spans) {
  RowSpan rows = RowsOfD(work.problem);
  const bool stays = work.resident.d != nullptr;
  if (stays || work.buffers.d.size() == 1) {
    char* to = stays ? static_cast<char*>(work.resident.d->memory()) : work.buffers.d.front().data;
    if (stays) rows.pitch = Pitch(KeptOf(work).layout());
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      spans->push_back({from, to, rows.width});
      from += from_pitch;
      to += rows.pitch;
    }
    return;
  }
  for (const CudaRect& rect : CopiesToPieces(work.problem.d, work.buffers.d,
                                             WholePlane(work.problem.d), from, from_pitch)) {
    for (std::uint64_t line = 0; line < rect.lines; ++line) {
      spans->push_back({static_cast<const char*>(rect.from) + line * rect.from_pitch,
                        static_cast<char*>(rect.to) + line * rect.to_pitch, rect.width});
    }
  }
}

// Sums up what was issued: the block, if there is one, is freed before the last mark, so that a
// launch that ended holds nothing.
void Close(CudaCommands* commands, void* block, CudaStream stream, IssuedWork* issued) {
  const auto free_block = [&] {
    if (block != nullptr) commands->Free(block, stream);
  };
  free_block();
  issued->last = commands->Mark(stream);
  issued->copied = commands->copied();
  issued->status = commands->TakeStatus();
  if (!issued->status.ok()) {
    free_block();
    issued->last = commands->Mark(stream);
    issued->status.Update(commands->status());
  }
}

}  // namespace

bool SmallIssuer::IsSmall(const PreparedWork& prepared) {
  return prepared.panels.size() == 1 &&
         prepared.block.inputs_bytes + prepared.block.d.bytes <= kMaxBytes;
}

bool SmallIssuer::IsShort(const PreparedWork& prepared) {
  return IsSmall(prepared) &&
         prepared.block.inputs_bytes + LandedBytes(prepared.landed.d) <= kMaxBytes;
}

bool SmallIssuer::Fit(const std::vector<PreparedWork>& works, const CudaSlot& slot) {
  std::uint64_t bytes = 0;
  for (const PreparedWork& work : works) {
    if (!IsSmall(work)) return false;
    bytes += work.block.inputs_bytes;
  }
  return bytes <= slot.staging().size_bytes;
}

IssuedWork SmallIssuer::IssueTogether(std::vector<PreparedWork> placed, CudaSlot* slot) const {
  Gather(&placed);
  const SharedBlock shared = LayOutTogether(&placed);
  const bool is_short = std::all_of(placed.begin(), placed.end(), IsShort);
  const CudaStream stream = is_short ? slot->stream() : slot->long_stream();
  CudaCommands commands(backend_, slot);
  IssuedWork issued;
  char* block = nullptr;
  if (shared.total_bytes != 0) {
    block = static_cast<char*>(commands.Allocate(shared.total_bytes, stream));
    if (block == nullptr) {
      issued.status = commands.TakeStatus();
      return issued;
    }
  }
  for (const PreparedWork& work : placed) AwaitKept(*work.work, {stream}, &commands);

  char* const staging = slot->staging().data;
  std::vector<SmallInput> in_place;
  for (const PreparedWork& work : placed) {
    for (const SmallInput& input : SmallInputs(work)) {
      if (input.access == Access::kHost) {
        Pack(input.sent, input.data, input.to_layout, input.part, staging);
      } else {
        std::memset(staging + input.part.offset, 0, input.part.bytes);  // its padding
        in_place.push_back(input);
      }
    }
    for (const VectorInput& vector : VectorInputs(work)) {
      std::memset(staging + vector.part.offset, 0, vector.part.bytes);
      std::memcpy(staging + vector.part.offset, vector.host, vector.bytes);
    }
  }

  const CudaEvent begin = commands.Mark(stream);
  const std::uint64_t inputs = shared.inputs_bytes;
  if (inputs != 0) {
    commands.Copy(CopyDirection::kToDevice, {block, inputs, staging, inputs, inputs, 1}, stream);
  }
  for (const SmallInput& input : in_place) {
    commands.Copy(DirectionFrom(input.access),
                  CopyOfRect(WholePlane(input.sent), input.data, Pitch(input.sent),
                             block + input.part.offset, Pitch(input.to_layout)),
                  stream);
  }
  // A mark has the device finish what is before it, so there is none between stages that are empty.
  const bool arrives = inputs != 0 || !in_place.empty();
  const CudaEvent landed = arrives ? commands.Mark(stream) : begin;
  ComputeTogether(placed, block, stream, &commands);
  const bool leaves = std::any_of(placed.begin(), placed.end(),
                                  [](const PreparedWork& work) { return !work.resident.d; });
  const CudaEvent computed = leaves ? commands.Mark(stream) : nullptr;
  std::vector<CopySpan> spans;
  for (const PreparedWork& work : placed) {
    // One result is as quick by a copy engine.
    const DeviceWork& sent = *work.work;
    const std::size_t before = spans.size();
    if (placed.size() == 1 || sent.resident.d != nullptr ||
        sent.buffers.d_access != Access::kHost ||
        !AppendSpans(CopiesToPieces(sent.problem.d, sent.buffers.d, WholePlane(sent.problem.d),
                                    block + work.block.d.offset, Pitch(work.landed.d)),
                     &spans)) {
      spans.resize(before);
      CopyPanelOut(work, work.panels.front(), block, stream, &commands);
    }
  }
  commands.CopySpans(spans, stream);
  commands.CountCopied(CopyDirection::kFromDevice, BytesOf(spans));
  Close(&commands, block, stream, &issued);
  if (arrives) issued.stages.push_back({Stage::kCopyIn, begin, landed});
  issued.stages.push_back({Stage::kCompute, landed, leaves ? computed : issued.last});
  if (leaves) issued.stages.push_back({Stage::kCopyOut, computed, issued.last});
  return issued;
}

bool SmallIssuer::HasRows(const DeviceWork& work) const {
  const Scaling& of_rows = work.problem.a_scaling;
  return HasJoinableRows(work) && work.resident[WorkPlane::kB] != nullptr &&
         (of_rows == Scaling::kNone || of_rows == Scaling::kVector) &&
         work.problem.a.size_bytes() + work.problem.d.size_bytes() <= kMaxBytes &&
         IsPinned(work.buffers[WorkPlane::kA], work.problem.a.size_bytes());
}

IssuedWork SmallIssuer::IssueRows(const std::vector<DeviceWork>& works, const PreparedWork& joined,
                                  CudaSlot* slot) const {
  const AllocationLayout& layout = joined.block;
  const CudaStream stream = slot->stream();
  CudaCommands commands(backend_, slot);
  IssuedWork issued;
  auto* const block = static_cast<char*>(commands.Allocate(layout.total_bytes, stream));
  if (block == nullptr) {
    issued.status = commands.TakeStatus();
    return issued;
  }

  std::vector<CopySpan> in;
  std::vector<CopySpan> out;
  in.reserve(static_cast<std::size_t>(joined.work->problem.m) + 3);  // scales and bias too
  out.reserve(static_cast<std::size_t>(joined.work->problem.m));
  std::uint64_t staying_bytes = 0;  // of `out`
  char* a = block + layout.inputs[WorkPlane::kA].offset;
  const char* d = block + layout.d.offset;
  const std::uint64_t a_pitch = Pitch(joined.landed.a);
  const std::uint64_t d_pitch = Pitch(joined.landed.d);
  char* staging = slot->staging().data;
  char* const a_scales = staging;
  for (const DeviceWork& work : works) {
    const RowSpan rows = RowsOfA(work.problem);
    const auto* from = static_cast<const char*>(work.buffers[WorkPlane::kA]);
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      in.push_back({from, a, rows.width});
      from += rows.pitch;
      a += a_pitch;
    }
    AppendRows(work, d, d_pitch, &out);
    if (work.resident.d != nullptr) staying_bytes += work.problem.d.size_bytes();
    d += d_pitch * static_cast<std::uint64_t>(work.problem.m);
    if (work.problem.a_scaling == Scaling::kVector) {
      const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(work.problem.m);
      std::memcpy(staging, work.buffers[WorkPlane::kAScales], bytes);
      staging += bytes;
    }
  }
  if (staging != a_scales) {
    in.push_back({a_scales, layout.inputs[WorkPlane::kAScales].In(block),
                  static_cast<std::uint64_t>(staging - a_scales)});
  }
  for (const VectorInput& vector : VectorInputs(joined)) {
    if (vector.host == nullptr) continue;  // the scales of A, which every work has its own of
    std::memcpy(staging, vector.host, vector.bytes);
    in.push_back({staging, block + vector.part.offset, vector.bytes});
    staging += vector.bytes;
  }

  const CudaEvent begin = commands.Mark(stream);
  const Problem& sent = joined.work->problem;
  if (IsPadded(sent.a, joined.landed.a)) commands.Zero(block, layout.inputs_bytes, stream);
  commands.CopySpans(in, stream);
  commands.CountCopied(CopyDirection::kToDevice, BytesOf(in));
  const CudaEvent landed = commands.Mark(stream);
  ComputePanel(joined, joined.panels.front(), true, block, stream, &commands);
  const CudaEvent computed = commands.Mark(stream);
  for (const DeviceWork& work : works) AwaitKept(work, {stream}, &commands);
  commands.CopySpans(out, stream);
  commands.CountCopied(CopyDirection::kFromDevice, BytesOf(out) - staying_bytes);
  Close(&commands, block, stream, &issued);
  issued.stages = {{Stage::kCopyIn, begin, landed},
                   {Stage::kCompute, landed, computed},
                   {Stage::kCopyOut, computed, issued.last}};
  return issued;
}

bool SmallIssuer::IsPinned(const void* data, std::uint64_t bytes) const {
  return std::any_of(pinned_.begin(), pinned_.end(),
                     [&](const PinnedPool* pool) { return pool->Contains(data, bytes); });
}

}  // namespace gemmd
