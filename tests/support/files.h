// Files and directories of a test's own.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace lockstep::support {

// The path of a file with this text; a test has one at a time.
inline std::string Write(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" +
                           ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                           ".yaml";
  std::ofstream(path) << text;
  return path;
}

// The whole file; empty if there is none.
inline std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A directory with a short path (those of sockets have 107 bytes), which is removed with everything
// in it when this is destroyed.
class ScratchDirectory {
 public:
  ScratchDirectory() { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  bool IsEmpty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_ = "/tmp/lockstep-test-XXXXXX";
};

// One that TMPDIR names while this object lives, so that a test sees what stays in it.
class ScopedTmpDir {
 public:
  ScopedTmpDir() {
    const char* const before = getenv("TMPDIR");
    before_ = before == nullptr ? "" : before;
    setenv("TMPDIR", path().c_str(), 1);
  }
  ~ScopedTmpDir() {
    if (before_.empty()) {
      unsetenv("TMPDIR");
    } else {
      setenv("TMPDIR", before_.c_str(), 1);
    }
  }
  ScopedTmpDir(const ScopedTmpDir&) = delete;
  ScopedTmpDir& operator=(const ScopedTmpDir&) = delete;

  const std::string& path() const { return directory_.path(); }
  bool IsEmpty() const { return directory_.IsEmpty(); }

 private:
  const ScratchDirectory directory_;
  std::string before_;
};

}  // namespace lockstep::support
