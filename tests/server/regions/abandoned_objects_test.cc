#include "server/regions/abandoned_objects.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "gtest/gtest.h"
#include "server/regions/region_table.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/unique_name.h"

namespace gemmd {
namespace {

using testing::FakeClock;
using testing::UniqueName;

// An object of shared memory, as a client has it; it may have its lock.
class Object {
 public:
  Object(const std::string& name, bool is_locked) : path_("/" + name) {
    file_ = shm_open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT_GE(file_, 0);
    if (is_locked) {
      EXPECT_EQ(flock(file_, LOCK_SH | LOCK_NB), 0);
    }
  }
  ~Object() {
    Die();
    shm_unlink(path_.c_str());
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  // As the kernel does for a process that was killed.
  void Die() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }
  bool exists() const {
    const int file = shm_open(path_.c_str(), O_RDONLY, 0);
    if (file >= 0) close(file);
    return file >= 0;
  }

 private:
  const std::string path_;
  int file_ = -1;
};

TEST(AbandonedObjects, GoOnceTheirLockIsFree) {
  const std::string prefix = UniqueName("gemmd-test-");
  Object alive(prefix + "a.flock", true);
  Object dead(prefix + "b.flock", true);
  dead.Die();
  RemoveAbandonedObjects(prefix);
  EXPECT_TRUE(alive.exists());
  EXPECT_FALSE(dead.exists());
  alive.Die();
  RemoveAbandonedObjects(prefix);
  EXPECT_FALSE(alive.exists());
}

TEST(AbandonedObjects, AreThoseOfThePrefixThatPromiseALock) {
  const std::string prefix = UniqueName("gemmd-test-");
  const Object without_promise(prefix + "a", false);
  const Object of_another_server(UniqueName("gemmd-test-") + ".flock", false);
  const Object within(prefix + ".flock.b", false);
  RemoveAbandonedObjects(prefix);
  EXPECT_TRUE(without_promise.exists());
  EXPECT_TRUE(of_another_server.exists());
  EXPECT_TRUE(within.exists());
}

TEST(AbandonedObjects, AreLookedForByARegionTable) {
  RegionOptions options;
  options.name_prefixes = {UniqueName("gemmd-test-"), UniqueName("others-")};
  Object alive(options.name_prefixes[0] + "a.flock", true);
  // Other clients' objects are not known to end with their client.
  const Object others(options.name_prefixes[1] + "a.flock", false);
  FakeClock clock;
  RegionTable table(options, {}, &clock, std::chrono::milliseconds(0));
  table.LookRound();
  EXPECT_TRUE(alive.exists());
  alive.Die();
  table.LookRound();
  EXPECT_FALSE(alive.exists());
  EXPECT_TRUE(others.exists());
}

}  // namespace
}  // namespace gemmd
