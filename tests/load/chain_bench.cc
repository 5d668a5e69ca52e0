// Measures a link of a chain: products of a kept result and a resident B, each named by the next,
// against a server that runs already (on a GPU's host: gemmd --device=cuda).
//
//   chain_bench SERVER [SIZE...]     sizes are n of n x n x n in bf16; default: 1024 4096
//   chain_bench SERVER keep COUNT    so many results of 4096 cubed stay at once: what moved for
//                                    want of room, and whether the first, one between and the last,
//                                    all of the same product, have the same bits
//   chain_bench SERVER put MIB       uploads random bytes, twice: hashing, then sending
//
// For each size, over chains of 16 links, one request at a time:
//   link          median from the call to its answer
//   in the device the receipt's compute stage, median
//   overhead      what a request takes besides: the median of links of 64 x 64 x 64 less their
//                 compute stage, measured between the chains
//   moved         bytes between host and device that the receipts of the links tell, all together,
//                 those of landings and evictions included; and what the server counted meanwhile
// Then the result is fetched, and compared with that of a chain whose links are sent and come back:
// equal bits, or exit code 1.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/operands.h"
#include "gemmd/v1/admin.pb.h"
#include "tests/load/timing.h"

namespace gemmd {
namespace {

constexpr int kLinks = 16;
constexpr int kRounds = 12;
constexpr std::uint64_t kSmall = 64;

template <typename T>
T Require(absl::StatusOr<T> result, const char* what) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s: %s\n", what, result.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

// Elements of mean 0 whose sums over n keep their size through a chain.
client::Matrix RandomMatrix(std::uint64_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const float scale = std::sqrt(3.0F / static_cast<float>(n));
  std::string bytes(n * n * 2, '\0');
  for (std::uint64_t i = 0; i < n * n; ++i) {
    const float value = scale * uniform(random);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    const auto bf16 = static_cast<std::uint16_t>(bits >> 16U);
    std::memcpy(bytes.data() + i * 2, &bf16, sizeof(bf16));
  }
  const client::MatrixFormat format{DataType::kBf16, n, n, Order::kRowMajor, 0};
  return Require(client::Matrix::Create(format, std::move(bytes)), "matrix");
}

struct Times {
  std::vector<double> link_us;
  std::vector<double> compute_us;
  std::uint64_t moved_bytes = 0;
};

std::uint64_t Moved(const v1::Receipt& receipt) {
  return receipt.copied_bytes_in() + receipt.copied_bytes_out() + receipt.landed_bytes() +
         receipt.evicted_bytes();
}

double ComputeUs(const v1::Receipt& receipt) {
  double us = 0;
  for (const v1::Stage& stage : receipt.stages()) {
    if (stage.name() == v1::COMPUTE) us += stage.end_us() - stage.start_us();
  }
  return us;
}

client::OperandName Named(const std::string& handle) { return {handle, {}}; }

// Options of a product whose result stays on the server.
client::MatmulOptions Kept() {
  client::MatmulOptions options;
  options.destination = client::KeepResult();
  return options;
}

// Chains of products with one B, all of it on the server.
class Chain {
 public:
  Chain(client::Client* client, client::Operands* operands, std::uint64_t n)
      : client_(*client), operands_(*operands), a_(RandomMatrix(n, 1)), b_(RandomMatrix(n, 2)) {
    const auto put = [&](const client::Matrix& matrix) {
      const auto source = Require(client::OperandSource::Create(matrix), "source");
      return Named(Require(operands_.Put(source), "put").handle());
    };
    on_server_a_ = put(a_);
    on_server_b_ = put(b_);
  }

  // The handle of the last result. `times` null: to warm up.
  client::OperandName Run(Times* times) {
    client::OperandName last = on_server_a_;
    for (int i = 0; i < kLinks; ++i) {
      client::OperandName next;
      v1::Receipt receipt;
      const double us = 1e6 * Seconds([&] {
                          auto kept = Require(client_.Matmul({last, on_server_b_}, Kept()), "link");
                          next = Named(kept.handle);
                          receipt = std::move(kept.receipt.server);
                        });
      if (i > 0) Release(last);
      last = next;
      if (times == nullptr) continue;
      times->link_us.push_back(us);
      times->compute_us.push_back(ComputeUs(receipt));
      times->moved_bytes += Moved(receipt);
    }
    return last;
  }

  // Runs the chain with every result brought to the client, and sent again as the next A.
  client::Matrix RunInline() {
    client::Matrix last = a_;
    for (int i = 0; i < kLinks; ++i) {
      auto sent = Require(client_.Matmul({last, on_server_b_}), "product");
      last = *std::move(sent.d);
    }
    return last;
  }

  void Release(const client::OperandName& name) {
    if (absl::Status s = operands_.Release(name); !s.ok()) Require<int>(s, "release");
  }

