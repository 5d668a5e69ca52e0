// One client over several real servers, of which some end, are drained, or are started anew.
#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sync/mutex.h"
#include "client/client.h"
#include "client/details.h"
#include "client/operands.h"
#include "client/shared_region.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::ServerProcess;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Small integers, whose products f32 holds exactly.
Matrix Filled(std::uint64_t rows, std::uint64_t columns, int seed) {
  std::string bytes(rows * columns * sizeof(float), '\0');
  for (std::uint64_t i = 0; i < rows * columns; ++i) {
    const float value =
        static_cast<float>((i * 7 + static_cast<std::uint64_t>(seed) * 13) % 257) - 128;
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
  }
  return *Matrix::Create(MatrixFormat{DataType::kF32, rows, columns, Order::kRowMajor, 0},
                         std::move(bytes));
}

OperandSource Weights(int seed) { return *OperandSource::Create(Filled(64, 48, seed)); }

// Products of one client, so many in flight; each is counted by its server.
class Load {
 public:
  // `weights`: the operand of each product in turn; none: products of two matrices that go along.
  Load(Client& client, int in_flight, std::vector<OperandSource> weights = {})
      : client_(client), in_flight_(in_flight), weights_(std::move(weights)) {}

  // Runs `count` products; calls `half_way` when half of them have ended.
  void Run(int count, const std::function<void()>& half_way = {}) {
    {
      const MutexLock lock(mutex_);
      left_ = count;
      open_ = std::min(in_flight_, count);
    }
    for (int i = 0; i < std::min(in_flight_, count); ++i) Next();
    const MutexLock lock(mutex_);
    while (open_ > 0 && left_ > count / 2) changed_.wait(mutex_);
    if (half_way) half_way();
    while (open_ > 0) changed_.wait(mutex_);
  }

  std::vector<std::string> errors() const { return errors_; }
  int refills() const { return refills_; }
  int attempts() const { return attempts_; }
  const std::map<std::string, int>& by_server() const { return by_server_; }

 private:
  void Next() {
    int number = 0;
    {
      const MutexLock lock(mutex_);
      if (left_ == 0) {
        --open_;
        changed_.notify_all();
        return;
      }
      number = --left_;
    }
    MatmulInputs inputs{Filled(8, 64, number), Filled(64, 48, number + 1)};
    if (!weights_.empty()) {
      inputs.b = weights_[static_cast<std::size_t>(number) % weights_.size()];
    }
    CallOptions call;
    call.timeout = absl::Seconds(60);
    client_.MatmulAsync(std::move(inputs), {}, call, [this](absl::StatusOr<Product> product) {
      {
        const MutexLock lock(mutex_);
        if (product.ok()) {
          ++by_server_[product->receipt.address];
          refills_ += product->receipt.client.refills;
          attempts_ += product->receipt.client.attempts;
        } else {
          errors_.push_back(product.status().ToString());
        }
        changed_.notify_all();
      }
      Next();
    });
  }

  Client& client_;
  const int in_flight_;
  const std::vector<OperandSource> weights_;
  Mutex mutex_;
  CondVar changed_;
  int left_ = 0;
  int open_ = 0;
  // Read when no product is under way.
  std::vector<std::string> errors_;
  std::map<std::string, int> by_server_;
  int refills_ = 0;
  int attempts_ = 0;
};

class FleetTest : public ::testing::Test {
 protected:
  void Start(int count) {
    for (int i = 0; i < count; ++i) {
      servers_.push_back(std::make_unique<ServerProcess>(
          std::vector<std::string>{"--cpu.threads=1", "--shared-memory.name-prefix=gemmd-",
                                   "--shared-memory.max-bytes=16777216"}));
      ASSERT_NE(servers_.back()->address(), "") << servers_.back()->log();
    }
  }

  ClientOptions Options() const {
    ClientOptions options;
    for (const auto& server : servers_) options.servers.push_back(server->address());
    return options;
  }

