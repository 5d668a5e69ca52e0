// Spans by HTTP/1.1 in plain text, one connection a batch.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "server/trace/otlp_endpoint.h"
#include "server/trace/otlp_exporter.h"

namespace gemmd {

class HttpSpanSender final : public SpanSender {
 public:
  explicit HttpSpanSender(const OtlpEndpoint& endpoint);
  ~HttpSpanSender() override;

  // 200 to 299: taken. 429, 502, 503 and 504: to be tried again, as OTLP has it; so is what does
  // not connect, or does not answer HTTP in time. Any other code, 3xx included: refused. It reads
  // no more than 8 KiB of headers and 64 KiB of body of an answer.
  SendOutcome Send(const std::string& body, std::chrono::milliseconds timeout) override;
  void Interrupt() override;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace gemmd