 private:
  client::Client& client_;
  client::Operands& operands_;
  const client::Matrix a_;
  const client::Matrix b_;
  client::OperandName on_server_a_;
  client::OperandName on_server_b_;
};

std::uint64_t CopiedByServer(client::Client* client) {
  const v1::StatisticsResponse statistics = Require(client->Statistics(), "statistics");
  std::uint64_t bytes = 0;
  for (const v1::QueueStatistics& queue : statistics.queues()) {
    bytes += queue.copied_bytes_in() + queue.copied_bytes_out();
  }
  return bytes;
}

bool Measure(const client::ClientOptions& options, std::uint64_t n) {
  client::Operands operands(options);
  client::Client client(options);
  Chain chain(&client, &operands, n);
  Chain small(&client, &operands, kSmall);
  chain.Release(chain.Run(nullptr));
  small.Release(small.Run(nullptr));
  Times times;
  Times small_times;
  const std::uint64_t before = CopiedByServer(&client);
  for (int round = 0; round < kRounds; ++round) {
    small.Release(small.Run(&small_times));
    chain.Release(chain.Run(&times));
  }
  const std::uint64_t counted = CopiedByServer(&client) - before;
  const double overhead_us = Median(small_times.link_us) - Median(small_times.compute_us);
  std::printf(
      "%5llu cubed bf16: link %.1f us, in the device %.1f us, overhead %.1f us "
      "(link of %llu cubed: %.1f us); moved %llu bytes by %zu receipts, %llu counted\n",
      static_cast<unsigned long long>(n), Median(times.link_us), Median(times.compute_us),
      overhead_us, static_cast<unsigned long long>(kSmall), Median(small_times.link_us),
      static_cast<unsigned long long>(times.moved_bytes + small_times.moved_bytes),
      times.link_us.size() + small_times.link_us.size(), static_cast<unsigned long long>(counted));
  const client::OperandName last = chain.Run(nullptr);
  double fetch_s = 0;
  std::string fetched;
  fetch_s =
      Seconds([&] { fetched = std::string(Require(operands.Get(last), "get").data.bytes()); });
  chain.Release(last);
  const bool is_equal = fetched == chain.RunInline().bytes();
  std::printf("      get: %.1f ms for %zu bytes; %s\n", fetch_s * 1e3, fetched.size(),
              is_equal ? "the bits of a chain that is sent and comes back" : "OTHER BITS");
  return is_equal && times.moved_bytes == 0 && counted == 0;
}

bool Keep(const client::ClientOptions& options, std::uint64_t count) {
  constexpr std::uint64_t kSize = 4096;
  client::Client client(options);
  client::Operands operands(options);
  const auto put = [&](std::uint32_t seed) {
    const auto source = Require(client::OperandSource::Create(RandomMatrix(kSize, seed)), "source");
    return Named(Require(operands.Put(source), "put").handle());
  };
  const client::OperandName a = put(1);
  const client::OperandName b = put(2);
  std::vector<client::OperandName> kept;
  std::uint64_t evicted_bytes = 0;
  std::uint64_t landed_bytes = 0;
  const auto multiply = [&](const client::OperandName& left) {
    auto result = Require(client.Matmul({left, b}, Kept()), "product");
    evicted_bytes += result.receipt.server.evicted_bytes();
    landed_bytes += result.receipt.server.landed_bytes();
    return Named(result.handle);
  };
  const double seconds = Seconds([&] {
    for (std::uint64_t i = 0; i < count; ++i) kept.push_back(multiply(a));
  });
  std::printf("%llu results of 32 MiB stay: %.2f s, %llu bytes evicted, %llu landed\n",
              static_cast<unsigned long long>(count), seconds,
              static_cast<unsigned long long>(evicted_bytes),
              static_cast<unsigned long long>(landed_bytes));
  const auto bytes = [&](const client::OperandName& name) {
    return std::string(Require(operands.Get(name), "get").data.bytes());
  };
  const std::string first = bytes(kept.front());
  const bool is_same = first == bytes(kept[count / 2]) && first == bytes(kept.back());
  landed_bytes = 0;
  const bool is_same_again = bytes(multiply(kept.front())) == bytes(multiply(kept.back()));
  std::printf("the same bits: %s; products of the first and the last: %s, %llu bytes landed\n",
              is_same ? "yes" : "NO", is_same_again ? "the same" : "OTHERS",
              static_cast<unsigned long long>(landed_bytes));
  return is_same && is_same_again;
}

bool Put(const client::ClientOptions& options, std::uint64_t mebibytes) {
  client::Operands operands(options);
  std::string bytes(mebibytes << 20U, '\0');
  std::mt19937_64 random(mebibytes);
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t value = random();
    std::memcpy(bytes.data() + i, &value, sizeof(value));
  }
  const client::MatrixFormat format{DataType::kInt8, mebibytes, 1 << 20, Order::kRowMajor, 0};
  const auto matrix = Require(client::Matrix::Create(format, std::move(bytes)), "matrix");
  for (int i = 0; i < 2; ++i) {
    std::optional<client::OperandSource> source;
    const double hashing =
        Seconds([&] { source = Require(client::OperandSource::Create(matrix), "source"); });
    const double sending = Seconds([&] { Require(operands.Put(*source), "put"); });
    std::printf("put of %llu MiB: hashed in %.3f s, sent in %.3f s\n",
                static_cast<unsigned long long>(mebibytes), hashing, sending);
  }
  return true;
}

int Run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: chain_bench SERVER [SIZE... | keep COUNT | put MIB]\n");
    return 2;
  }
  client::ClientOptions options;
  options.channel.target = argv[1];
  if (argc == 4 && std::string(argv[2]) == "keep") {
    return Keep(options, std::strtoull(argv[3], nullptr, 10)) ? 0 : 1;
  }
  if (argc == 4 && std::string(argv[2]) == "put") {
    return Put(options, std::strtoull(argv[3], nullptr, 10)) ? 0 : 1;
  }
  std::vector<std::uint64_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {1024, 4096};
  bool is_right = true;
  for (const std::uint64_t size : sizes) is_right = Measure(options, size) && is_right;
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) { return gemmd::Run(argc, argv); }
