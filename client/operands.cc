#include "client/operands.h"

#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "client/calls/blocking_call.h"
#include "client/calls/operand_link.h"
#include "client/calls/operand_transfer.h"
#include "client/wire/wire_types.h"

namespace gemmd::client {
namespace {

template <typename Request>
Request RequestFor(const OperandName& name) {
  Request request;
  client::SetName(name, &request);
  return request;
}

}  // namespace

Operands::Operands(const ClientOptions& options)
    : link_(std::make_unique<const OperandLink>(
          OperandLink{options.retry, options.timer == nullptr ? MakeAlarmTimer() : options.timer,
                      MakeChannel(options.channel), UploadChannels(options.channel)})) {}

Operands::~Operands() = default;

absl::StatusOr<v1::ResidentOperand> Operands::Put(const OperandSource& source, const Lease& lease,
                                                  const CallOptions& call, const Sent& sent) {
  return link_->Put(source, lease, absl::Now() + call.timeout, sent);
}

absl::StatusOr<v1::UploadResponse> Operands::PutAs(const OperandSource& source,
                                                   const v1::Operand& stored_form,
                                                   const Lease& lease, const CallOptions& call,
                                                   const Sent& sent) {
  return link_->PutAs(source, stored_form, lease, absl::Now() + call.timeout, sent);
}

absl::StatusOr<InlineOperand> Operands::Get(const OperandName& name, const CallOptions& call) {
  const absl::Time deadline = absl::Now() + call.timeout;
  Retries retries(link_->retry, deadline);
  while (true) {
    std::optional<InlineOperand> operand;
    CallEnd end;
    {
      BlockingCall download = link_->Call("Operands/Download", deadline);
      end = Download(download, RequestFor<v1::DownloadRequest>(name), &operand);
    }
    if (!end.status.ok()) {
      if (!link_->WaitAfter(end, &retries)) return retries.ErrorOf(end.status);
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

absl::StatusOr<v1::ResidentOperand> Operands::Describe(const OperandName& name,
                                                       const CallOptions& call) {
  absl::StatusOr<v1::GetResponse> response = link_->Unary<v1::GetResponse>(
      "Operands/Get", RequestFor<v1::GetRequest>(name), absl::Now() + call.timeout);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_resident());
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
  std::vector<v1::ResidentOperand> residents;
  v1::ListRequest request;
  do {
    const absl::StatusOr<v1::ListResponse> page =
        link_->Unary<v1::ListResponse>(method, request, deadline);
    if (!page.ok()) return page.status();
    residents.insert(residents.end(), page->residents().begin(), page->residents().end());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return residents;
}

absl::StatusOr<v1::SetNameResponse> Operands::SetName(const OperandName& operand,
                                                      const std::string& new_name, bool replace,
                                                      const CallOptions& call) {
  auto request = RequestFor<v1::SetNameRequest>(operand);
  request.set_new_name(new_name);
  request.set_replace(replace);
  return link_->Unary<v1::SetNameResponse>("Operands/SetName", request, absl::Now() + call.timeout);
}

absl::Status Operands::Release(const OperandName& name, const CallOptions& call) {
  return link_
      ->Unary<v1::ReleaseResponse>("Operands/Release", RequestFor<v1::ReleaseRequest>(name),
                                   absl::Now() + call.timeout)
      .status();
}

absl::StatusOr<absl::Duration> Operands::Renew(const OperandName& name, const Lease& lease,
                                               const CallOptions& call) {
  auto request = RequestFor<v1::RenewRequest>(name);
  if (lease) SetDuration(*lease, request.mutable_lease());
  const absl::StatusOr<v1::RenewResponse> response =
      link_->Unary<v1::RenewResponse>("Operands/Renew", request, absl::Now() + call.timeout);
  if (!response.ok()) return response.status();
  return absl::Seconds(response->lease_remaining().seconds()) +
         absl::Nanoseconds(response->lease_remaining().nanos());
}

}  // namespace gemmd::client
