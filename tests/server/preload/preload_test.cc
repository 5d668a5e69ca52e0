// Files of weights into a store, without a server.
#include "server/preload/preload.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/client/testing/weight_bytes.h"
#include "tests/server/store/store_fixture.h"

namespace gemmd {
namespace {

using testing::SafetensorsBytes;

class PreloadTest : public ::testing::Test, protected testing::StoreFixture {
 protected:
  absl::Status Load(const std::string& option, bool is_stopped = false) {
    const auto files = OpenPreload(option);
    if (!files.ok()) return files.status();
    RequestLimits limits;
    limits.request_bytes = 1 << 20;
    return Preload(*files, tenant_, limits, &store, [&] { return is_stopped; });
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const StoredInfo& each : store.List(tenant_, 0, 100).first) {
      names.insert(names.end(), each.names.begin(), each.names.end());
    }
    return names;
  }
  std::string File(const std::string& name, const std::string& tensor, char value) const {
    return directory_.File(name,
                           SafetensorsBytes({{tensor, "I8", "[4,2]", std::string(8, value)}}));
  }

  const Tenant tenant_ = *Tenant::Named("a");
  testing::TemporaryDirectory directory_;
};

TEST_F(PreloadTest, NothingIsAskedForAndNothingIsThere) {
  EXPECT_TRUE(Load("").ok());
  EXPECT_EQ(store.statistics().residents, 0U);
}

TEST_F(PreloadTest, AServerThatIsToStopPutsNoMore) {
  const absl::Status status = Load(File("w.safetensors", "w", 1), true);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(store.statistics().residents, 0U);
}

TEST_F(PreloadTest, APathMayHaveAColonAndSoMayAName) {
  const std::string path = File("w:1.safetensors", "onnx::w", 1);
  EXPECT_EQ(Load(path), absl::OkStatus());
  EXPECT_EQ(Names(), std::vector<std::string>{"onnx::w"});
  // The pattern begins behind the last colon.
  ASSERT_TRUE(Load(path + ":onnx??w").ok());
  EXPECT_EQ(Load(path + ":onnx::w").code(), absl::StatusCode::kNotFound);
}

TEST_F(PreloadTest, EqualMatricesAreOneOperandWithBothNames) {
  ASSERT_TRUE(Load(File("a.safetensors", "a", 1) + "," + File("b.safetensors", "b", 1)).ok());
  EXPECT_EQ(store.statistics().residents, 1U);
  EXPECT_EQ(Names(), (std::vector<std::string>{"a", "b"}));
  clock.Advance(1000000 * kSecond);
  EXPECT_FALSE(store.EvictFrom(&device));
}

TEST_F(PreloadTest, AnIndexOfAFolderStandsForItsShards) {
  File("part.safetensors", "w", 1);
  File("other.safetensors", "not of the index", 2);
  directory_.File("model.safetensors.index.json", R"({"weight_map":{"w":"part.safetensors"}})");
  ASSERT_TRUE(Load(directory_.Path("")).ok());
  EXPECT_EQ(Names(), std::vector<std::string>{"w"});
}

TEST_F(PreloadTest, RefusalsNameTheFileAndTheMatrix) {
  const std::string w = File("w.safetensors", "w", 1);
  EXPECT_EQ(Load(w + ":v").message(),
            "operands.preload: " + w + " has no matrix with a name like \"v\"");
  const std::string text = directory_.File("notes.txt", "hello");
  EXPECT_EQ(Load(text).message(), "operands.preload: " + text +
                                      " is no file of weights: safetensors, its index, GGUF, "
                                      ".npz, ONNX, .npy, .gq");
  const std::string name(256, 'n');
  EXPECT_EQ(Load(File("n.safetensors", name, 1)).message(),
            "operands.preload: " + directory_.Path("n.safetensors") + ": \"" +
                std::string(128, 'n') +
                "...\" (256 bytes): its name has 256 bytes; a name has 1 to 255");
  ASSERT_TRUE(Load(w).ok());
  EXPECT_EQ(Load(File("v.safetensors", "w", 2)).code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace gemmd
