#include "client/operands.h"

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text/quoted.h"
#include "client/calls/blocking_call.h"
#include "client/calls/operand_link.h"
#include "client/calls/operand_transfer.h"
#include "client/calls/servers.h"
#include "client/wire/wire_types.h"

namespace gemmd::client {
namespace {

template <typename Request>
Request RequestFor(const OperandName& name) {
  Request request;
  client::SetName(name, &request);
  return request;
}

TourPlan PlanFor(const OperandSource& source, const CallOptions& call) {
  TourPlan plan = PlanOf(call);
  plan.digest = source.digest();
  return plan;
}

TourPlan PlanFor(const OperandName& name, const CallOptions& call) {
  TourPlan plan = PlanOf(call);
  plan.digest = name.digest;
  if (!name.handle.empty()) plan.things.push_back(KeyOfHandle(name.handle));
  if (!name.name.empty()) plan.things.push_back(KeyOfName(name.name));
  return plan;
}

absl::StatusOr<InlineOperand> GetFrom(const OperandLink& link, const OperandName& name,
                                      absl::Time deadline) {
  Retries retries(link.retry, deadline);
  while (true) {
    std::optional<InlineOperand> operand;
    CallEnd end;
    {
      BlockingCall download = link.Call("Operands/Download", deadline, name.digest);
      end = Download(download, RequestFor<v1::DownloadRequest>(name), &operand);
    }
    if (!end.status.ok()) {
      if (!link.WaitAfter(end, &retries)) return retries.ErrorOf(end.status);
      continue;
    }
    if (!name.digest.empty()) {
      const absl::StatusOr<OperandSource> source = OperandSource::Create(*operand);
      if (!source.ok() || source->digest() != name.digest) {
        return absl::InternalError("what the server sent does not have the digest asked for");
      }
    }
    return *std::move(operand);
  }
}

absl::StatusOr<v1::ResidentOperand> DescribeAt(const OperandLink& link, const OperandName& name,
                                               absl::Time deadline) {
  absl::StatusOr<v1::GetResponse> response = link.Unary<v1::GetResponse>(
      "Operands/Get", RequestFor<v1::GetRequest>(name), deadline, name.digest);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_resident());
}

absl::StatusOr<v1::ReleaseResponse> ReleaseAt(const OperandLink& link, const OperandName& name,
                                              absl::Time deadline) {
  return link.Unary<v1::ReleaseResponse>("Operands/Release", RequestFor<v1::ReleaseRequest>(name),
                                         deadline, name.digest);
}

absl::StatusOr<std::vector<v1::ResidentOperand>> ListAt(const OperandLink& link, const char* method,
                                                        absl::Time deadline) {
  std::vector<v1::ResidentOperand> residents;
  v1::ListRequest request;
  do {
    const absl::StatusOr<v1::ListResponse> page =
        link.Unary<v1::ListResponse>(method, request, deadline);
    if (!page.ok()) return page.status();
    residents.insert(residents.end(), page->residents().begin(), page->residents().end());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return residents;
}

}  // namespace

struct Operands::Connection {
  Connection(const ClientOptions& options, const std::shared_ptr<Timer>& timer)
      : retry(options.retry), servers(options, timer) {}

