#include "server/check.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/process/memory_share.h"
#include "kernels/gemm.h"
#include "server/auth/policy_file.h"
#include "server/host_limits.h"
#include "server/preload/preload.h"
#include "server/process.h"
#include "server/rpc/tls_files.h"
#include "server/settings/scheduling_options.h"
#include "server/settings/settings.h"
#include "server/trace/otlp_endpoint.h"

namespace gemmd {
namespace {

absl::Status CheckPolicy(const config::Auth& config, std::vector<std::string>* warnings) {
  const absl::StatusOr<std::unique_ptr<PolicyFile>> file =
      PolicyFile::Open(config.policy_file(), std::chrono::milliseconds(0));
  if (!file.ok()) return file.status();
  for (const std::string& name : (*file)->policy()->ExpiredTokens(absl::Now())) {
    warnings->push_back(absl::StrCat("auth.policy_file: token \"", name, "\" has expired"));
  }
  return absl::OkStatus();
}

absl::Status CheckTlsFiles(const TlsFiles& files, std::vector<std::string>* warnings) {
  if (files.certificate_file.empty()) return absl::OkStatus();
  const absl::StatusOr<TlsBytes> bytes = ReadTlsBytes(files);
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<TlsMaterial> material = CheckTls(files, *bytes, std::time(nullptr));
  if (!material.ok()) return material.status();
  warnings->insert(warnings->end(), material->warnings.begin(), material->warnings.end());
  return absl::OkStatus();
}

void CheckPlans(const config::Tuning& config, std::vector<std::string>* warnings) {
  if (config.plan_cache_file().empty()) return;
  const absl::StatusOr<PlanCache> plans = PlanCache::Load(config.plan_cache_file(), PlanVersion());
  if (plans.ok() || absl::IsNotFound(plans.status())) return;  // gemm tune makes the file
  warnings->push_back(absl::StrCat("tuning.plan_cache_file: ", plans.status().message()));
}

}  // namespace

absl::Status CheckFiles(const config::ServerConfig& config, std::vector<std::string>* warnings) {
  if (absl::Status s = CheckPolicy(config.auth(), warnings); !s.ok()) return s;
  const TlsFiles tls = RpcOptions(config, SIZE_MAX).tls;
  if (absl::Status s = CheckTlsFiles(tls, warnings); !s.ok()) return s;
  CheckPlans(config.tuning(), warnings);
  if (!config.observe().otlp_endpoint().empty()) {
    const auto endpoint = ParseOtlpEndpoint(config.observe().otlp_endpoint());
    if (!endpoint.ok()) return endpoint.status();
  }
  if (absl::Status s = SchedulingOptions(config.scheduling()).status(); !s.ok()) return s;
  if (absl::Status s = OpenPreload(config.operands().preload()).status(); !s.ok()) return s;
  return CheckMemoryOption("--cpu.memory-bytes", config.cpu().memory_bytes(), ThisMemoryShare());
}

int CheckConfig(const config::ServerConfig& config) {
  std::vector<std::string> warnings;
  const absl::Status status = CheckFiles(config, &warnings);
  for (const std::string& each : warnings) {
    std::fprintf(stderr, "gemmd: warning: %s\n", each.c_str());
  }
  if (!status.ok()) {
    std::fprintf(stderr, "gemmd: %s\n", std::string(status.message()).c_str());
    return kExitCannotStart;
  }
  std::fprintf(stderr, "gemmd: the configuration is good\n");
  return kExitOk;
}

}  // namespace gemmd