  // Waits until the client knows what all servers say of themselves.
  static void AwaitHealth(const Client& client, Health health, const std::string& server) {
    const auto is_so = [&] {
      const std::vector<ServerState> states = client.States();
      return std::any_of(states.begin(), states.end(), [&](const ServerState& state) {
        return state.name == server && state.health == health;
      });
    };
    while (!is_so()) {
    }
  }

  const std::string& address(std::size_t i) const { return servers_[i]->address(); }

  std::vector<std::unique_ptr<ServerProcess>> servers_;
};

TEST_F(FleetTest, AServerThatIsKilledUnderLoadCostsNoProduct) {
  Start(3);
  Client client(Options());
  Load load(client, 16);
  load.Run(1200, [&] { servers_[1]->Signal(SIGKILL); });
  EXPECT_THAT(load.errors(), ElementsAre());
  EXPECT_GT(load.attempts(), 1200);
  for (const ServerState& state : client.States()) EXPECT_EQ(state.in_flight, 0);
  // From now on nobody asks it.
  AwaitHealth(client, Health::kNotServing, address(1));
  Load after(client, 16);
  after.Run(300);
  EXPECT_THAT(after.errors(), ElementsAre());
  EXPECT_EQ(after.attempts(), 300);
  EXPECT_EQ(after.by_server().count(address(1)), 0u);
}

TEST_F(FleetTest, AServerThatDrainsLosesNoProduct) {
  Start(3);
  for (const Transport transport : {Transport::kUnary, Transport::kStream}) {
    ClientOptions options = Options();
    options.route.transport = transport;
    Client client(options);
    const std::size_t victim = transport == Transport::kUnary ? 0 : 1;
    Load load(client, 16);
    load.Run(800, [&] { servers_[victim]->Signal(SIGTERM); });
    EXPECT_THAT(load.errors(), ElementsAre());
    EXPECT_EQ(servers_[victim]->WaitForExit(), 0);
    EXPECT_EQ(servers_[victim]->log().find("answers_not_delivered"), std::string::npos);
  }
}

TEST_F(FleetTest, ProductsMeetTheirOperandsAndNoServerIsOverloaded) {
  Start(3);
  Client client(Options());
  std::vector<OperandSource> weights;
  for (int i = 0; i < 24; ++i) weights.push_back(Weights(i));
  constexpr int kProducts = 3000;
  Load load(client, 48, weights);
  load.Run(kProducts);
  EXPECT_THAT(load.errors(), ElementsAre());
  EXPECT_EQ(load.attempts(), kProducts + load.refills());
  EXPECT_GE(1 - load.refills() / static_cast<double>(kProducts), 0.95);
  ASSERT_EQ(load.by_server().size(), 3u);
  for (const auto& [server, products] : load.by_server()) {
    EXPECT_LE(products, 1.3 * kProducts / 3) << server;
  }
}

TEST_F(FleetTest, OneAfterAnotherEachOperandIsOnOneServerUntilThatOneGoes) {
  Start(3);
  Client client(Options());
  std::map<int, std::string> homes;
  const auto multiply = [&](int seed) {
    const auto product = client.Matmul({Filled(8, 64, seed), Weights(seed)});
    EXPECT_TRUE(product.ok()) << product.status();
    return product.ok() ? product->receipt : Receipt();
  };
  for (int i = 0; i < 24; ++i) homes[i] = multiply(i).address;
  for (const auto& [seed, home] : homes) {
    const Receipt receipt = multiply(seed);
    EXPECT_EQ(receipt.address, home);
    EXPECT_EQ(receipt.client.refills, 0);
  }
  servers_[2]->Signal(SIGKILL);
  servers_[2]->WaitForExit();
  for (const auto& [seed, home] : homes) {
    const Receipt receipt = multiply(seed);
    EXPECT_NE(receipt.address, address(2));
    // Its own operands move, and no others.
    EXPECT_EQ(receipt.address == home, home != address(2)) << seed;
    EXPECT_EQ(receipt.client.refills, home == address(2) ? 1 : 0) << seed;
  }
}

