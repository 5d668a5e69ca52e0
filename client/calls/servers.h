// The servers of one client, and the way of each call over them: private to client.cc and
// operands.cc.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "client/calls/matmul_link.h"
#include "client/calls/operand_link.h"
#include "client/fleet/fleet.h"
#include "client/fleet/health_watch.h"
#include "client/options.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace gemmd::client {

// The wishes of a call.
struct TourPlan {
  std::string server = {};                // this one alone; empty: any
  std::string first = {};                 // this one if it serves; empty: any
  std::vector<std::string> avoided = {};  // only where no other serves
  bool takes_first = false;               // the first that serves, in the order of the list
  std::string digest = {};                // of the operand that the server should hold; empty: none
  std::vector<std::string> things = {};   // keys of what one server alone has
};

TourPlan PlanOf(const CallOptions& call);

// All handles of a server's process have one key. A name has its own.
std::string KeyOfHandle(absl::string_view handle);
std::string KeyOfName(absl::string_view name);

// A server, and what all calls to it share.
struct Server {
  Server(const ClientOptions& options, const ChannelOptions& channel_options,
         const std::shared_ptr<Timer>& timer, bool is_one_of_several);

  const std::string name;  // its address
  const OperandLink operands;
  MatmulLink matmul;
  const std::unique_ptr<v1::Admin::Stub> admin;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health;
  const std::unique_ptr<v1::Gemm::Stub> gemm;  // for what is neither sent nor received in slices
  std::unique_ptr<HealthWatch> watch;          // null where it is the only one
};

// Thread-safe. One server costs nothing: no lock, no health check. Several are chosen by a Fleet;
// a name's addresses are looked up on a thread of their own, every half minute and when a server
// fails.
class Servers {
 public:
  Servers(const ClientOptions& options, const std::shared_ptr<Timer>& timer);
  // REQUIRES: no call is under way.
  ~Servers();
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  bool are_several() const { return one_ == nullptr; }
  // Names of all that are known now, in the order in which they were given.
  std::vector<std::string> names() const;
  std::vector<ServerState> states() const;
  // The names of the servers that a call goes to: `server`, or if it is empty all that are known.
  std::vector<std::string> NamesOf(const std::string& server) const;
  // Waits that long.
  void Wait(absl::Duration delay) const;
  // Remembers where things are that one server alone has.
  void Learn(const std::vector<std::string>& things, const std::string& server);

 private:
  friend class Tour;
  struct Chosen {
    std::shared_ptr<Server> server;
    Fleet::Choice choice;
  };

  absl::StatusOr<Chosen> Choose(const TourPlan& plan, std::vector<std::string>* met);
  void Report(const Fleet::Choice& choice, Verdict verdict);
  bool HasOther(const std::vector<std::string>& met) const;
  std::vector<int> NumbersOf(const std::vector<std::string>& names) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int HomeOf(const std::vector<std::string>& things) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnHealth(const std::string& name, Health health);

  // Looks up the names among the targets, and adds and removes servers accordingly.
  void Refresh();
  void SetServers(const std::vector<ChannelOptions>& found);
  void FreeGone();
  void Follow();

  const ClientOptions options_;
  const std::shared_ptr<Timer> timer_;
  std::vector<std::string> targets_;  // addresses, and names of several
  bool has_names_ = false;
  std::shared_ptr<Server> one_;  // null: several

  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status fault_ ABSL_GUARDED_BY(mutex_);  // why there is no server
  Fleet fleet_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> order_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<Server>> servers_ ABSL_GUARDED_BY(mutex_);
  // Those whose addresses are gone, until their last call has ended. They are freed here, because a
  // channel must not end on one of gRPC's threads.
  std::vector<std::shared_ptr<Server>> gone_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> homes_ ABSL_GUARDED_BY(mutex_);
  bool must_look_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread follower_;
};

// The way of one call: attempt by attempt, each at one server. Used by one thread at a time.
class Tour {
 public:
  Tour(Servers& servers, TourPlan plan)
      : servers_(servers), plan_(std::move(plan)), met_(plan_.avoided) {}
  ~Tour() { Leave(); }
  Tour(const Tour&) = delete;
  Tour& operator=(const Tour&) = delete;

  // Chooses the server of the next attempt. An error is the attempt's: there is no server, or not
  // the one that was asked for.
  absl::Status Begin();
  // REQUIRES: Begin() was OK, and Leave() was not called since.
  const std::shared_ptr<Server>& server() const { return server_; }
  // The attempt has ended so; nothing where there is none. Returns the status with the server's
  // name, where it is one of several.
  absl::Status End(const absl::Status& status);
  // Ends an attempt of which nothing is to be told, and lets the server go.
  void Leave();

  // The server of the last attempt has the plan's things, and what has this handle, if any.
  void Learn(const std::string& handle);

  bool is_one_of_several() const { return servers_.are_several(); }
  // Returns whether another attempt may go to a server that this call has not met.
  bool HasOther() const;
  // Returns whether another server may have what this one does not find.
  bool MaySearch(const absl::Status& status) const;
  const TourPlan& plan() const { return plan_; }

 private:
  Servers& servers_;
  const TourPlan plan_;
  std::vector<std::string> met_;  // servers that failed, did not find something, or are avoided
  std::shared_ptr<Server> server_;
  Fleet::Choice choice_;  // of the attempt under way
};

}  // namespace gemmd::client
