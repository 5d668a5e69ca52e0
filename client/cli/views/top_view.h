// The screen of `gemm top`: rates, computed from two readings of a server's counters.
#pragma once

#include <string>

#include "gemmd/v1/admin.pb.h"

namespace gemmd::cli {

// One look.
struct TopSample {
  v1::ServerInfoResponse info;
  v1::StatisticsResponse statistics;
};

enum class TopOrder { kTime, kRequests, kFlops, kName };

// A screen: the server, its devices, and tables of stages, kernels and tenants, the last two in
// that order, largest first. `now` was taken after `before` of the same server; one that was
// started again between them is shown since its start. No line is longer than `columns`, and there
// are no more than `rows` of them; 0: any number.
std::string RenderTop(const std::string& server, const TopSample& before, const TopSample& now,
                      TopOrder order, std::size_t columns = 0, std::size_t rows = 0);

}  // namespace gemmd::cli
