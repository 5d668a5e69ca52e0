#include "client/blas/process.h"

#include <pthread.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace gemmd::blas {
namespace {

Shape ShapeOf(const RealProduct& product) {
  return {product.is_double, product.transpose_a, product.transpose_b, product.m,
          product.n,         product.k,           product.count};
}

}  // namespace

Process& Process::Get() {
  static Process& process = *new Process;
  return process;
}

Process::Process() : settings_(ReadSettings()), server_(*new Server(settings_)) {
  pthread_atfork(nullptr, nullptr, [] { Get().Forked(); });
  if (records() || is_always()) {
    least_volume = 0;
  } else if (settings_.mode == Mode::kAuto) {
    least_volume = kLeastVolume;
  }
}

Why Process::Decide(const RealProduct& product, double flops, int kind,
                    const std::function<double()>& gflops) {
  if (settings_.mode == Mode::kNever) return Why::kNever;
  if (is_forked_) {
    if (!has_said_forked_.exchange(true)) {
      Say("process %ld was forked after its parent's first product: all is computed here",
          static_cast<long>(getpid()));
    }
    return Why::kForked;
  }
  const auto volume = static_cast<double>(product.m) * static_cast<double>(product.n) *
                      static_cast<double>(product.k) * static_cast<double>(product.count);
  if (!is_always() && volume < kLeastVolume) return Why::kSmall;
  has_begun_ = true;
  if (const Why why = server_.Ready(); why != Why::kServer) return why;
  {
    // Others wait: two measurements at a time would each find half the machine.
    const MutexLock lock(measuring_);
    std::atomic<double>& speed = gflops_[static_cast<std::size_t>(kind)];
    if (speed == 0) speed = gflops();
  }
  if (is_always()) return Why::kServer;
  const Shape shape = ShapeOf(product);
  std::optional<double> estimated_us;
  {
    const MutexLock lock(mutex_);
    estimated_us = choice_.Estimated(shape, Server::Clock::now());
  }
  if (!estimated_us.has_value()) {
    double us = 0;
    if (const Why why = server_.Estimate(product, us); why != Why::kServer) return why;
    estimated_us = us;
    const MutexLock lock(mutex_);
    choice_.Told(shape, us, Server::Clock::now());
  }
  const MutexLock lock(mutex_);
  if (choice_.ThereUs(flops, *estimated_us) < 1e6 * SecondsHere(flops, kind)) return Why::kServer;
  choice_.Stayed(flops);
  return Why::kHereFaster;
}

Answer Process::Multiply(const RealProduct& product, double flops, int kind) {
  // Ten times as long as here, and ten seconds for connections to be made.
  const double by_size_ms = 1e4 * (1 + SecondsHere(flops, kind));
  const std::chrono::milliseconds limit(
      settings_.limit_ms != 0 ? settings_.limit_ms : static_cast<std::int64_t>(by_size_ms));
  return server_.Multiply(product, limit);
}

void Process::Took(const RealProduct& product, double flops, Server::Clock::duration time) {
  const MutexLock lock(mutex_);
  const auto estimated = choice_.LastEstimated(ShapeOf(product));
  if (!estimated.has_value()) return;
  choice_.Took(flops, *estimated, std::chrono::duration<double, std::micro>(time).count());
}

double Process::SecondsHere(double flops, int kind) const {
  const double gflops = gflops_[static_cast<std::size_t>(kind)];
  return gflops == 0 ? 0 : flops / (gflops * 1e9);
}

void Process::Record(const CallRecord& record) {
  if (is_forked_) return;
  has_begun_ = true;
  if (settings_.report) report_.Add(record);
  if (settings_.log != nullptr) {
    const std::string line = LineOf(record) + '\n';
    Append(settings_.log, line.data(), line.size());
  }
}

void Process::End() {
  if (settings_.report && !is_forked_) {
    const std::string text = report_.Text();
    Append("-", text.data(), text.size());
  }
}

void Process::Forked() {
  if (has_begun_) is_forked_ = true;
}

namespace {

__attribute__((constructor)) void Begin() { Process::Get(); }
__attribute__((destructor)) void End() { Process::Get().End(); }

}  // namespace
}  // namespace gemmd::blas
