#include "services/local/fragment_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/files.h"

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;

// Gives the variable back what it had.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* const had = std::getenv(name);
    was_set_ = had != nullptr;
    if (was_set_) had_ = had;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Variable() { was_set_ ? setenv(name_, had_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* const name_;
  bool was_set_ = false;
  std::string had_;
};

TEST(FragmentCacheTest, IsInTheUsersCacheDirectory) {
  const Variable home("HOME", "/home/someone");
  {
    const Variable cache("XDG_CACHE_HOME", "/var/cache/someone/");
    EXPECT_EQ(UserFragmentCache().value(), "/var/cache/someone/lockstep/fragments");
  }
  for (const char* const none : {static_cast<const char*>(nullptr), "", "relative"}) {
    const Variable cache("XDG_CACHE_HOME", none);
    EXPECT_EQ(UserFragmentCache().value(), "/home/someone/.cache/lockstep/fragments");
  }
  const Variable cache("XDG_CACHE_HOME", nullptr);
  const Variable nowhere("HOME", nullptr);
  EXPECT_EQ(UserFragmentCache().status().code(), StatusCode::kNotFound);
}

TEST(FragmentCacheTest, WhatLeadsToItIsMadeForThisUserAlone) {
  const support::ScratchDirectory scratch;
  const std::string path = scratch.File("cache/lockstep/fragments");
  ASSERT_EQ(PrepareFragmentCache(path), OkStatus());
  struct stat info {};
  ASSERT_EQ(stat(scratch.File("cache/lockstep").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_FALSE(fs::exists(path)) << "the workers make it";
  EXPECT_EQ(PrepareFragmentCache(path), OkStatus()) << "again";
}

TEST(FragmentCacheTest, OneThatOthersCouldChangeIsRefused) {
  const support::ScratchDirectory scratch;
  const std::string path = scratch.File("cache/fragments");
  fs::create_directories(path);
  fs::permissions(path, fs::perms::all);
  EXPECT_EQ(PrepareFragmentCache(path).code(), StatusCode::kPermissionDenied);
  fs::permissions(path, fs::perms::owner_all);
  EXPECT_EQ(PrepareFragmentCache(path), OkStatus());
  fs::permissions(scratch.File("cache"), fs::perms::all);
  EXPECT_EQ(PrepareFragmentCache(path).code(), StatusCode::kPermissionDenied);
}

TEST(FragmentCacheTest, AFileIsNoCache) {
  const support::ScratchDirectory scratch;
  const std::string path = scratch.File("fragments");
  std::ofstream(path).flush();
  EXPECT_EQ(CanKeepFragments(path).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(PrepareFragmentCache(path).code(), StatusCode::kFailedPrecondition)
      << "each worker would compile for itself";
  EXPECT_EQ(CanKeepFragments(path + "/in/it").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(CanKeepFragments(scratch.File("not/there/yet")).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::local
