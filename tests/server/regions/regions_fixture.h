// A table with room for two regions of a file that is there.
#pragma once

#include <chrono>
#include <cstdint>

#include "gtest/gtest.h"
#include "server/regions/region_table.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"
#include "tests/testing/shared_file.h"

namespace gemmd {

class RegionsFixture : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kFileBytes = 8192;

  static RegionOptions Options() {
    RegionOptions options;
    options.name_prefixes = {"gemmd-test-"};
    options.max_regions = 2;
    options.max_bytes = 3 * kFileBytes;
    options.default_lease = 1000;
    options.max_lease = 5000;
    return options;
  }

  testing::FakeClock clock_;
  testing::FakeDevice device_{&clock_, 1 << 20, 1};
  testing::SharedFile file_{kFileBytes};
  RegionTable table_{Options(), {&device_}, &clock_, std::chrono::milliseconds(0)};
};

}  // namespace gemmd