  const RetryPolicy retry;
  Servers servers;
};

Operands::Operands(const ClientOptions& options)
    : connection_(std::make_unique<Connection>(
          options, options.timer == nullptr ? MakeAlarmTimer() : options.timer)) {}

Operands::~Operands() = default;

std::vector<ServerState> Operands::States() const { return connection_->servers.states(); }

template <typename Result, typename Ask>
absl::StatusOr<Result> Operands::AskOne(TourPlan plan, absl::Time deadline, const Ask& ask) {
  Tour tour(connection_->servers, std::move(plan));
  Retries retries(connection_->retry, deadline);
  while (true) {
    absl::Status status = tour.Begin();
    std::shared_ptr<Server> server;
    if (status.ok()) {
      server = tour.server();
      absl::StatusOr<Result> result = ask(*server);
      status = tour.End(result.status());
      if (status.ok()) {
        tour.Learn("");
        return result;
      }
    }
    if (tour.MaySearch(status)) continue;
    // A server that is the only one has been asked again already.
    if (!tour.is_one_of_several()) return status;
    const auto delay = retries.Fail(status, Pushback(), absl::Now(), tour.HasOther());
    if (!delay) return retries.ErrorOf(status);
    if (*delay > absl::ZeroDuration()) connection_->servers.Wait(*delay);
  }
}

absl::StatusOr<v1::ResidentOperand> Operands::Put(const OperandSource& source, const Lease& lease,
                                                  const CallOptions& call, const Sent& sent) {
  const absl::Time deadline = absl::Now() + call.timeout;
  return AskOne<v1::ResidentOperand>(PlanFor(source, call), deadline, [&](const Server& server) {
    return server.operands.Put(source, lease, deadline, sent);
  });
}

absl::StatusOr<v1::UploadResponse> Operands::PutAs(const OperandSource& source,
                                                   const v1::Operand& stored_form,
                                                   const Lease& lease, const CallOptions& call,
                                                   const Sent& sent) {
  const absl::Time deadline = absl::Now() + call.timeout;
  return AskOne<v1::UploadResponse>(PlanFor(source, call), deadline, [&](const Server& server) {
    return server.operands.PutAs(source, stored_form, lease, deadline, sent);
  });
}

absl::StatusOr<InlineOperand> Operands::Get(const OperandName& name, const CallOptions& call) {
  const absl::Time deadline = absl::Now() + call.timeout;
  return AskOne<InlineOperand>(PlanFor(name, call), deadline, [&](const Server& server) {
    return GetFrom(server.operands, name, deadline);
  });
}

absl::StatusOr<v1::ResidentOperand> Operands::Describe(const OperandName& name,
                                                       const CallOptions& call) {
  const absl::Time deadline = absl::Now() + call.timeout;
  return AskOne<v1::ResidentOperand>(PlanFor(name, call), deadline, [&](const Server& server) {
    return DescribeAt(server.operands, name, deadline);
  });
}

absl::StatusOr<std::vector<v1::ResidentOperand>> Operands::List(const CallOptions& call) {
  return ListBy("Operands/List", call);
}

absl::StatusOr<std::vector<v1::ResidentOperand>> Operands::ListAll(const CallOptions& call) {
  return ListBy("Operands/ListAll", call);
}

absl::StatusOr<std::vector<v1::ResidentOperand>> Operands::ListBy(const char* method,
                                                                  const CallOptions& call) {
  const absl::Time deadline = absl::Now() + call.timeout;
  std::vector<v1::ResidentOperand> every;
  for (const std::string& server : connection_->servers.NamesOf(call.server)) {
    auto some = AskOne<std::vector<v1::ResidentOperand>>(
        TourPlan{server}, deadline,
        [&](const Server& one) { return ListAt(one.operands, method, deadline); });
    if (!some.ok()) return some.status();
    std::move(some->begin(), some->end(), std::back_inserter(every));
  }
  return every;
}

absl::Status Operands::CheckNameElsewhere(const OperandName& operand, const std::string& name,
                                          bool replace, const std::string& home,
                                          absl::Time deadline) {
  for (const std::string& server : connection_->servers.NamesOf("")) {
    if (server == home) continue;
    const OperandName there{{}, {}, std::nullopt, name};
    const auto found = AskOne<v1::ResidentOperand>(
        TourPlan{server}, deadline,
        [&](const Server& one) { return DescribeAt(one.operands, there, deadline); });
    if (absl::IsNotFound(found.status())) continue;
    if (!found.ok()) return found.status();
    // The copies of one operand may have one name.
    if (!operand.digest.empty() && found->digest() == operand.digest) continue;
    if (!replace) {
      return absl::AlreadyExistsError(
          absl::StrCat("new_name is ", Quoted(name), ", which is the name of operand ",
                       found->handle(), " on ", server, "; with replace it becomes this one's"));
    }
    const auto released = AskOne<v1::ReleaseResponse>(
        TourPlan{server}, deadline,
        [&](const Server& one) { return ReleaseAt(one.operands, there, deadline); });
    if (!released.ok() && !absl::IsNotFound(released.status())) return released.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::SetNameResponse> Operands::SetName(const OperandName& operand,
                                                      const std::string& new_name, bool replace,
                                                      const CallOptions& call) {
  const absl::Time deadline = absl::Now() + call.timeout;
  const bool is_several = connection_->servers.are_several();
  std::string home;
  OperandName known = operand;
  if (is_several) {
    const auto found =
        AskOne<v1::ResidentOperand>(PlanFor(operand, call), deadline, [&](const Server& server) {
          home = server.name;
          return DescribeAt(server.operands, operand, deadline);
        });
    if (!found.ok()) return found.status();
    known.digest = found->digest();
    if (!replace) {
      const absl::Status status = CheckNameElsewhere(known, new_name, false, home, deadline);
      if (!status.ok()) return status;
    }
  }
  auto request = RequestFor<v1::SetNameRequest>(operand);
  request.set_new_name(new_name);
  request.set_replace(replace);
  TourPlan plan = PlanFor(operand, call);
  if (is_several) plan.server = home;
  auto named = AskOne<v1::SetNameResponse>(std::move(plan), deadline, [&](const Server& server) {
    return server.operands.Unary<v1::SetNameResponse>("Operands/SetName", request, deadline,
                                                      operand.digest);
  });
  if (!named.ok() || !is_several || !replace) return named;
  const absl::Status status = CheckNameElsewhere(known, new_name, true, home, deadline);
  if (!status.ok()) return status;
  connection_->servers.Learn({KeyOfName(new_name)}, home);
  return named;
}

absl::Status Operands::Release(const OperandName& name, const CallOptions& call) {
  const absl::Time deadline = absl::Now() + call.timeout;
  absl::Status none;  // of those that did not have it
  bool is_released = false;
  for (const std::string& server : connection_->servers.NamesOf(call.server)) {
    const absl::Status status =
        AskOne<v1::ReleaseResponse>(TourPlan{server}, deadline, [&](const Server& one) {
          return ReleaseAt(one.operands, name, deadline);
        }).status();
    if (!status.ok() && !absl::IsNotFound(status)) return status;
    if (status.ok()) is_released = true;
    if (!status.ok()) none = status;
  }
  return is_released ? absl::OkStatus() : none;
}

absl::StatusOr<absl::Duration> Operands::Renew(const OperandName& name, const Lease& lease,
                                               const CallOptions& call) {
  const absl::Time deadline = absl::Now() + call.timeout;
  auto request = RequestFor<v1::RenewRequest>(name);
  if (lease) SetDuration(*lease, request.mutable_lease());
  const auto response =
      AskOne<v1::RenewResponse>(PlanFor(name, call), deadline, [&](const Server& server) {
        return server.operands.Unary<v1::RenewResponse>("Operands/Renew", request, deadline,
                                                        name.digest);
      });
  if (!response.ok()) return response.status();
  return absl::Seconds(response->lease_remaining().seconds()) +
         absl::Nanoseconds(response->lease_remaining().nanos());
}

}  // namespace gemmd::client