TEST_F(FleetTest, AResultThatStaysIsMultipliedWhereItIsByEveryClient) {
  Start(3);
  Client client(Options());
  MatmulOptions keep;
  keep.destination = KeepResult{};
  for (int i = 0; i < 6; ++i) {
    const auto kept = client.Matmul({Filled(8, 64, i), Filled(64, 48, i)}, keep);
    ASSERT_TRUE(kept.ok()) << kept.status();
    Client stranger(Options());
    for (Client* each : {&client, &stranger, &stranger}) {
      const auto product = each->Matmul({OperandName{kept->handle, {}}, Filled(48, 4, i)});
      ASSERT_TRUE(product.ok()) << product.status();
      EXPECT_EQ(product->receipt.address, kept->receipt.address);
    }
  }
  const auto missing = client.Matmul({OperandName{"00000000-1", {}}, Filled(48, 4, 1)});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound) << missing.status();
  EXPECT_NE(ServerOf(missing.status()), "");
}

TEST_F(FleetTest, AStreamOverSeveralConnectionsStaysOnOneServer) {
  Start(2);
  ClientOptions options = Options();
  options.route.transport = Transport::kStream;
  options.route.channels = 3;
  Client client(options);
  for (int i = 0; i < 4; ++i) {
    const auto product = client.Matmul({Filled(512, 512, i), Filled(512, 512, i)});
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->receipt.route.channels, 3);
    EXPECT_EQ(product->receipt.address, address(static_cast<std::size_t>(i) % 2));
  }
}

TEST_F(FleetTest, SharedMemoryGoesToTheServerThatTheCallNames) {
  Start(2);
  Client client(Options());
  auto created = SharedRegion::Create(servers_[1]->NewChannel(), 1 << 16);
  ASSERT_TRUE(created.ok()) << created.status();
  const std::shared_ptr<const SharedRegion> region = *std::move(created);
  const Matrix a = Filled(8, 64, 1);
  std::memcpy(region->data(), a.bytes().data(), a.bytes().size());
  const MatmulInputs inputs{SharedOperand{PlaceIn(region, 0), a.format()}, Filled(64, 48, 2)};
  EXPECT_THAT(client.Matmul(inputs).status().ToString(),
              HasSubstr("INVALID_ARGUMENT: server is \"\""));
  CallOptions call;
  for (int i = 0; i < 3; ++i) {
    call.server = address(1);
    const auto product = client.Matmul(inputs, {}, call);
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->receipt.address, address(1));
  }
  call.server = "other:1";
  EXPECT_THAT(client.Matmul(inputs, {}, call).status().ToString(),
              HasSubstr(absl::StrCat("server is \"other:1\"; it must be one of ", address(0), ", ",
                                     address(1))));
}

TEST_F(FleetTest, OperandsAreFoundByEachNameWhereverTheyAre) {
  Start(3);
  Operands operands(Options());
  Client client(Options());
  std::set<std::string> processes;
  for (int i = 0; i < 12; ++i) {
    const auto put = operands.Put(Weights(i));
    ASSERT_TRUE(put.ok()) << put.status();
    processes.insert(put->handle().substr(0, 8));
    // Products that name the digest, or bring the source, go where it is.
    const auto product = client.Matmul({Filled(8, 64, i), Weights(i)});
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->receipt.client.refills, 0);
    EXPECT_EQ(operands.Describe({put->handle(), {}})->digest(), Weights(i).digest());
    EXPECT_EQ(operands.Describe({{}, Weights(i).digest()})->handle(), put->handle());
    EXPECT_TRUE(operands.Get({put->handle(), {}}).ok());
  }
  EXPECT_GE(processes.size(), 2u);
  EXPECT_EQ(operands.List()->size(), 12u);
  // A name is of one operand, whichever servers they are on.
  const auto name = [&](int seed, bool replace) {
    return operands.SetName({{}, Weights(seed).digest()}, "w", replace).status();
  };
  EXPECT_TRUE(name(0, false).ok());
  for (int i = 1; i < 6; ++i) {
    EXPECT_EQ(name(i, false).code(), absl::StatusCode::kAlreadyExists);
    EXPECT_TRUE(operands.Put(Weights(i)).ok());
    const absl::Status replaced = name(i, true);
    ASSERT_TRUE(replaced.ok()) << replaced;
    Operands stranger(Options());
    EXPECT_EQ(stranger.Describe({{}, {}, std::nullopt, "w"})->digest(), Weights(i).digest());
    const auto product = client.Matmul({Filled(8, 64, i), OperandName{{}, {}, std::nullopt, "w"}});
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->d->bytes(), client.Matmul({Filled(8, 64, i), Weights(i)})->d->bytes());
  }
  for (int i = 0; i < 12; ++i) {
    const absl::Status released = operands.Release({{}, Weights(i).digest()});
    EXPECT_TRUE(released.ok() || absl::IsNotFound(released)) << released;
  }
  EXPECT_EQ(operands.List()->size(), 0u);
  EXPECT_TRUE(absl::IsNotFound(operands.Release({{}, Weights(0).digest()})));
}

