// Files that tests write.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace lockstep::support {

// The path of a file with this text; a test has one at a time.
inline std::string Write(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" +
                           ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                           ".yaml";
  std::ofstream(path) << text;
  return path;
}

}  // namespace lockstep::support
