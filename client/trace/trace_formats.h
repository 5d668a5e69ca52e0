// The formats that trace viewers read, https://ui.perfetto.dev among them.
#pragma once

#include <string>

#include "client/trace/trace_model.h"

namespace gemmd::client {

// Chrome's trace-event format, as one JSON object ("Trace Event Format", Google): groups are its
// processes, tracks their threads, times microseconds since the first slice.
std::string ToChromeJson(const TraceModel& model);

// Perfetto's own, a serialized perfetto.protos.Trace: times are nanoseconds since 1970.
std::string ToPerfetto(const TraceModel& model);

}  // namespace gemmd::client