TEST_F(FleetTest, AnUploadGoesToTheNextServerWhereItsOwnIsAway) {
  Start(2);
  servers_[0]->Signal(SIGKILL);
  servers_[0]->WaitForExit();
  Operands operands(Options());
  std::set<std::string> processes;
  for (int i = 0; i < 8; ++i) {
    const auto put = operands.Put(Weights(i));
    ASSERT_TRUE(put.ok()) << put.status();
    processes.insert(put->handle().substr(0, 8));
  }
  EXPECT_EQ(processes.size(), 1u);
}

TEST_F(FleetTest, AServerThatIsStartedAnewIsUsedAgain) {
  Start(2);
  const std::string first = address(0);
  Client client(Options());
  AwaitHealth(client, Health::kServing, first);
  servers_[0]->Signal(SIGKILL);
  servers_[0]->WaitForExit();
  AwaitHealth(client, Health::kNotServing, first);
  EXPECT_EQ(client.Matmul({Filled(8, 64, 1), Filled(64, 48, 1)})->receipt.address, address(1));
  servers_[0] = std::make_unique<ServerProcess>(
      std::vector<std::string>{"--cpu.threads=1", absl::StrCat("--listen=", first)});
  ASSERT_EQ(servers_[0]->address(), first) << servers_[0]->log();
  AwaitHealth(client, Health::kServing, first);
  std::set<std::string> used;
  for (int i = 0; i < 4; ++i) {
    used.insert(client.Matmul({Filled(8, 64, 1), Filled(64, 48, 1)})->receipt.address);
  }
  EXPECT_EQ(used.size(), 2u);
}

TEST_F(FleetTest, ANameIsAllOfItsAddressesAndFollowsThem) {
  Start(3);
  Mutex mutex;
  std::vector<std::string> addresses = {address(0), address(1)};
  ClientOptions options;
  options.servers = {"dns:///gemmd.test"};
  options.fleet.look_pause = absl::ZeroDuration();
  options.fleet.resolve = [&](const NameAndPort& name) -> absl::StatusOr<std::vector<std::string>> {
    EXPECT_EQ(name.name, "gemmd.test");
    EXPECT_EQ(name.port, "50051");
    const MutexLock lock(mutex);
    if (addresses.empty()) return absl::UnavailableError("DNS resolution failed for gemmd.test");
    return addresses;
  };
  Client client(options);
  const auto names = [&] {
    std::set<std::string> found;
    for (const ServerState& state : client.States()) found.insert(state.name);
    return found;
  };
  EXPECT_EQ(names(), (std::set<std::string>{address(0), address(1)}));
  {
    const MutexLock lock(mutex);
    addresses = {address(1), address(2)};
  }
  Load load(client, 8);
  load.Run(200, [&] { servers_[0]->Signal(SIGKILL); });
  EXPECT_THAT(load.errors(), ElementsAre());
  while (names().count(address(2)) == 0) {
    EXPECT_TRUE(client.Matmul({Filled(8, 64, 1), Filled(64, 48, 1)}).ok());
  }
  EXPECT_EQ(names(), (std::set<std::string>{address(1), address(2)}));
}

}  // namespace
}  // namespace gemmd::client
