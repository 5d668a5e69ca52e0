// Loops whose indices several threads share, for callers that have no threads of their own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace gemmd {

// Calls body(i) for each i of [0, count) on up to `threads` threads, this one among them, and
// returns when all calls have. Each free thread takes the next index: cores need not be alike, nor
// idle.
template <typename Body>
void ForEachOnThreads(std::size_t count, std::size_t threads, const Body& body) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < std::min(count, threads); ++i) helpers.emplace_back(take);
  take();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace gemmd
