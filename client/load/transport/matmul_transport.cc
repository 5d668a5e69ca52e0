#include "client/load/transport/matmul_transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sync/mutex.h"
#include "client/calls/call_count.h"
#include "client/client.h"
#include "client/load/random.h"
#include "client/load/transport/infer_client.h"
#include "client/load/transport/places.h"
#include "client/load/transport/prepared_entry.h"

namespace gemmd::load {
namespace {

StageIndex IndexOf(v1::StageName name) {
  switch (name) {
    case v1::DECODE:
      return kServerDecode;
    case v1::ADMISSION:
      return kAdmission;
    case v1::RECEIVE:
      return kReceive;
    case v1::QUEUE:
      return kQueue;
    case v1::COPY_IN:
      return kCopyIn;
    case v1::COMPUTE:
      return kCompute;
    case v1::COPY_OUT:
      return kCopyOut;
    case v1::ENCODE:
      return kServerEncode;
    default:
      return kServerOther;  // of a newer server
  }
}

Reply ReplyOf(const client::Receipt& receipt) {
  const auto us = [](absl::Duration time) {
    return static_cast<float>(absl::ToDoubleMicroseconds(time));
  };
  Reply reply;
  reply.stage_us[kClientEncode] = us(receipt.client.encode);
  reply.stage_us[kWire] = us(receipt.client.wire);
  reply.stage_us[kClientDecode] = us(receipt.client.decode);
  reply.stage_us[kServerOther] = static_cast<float>(receipt.server.unattributed_us());
  for (const v1::Stage& stage : receipt.server.stages()) {
    reply.stage_us[IndexOf(stage.name())] += static_cast<float>(stage.exposed_us());
  }
  reply.batch_requests = static_cast<std::uint32_t>(receipt.server.batch_requests());
  return reply;
}

bool IsUnary(const PreparedEntry& entry) {
  return entry.call.route.has_value() && entry.call.route->transport == client::Transport::kUnary;
}

class GrpcMatmulTransport final : public MatmulTransport {
 public:
  GrpcMatmulTransport(std::vector<PreparedEntry> entries, const std::vector<std::string>& tenants,
                      const MatmulTransportOptions& options)
      : options_(options), entries_(std::move(entries)) {
    for (int i = 0; i < options.channels; ++i) {
      Lane& lane = *lanes_.emplace_back(std::make_unique<Lane>());
      for (const std::string& tenant : tenants) {
        client::ClientOptions client_options = ClientOptionsFor(options, tenant);
        client_options.retry.max_attempts = 1;
        if (options.protocol == Protocol::kOip) {
          lane.infer_clients.push_back(std::make_unique<InferClient>(client_options));
        } else {
          lane.clients.push_back(std::make_unique<client::Client>(client_options));
        }
        if (options.calls_per_connection > 0) {
          lane.places.push_back(std::make_unique<Places>(options.calls_per_connection));
        }
      }
    }
  }

  ~GrpcMatmulTransport() override { Drain(); }

  void Send(const Request& request, Done done) override {
    Lane& lane = *lanes_[request.lane % lanes_.size()];
    const PreparedEntry& entry = entries_[request.entry];
    lane.calls.Begin();
    const auto sending =
        std::make_shared<Sending>(Sending{lane, entry, request, std::move(done), Clock::now()});
    if (entry.turns == nullptr) {
      sending->payload = request.index % entry.payloads.size();
      return TakePlace(sending);
    }
    entry.turns->Take([this, sending](std::size_t payload) {
      sending->payload = payload;
      TakePlace(sending);
    });
  }

  void Drain() override {
    for (const auto& lane : lanes_) lane->calls.WaitForNone();
  }

  Findings TakeFindings() override {
    const MutexLock lock(mutex_);
    return std::exchange(findings_, Findings());
  }

