#include "client/cli/views/product_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/table.h"
#include "client/names.h"

namespace gemmd::cli {
namespace {

double Us(absl::Duration duration) { return absl::ToDoubleMicroseconds(duration); }

// Returns the time that no other row shows: failed attempts, and the client's own bookkeeping.
double OtherUs(const client::ClientTimes& times) {
  return Us(times.total - times.encode - times.waited - times.round_trip - times.decode);
}

double GflopsOf(double flops, absl::Duration time) {
  const double us = Us(time);
  return us > 0 ? flops / us * 1e-3 : 0;
}

double Gflops(const client::Receipt& receipt) {
  return GflopsOf(receipt.server.flops(), receipt.client.total);
}

double Gflops(const client::SplitProduct& product) {
  return GflopsOf(product.flops(), product.total);
}

std::string Sent(const client::Route& route) {
  if (route.transport == client::Transport::kUnary) return "in one call";
  return absl::StrCat("over a stream, ", route.channels,
                      route.channels == 1 ? " connection" : " connections", ", chunks of ",
                      HumanBytes(route.chunk_bytes));
}

// All stages of one name: a sliced product waits and computes once for each slice.
struct StageSum {
  v1::StageName name = v1::STAGE_UNSPECIFIED;
  int count = 0;
  double start_us = 0;  // of the first to begin
  double end_us = 0;    // of the last to end
  double exposed_us = 0;
};

// In the order in which names first come.
std::vector<StageSum> SumByName(const v1::Receipt& receipt) {
  std::vector<StageSum> sums;
  for (const v1::Stage& stage : receipt.stages()) {
    auto sum = std::find_if(sums.begin(), sums.end(),
                            [&stage](const StageSum& each) { return each.name == stage.name(); });
    if (sum == sums.end()) {
      sum = sums.insert(sum, {stage.name(), 0, stage.start_us(), stage.end_us(), 0});
    }
    ++sum->count;
    sum->start_us = std::min(sum->start_us, stage.start_us());
    sum->end_us = std::max(sum->end_us, stage.end_us());
    sum->exposed_us += stage.exposed_us();
  }
  return sums;
}

std::string Stages(const client::Receipt& receipt) {
  Table table({{"side", Table::Align::kLeft},
               {"stage", Table::Align::kLeft},
               {"start us", Table::Align::kRight},
               {"end us", Table::Align::kRight},
               {"exposed us", Table::Align::kRight}});
  const client::ClientTimes& times = receipt.client;
  const auto span = [&](const char* stage, absl::Duration start, absl::Duration end) {
    table.AddRow({"client", stage, Microseconds(Us(start)), Microseconds(Us(end)),
                  Microseconds(Us(end - start))});
  };
  const auto part = [&](const char* side, const char* stage, double us) {
    table.AddRow({side, stage, "", "", Microseconds(us)});
  };
  span("encode", absl::ZeroDuration(), times.encode);
  part("client", "network and wire", Us(times.wire));
  for (const StageSum& stage : SumByName(receipt.server)) {
    const std::string word = Word(v1::StageName_Name(stage.name));
    table.AddRow(
        {"server", stage.count == 1 ? word : absl::StrCat(word, ", ", stage.count, " times"),
         Microseconds(stage.start_us), Microseconds(stage.end_us), Microseconds(stage.exposed_us)});
  }
  part("server", "unattributed", receipt.server.unattributed_us());
  span("decode", times.total - times.decode, times.total);
  if (times.attempts > 1) part("client", "waits between attempts", Us(times.waited));
  part("client", times.attempts > 1 ? "failed attempts, other" : "other", OtherUs(times));
  span("total", absl::ZeroDuration(), times.total);
  return table.Render();
}

std::string Rows(const client::RowRange& rows) { return absl::StrCat(rows.begin, "-", rows.end); }

double ComputeUs(const v1::Receipt& receipt) {
  double us = 0;
  for (const v1::Stage& stage : receipt.stages()) {
    if (stage.name() == v1::COMPUTE) us += stage.exposed_us();
  }
  return us;
}

// More than one attempt at a part, and why.
std::string Again(const client::SplitPart& part) {
  std::vector<std::string> why;
  if (part.receipt.client.attempts > 1) {
    why.push_back(absl::StrCat(part.receipt.client.attempts, " attempts"));
  }
  if (part.is_hedged) why.push_back("hedged");
  if (part.repeats > 0) why.push_back(absl::StrCat("repeated for its numerics, ", part.repeats));
  return absl::StrJoin(why, ", ");
}

nlohmann::ordered_json ToJson(const client::MatrixFormat& format, const std::string& output_path) {
  nlohmann::ordered_json d = {{"rows", format.rows},
                              {"columns", format.columns},
                              {"type", std::string(Name(format.type))},
                              {"order", std::string(Name(format.order))}};
  if (!output_path.empty()) d["path"] = output_path;
  return d;
}

// The client's side of a receipt.
nlohmann::ordered_json ToJson(const client::Receipt& receipt) {
  const client::ClientTimes& times = receipt.client;
  nlohmann::ordered_json client = {
      {"attempts", times.attempts},
      {"refills", times.refills},
      {"transport", receipt.route.transport == client::Transport::kUnary ? "unary" : "stream"},
      {"channels", receipt.route.channels},
      {"encode_us", Us(times.encode)},
      {"waited_us", Us(times.waited)},
      {"round_trip_us", Us(times.round_trip)},
      {"wire_us", Us(times.wire)},
      {"decode_us", Us(times.decode)},
      {"total_us", Us(times.total)},
      {"gflops", Gflops(receipt)}};
  if (!receipt.address.empty()) client["server"] = receipt.address;
  return client;
}

}  // namespace

std::string Report(const client::Product& product, const std::string& output_path) {
  const v1::Receipt& server = product.receipt.server;
  Table what({{}, {}});
  const client::Stack stack = product.d ? product.d->stack() : client::Stack();
  what.AddRow({"D", absl::StrCat(client::ToString(product.format, stack),
                                 output_path.empty() ? "" : " -> ", output_path)});
  what.AddRow({"kernel", server.kernel()});
  what.AddRow({"plan", server.plan()});
  what.AddRow({"numerics", absl::StrCat(server.numerics_id(), " (",
                                        Word(v1::Determinism_Name(server.determinism())), ")")});
  what.AddRow({"device", absl::StrCat(server.device(), ", launch of ", server.batch_requests(),
                                      server.batch_requests() == 1 ? " request, " : " requests, ",
                                      server.batch_rows(), " rows")});
  if (!product.receipt.address.empty()) what.AddRow({"server", product.receipt.address});
  what.AddRow({"payload", absl::StrCat(HumanBytes(server.payload_bytes_in()), " in, ",
                                       HumanBytes(server.payload_bytes_out()), " out")});
  what.AddRow({"sent", Sent(product.receipt.route)});
  if (server.copied_bytes_in() + server.copied_bytes_out() + server.landed_bytes() +
          server.evicted_bytes() >
      0) {
    what.AddRow({"copied", absl::StrCat(HumanBytes(server.copied_bytes_in()), " to the device, ",
                                        HumanBytes(server.copied_bytes_out()), " from it; ",
                                        HumanBytes(server.landed_bytes()), " landed, ",
                                        HumanBytes(server.evicted_bytes()), " evicted for it")});
  }
  if (server.has_predicted()) {
    what.AddRow(
        {"predicted",
         absl::StrCat(Microseconds(server.predicted().device_us()), " us on the device, ",
                      Microseconds(server.predicted().compute_us()), " us of them computing")});
  }
  if (server.has_error_bound()) {
    what.AddRow({"rounding",
                 absl::StrFormat("at most %.2g of |A| |B|, and D's own", server.error_bound())});
  }
  if (server.has_joules()) {
    what.AddRow({"energy", absl::StrFormat("%.3g J, by the device's counter", server.joules())});
  }
  if (server.has_verification_residual()) {
    what.AddRow({"verified", absl::StrFormat("residual %.3g; up to 1 is rounding",
                                             server.verification_residual())});
  }
  return absl::StrCat(
      what.Render(), "\n", Stages(product.receipt), "\n",
      absl::StrFormat("%.3g GFLOP: %.1f GFLOP/s in the kernel, %.1f GFLOP/s as the client sees it",
                      server.flops() * 1e-9, server.achieved_gflops(), Gflops(product.receipt)),
      product.receipt.client.attempts > 1
          ? absl::StrCat(" (", product.receipt.client.attempts, " attempts)")
          : "",
      "\n");
}

nlohmann::ordered_json ReportJson(const client::Product& product, const std::string& output_path) {
  return {{"d", ToJson(product.format, output_path)},
          {"receipt", ToJson(product.receipt.server)},
          {"client", ToJson(product.receipt)}};
}

std::string Report(const client::SplitProduct& product, const std::string& output_path) {
  Table what({{}, {}});
  what.AddRow({"D", absl::StrCat(client::ToString(product.d.format()),
                                 output_path.empty() ? "" : " -> ", output_path)});
  what.AddRow({"numerics", product.numerics_id()});
  Table parts({{"rows", Table::Align::kLeft},
               {"server", Table::Align::kLeft},
               {"kernel", Table::Align::kLeft},
               {"device", Table::Align::kLeft},
               {"sent", Table::Align::kRight},
               {"computed us", Table::Align::kRight},
               {"total us", Table::Align::kRight},
               {"again", Table::Align::kLeft}});
  for (const client::SplitPart& part : product.parts) {
    const v1::Receipt& server = part.receipt.server;
    parts.AddRow({Rows(part.rows), part.receipt.address, server.kernel(), server.device(),
                  HumanBytes(server.payload_bytes_in()), Microseconds(ComputeUs(server)),
                  Microseconds(Us(part.receipt.client.total)), Again(part)});
  }
  return absl::StrCat(
      what.Render(), "\n", parts.Render(), "\n",
      absl::StrFormat("%.3g GFLOP in %s us: %.1f GFLOP/s as the client sees it\n",
                      product.flops() * 1e-9, Microseconds(Us(product.total)), Gflops(product)));
}

nlohmann::ordered_json ReportJson(const client::SplitProduct& product,
                                  const std::string& output_path) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const client::SplitPart& part : product.parts) {
    parts.push_back({{"rows", {part.rows.begin, part.rows.end}},
                     {"hedged", part.is_hedged},
                     {"repeats", part.repeats},
                     {"receipt", ToJson(part.receipt.server)},
                     {"client", ToJson(part.receipt)}});
  }
  return {{"d", ToJson(product.d.format(), output_path)},
          {"numerics_id", product.numerics_id()},
          {"parts", std::move(parts)},
          {"client", {{"total_us", Us(product.total)}, {"gflops", Gflops(product)}}}};
}

std::string Describe(const client::ProductError& error) {
  return absl::StrFormat(
      "error  %.3g of ||D_full||; the largest of an element is %.3g, at (%d, %d): %.6g for %.6g\n",
      error.relative, error.largest, error.row, error.column, error.d, error.full);
}

nlohmann::ordered_json ToJson(const client::ProductError& error) {
  return {{"relative", error.relative},
          {"largest",
           {{"error", error.largest},
            {"row", error.row},
            {"column", error.column},
            {"d", error.d},
            {"d_full", error.full}}}};
}

}  // namespace gemmd::cli
