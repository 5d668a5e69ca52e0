#include "kernels/cublaslt/library_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace gemmd::cublaslt {
namespace {

TEST(OpenLibrary, OpensWhatTheLoaderKnows) {
  const OpenedLibrary library = OpenLibrary("libm.so.6", {});
  EXPECT_NE(library.handle, nullptr);
  EXPECT_EQ(library.failure, "");
}

TEST(OpenLibrary, SaysWhereItLooked) {
  const OpenedLibrary library = OpenLibrary("libnothing.so.1", {"/first", "/second"});
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_EQ(library.failure,
            "cannot open libnothing.so.1: it is neither in the loader's paths (LD_LIBRARY_PATH) "
            "nor in /first, /second");
}

TEST(OpenLibrary, NamesAFileThatDoesNotLoad) {
  const std::string folder = std::getenv("TEST_TMPDIR");
  std::ofstream(folder + "/libbroken.so.1") << "not a library";
  const OpenedLibrary library = OpenLibrary("libbroken.so.1", {"/first", folder});
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_NE(library.failure.find(folder + "/libbroken.so.1: "), std::string::npos)
      << library.failure;
}

TEST(CudaLibraryFolders, StartWithCudaHome) {
  const std::string root = std::getenv("TEST_TMPDIR");
  ASSERT_TRUE(std::filesystem::create_directories(root + "/cuda/lib64"));
  setenv("CUDA_HOME", (root + "/cuda").c_str(), 1);
  const std::vector<std::string> folders = CudaLibraryFolders();
  ASSERT_FALSE(folders.empty());
  EXPECT_EQ(folders.front(), root + "/cuda/lib64");
}

TEST(CudaLibraryFolders, KnowPythonsWheels) {
  const std::string root = std::getenv("TEST_TMPDIR");
  const std::string folder = root + "/venv/lib/python3.11/site-packages/nvidia/cu13/lib";
  ASSERT_TRUE(std::filesystem::create_directories(folder));
  setenv("VIRTUAL_ENV", (root + "/venv").c_str(), 1);
  const std::vector<std::string> folders = CudaLibraryFolders();
  EXPECT_NE(std::find(folders.begin(), folders.end(), folder), folders.end());
}

}  // namespace
}  // namespace gemmd::cublaslt