  std::vector<EchoSizes> sizes() const override {
    std::vector<EchoSizes> sizes;
    sizes.reserve(entries_.size());
    for (const PreparedEntry& entry : entries_) sizes.push_back(entry.sizes);
    return sizes;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Lane {
    client::CallCount calls;
    // One a tenant, each with a connection of its own; places on it, where they are limited. One
    // of the two kinds, as the protocol is.
    std::vector<std::unique_ptr<client::Client>> clients;
    std::vector<std::unique_ptr<InferClient>> infer_clients;
    std::vector<std::unique_ptr<Places>> places;
  };
  struct Sending {
    Lane& lane;
    const PreparedEntry& entry;
    const Request request;
    const Done done;
    const Clock::time_point since;
    std::size_t payload = 0;
    std::size_t place = 0;

    Places* places() const {
      return lane.places.empty() || !IsUnary(entry) ? nullptr : lane.places[entry.tenant].get();
    }
  };

  bool IsToVerify(const Request& request, const PreparedPayload& payload) const {
    return payload.check != nullptr &&
           ToUnit(Mix64(options_.seed ^ ~request.index)) < options_.verify_fraction;
  }

  void TakePlace(const std::shared_ptr<Sending>& sending) {
    Places* const places = sending->places();
    if (places == nullptr) return Start(sending);
    places->Take([this, sending](std::size_t place) {
      sending->place = place;
      Start(sending);
    });
  }

  void Start(const std::shared_ptr<Sending>& sending) {
    const PreparedEntry& entry = sending->entry;
    const PreparedPayload& payload = entry.payloads[sending->payload];
    if (payload.shared && IsToVerify(sending->request, payload)) {
      // The last request's D must not be taken for this one's.
      std::memset(payload.shared->d, 0xFF, payload.shared->d_bytes);
    }
    const bool may_wait = entry.turns != nullptr || sending->places() != nullptr;
    const absl::Duration waited =
        may_wait ? absl::FromChrono(Clock::now() - sending->since) : absl::ZeroDuration();
    client::CallOptions call = entry.call;
    // The deadline counts the wait too. Where nothing is left gRPC ends the call, on a thread of
    // its own: ended here, a thousand that wait would end within each other.
    call.timeout = std::max(call.timeout - waited, absl::Milliseconds(1));
    auto done = [this, sending, waited](const absl::StatusOr<client::Product>& product) {
      End(*sending, product, waited);
    };
    if (options_.protocol == Protocol::kOip) {
      return sending->lane.infer_clients[entry.tenant]->InferAsync(payload.infer, call,
                                                                   std::move(done));
    }
    sending->lane.clients[entry.tenant]->MatmulAsync(payload.encoded, call, std::move(done));
  }

  void End(const Sending& sending, const absl::StatusOr<client::Product>& product,
           absl::Duration waited) {
    Lane& lane = sending.lane;
    Finish(sending, product, waited);
    if (sending.entry.turns != nullptr) sending.entry.turns->GiveBack(sending.payload);
    if (Places* const places = sending.places()) places->GiveBack(sending.place);
    lane.calls.End();
  }

  // Verifies after `done`, so that it is in no latency.
  void Finish(const Sending& sending, const absl::StatusOr<client::Product>& product,
              absl::Duration waited) {
    const PreparedPayload& payload = sending.entry.payloads[sending.payload];
    if (!product.ok()) {
      {
        const MutexLock lock(mutex_);
        findings_.first_errors.emplace(absl::StatusCodeToString(product.status().code()),
                                       product.status().message());
      }
      Reply reply;
      reply.code = product.status().code();
      return sending.done(reply);
    }
    Reply reply = ReplyOf(product->receipt);
    reply.stage_us[kClientQueue] = static_cast<float>(absl::ToDoubleMicroseconds(waited));
    sending.done(reply);
    if (!IsToVerify(sending.request, payload)) return;
    const std::string why = payload.check->WhyWrong(*product);
    const MutexLock lock(mutex_);
    ++findings_.verified;
    if (why.empty()) return;
    if (findings_.wrong++ == 0) findings_.first_wrong = why;
  }

  const MatmulTransportOptions options_;
  const std::vector<PreparedEntry> entries_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Mutex mutex_;
  Findings findings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<MatmulTransport>> MatmulTransport::Create(
    const Workload& workload, const MatmulTransportOptions& options) {
  if (options.protocol == Protocol::kOip) {
    if (absl::Status s = CheckOip(workload); !s.ok()) return s;
  }
  std::vector<PreparedEntry> entries;
  std::vector<std::string> tenants;
  for (const WorkloadEntry& entry : workload) {
    absl::StatusOr<PreparedEntry> made =
        PrepareEntry(entry, options, options.seed + entries.size());
    if (!made.ok()) {
      return absl::Status(made.status().code(),
                          absl::StrCat(entry.name, ": ", made.status().message()));
    }
    const auto tenant = std::find(tenants.begin(), tenants.end(), entry.tenant);
    made->tenant = static_cast<std::size_t>(tenant - tenants.begin());
    if (tenant == tenants.end()) tenants.push_back(entry.tenant);
    entries.push_back(*std::move(made));
  }
  return std::make_unique<GrpcMatmulTransport>(std::move(entries), tenants, options);
}

}  // namespace gemmd::load
