// A file for what is read by its path.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace lockstep::fuzz {

// One for the whole process, in memory where the machine has a file system there.
//
// Threads: one at a time.
class InputFile {
 public:
  InputFile() {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code error;
    const bool has_memory = std::filesystem::is_directory(memory, error);
    path_ = (has_memory ? memory : std::filesystem::temp_directory_path()) /
            ("fuzz-input-" + std::to_string(getpid()));
  }
  ~InputFile() { std::filesystem::remove(path_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // The file's path; it holds these bytes, until the next call.
  const std::string& Hold(const void* data, size_t size) {
    std::FILE* const file = std::fopen(path_.c_str(), "wb");
    if (file == nullptr || std::fwrite(data, 1, size, file) != size) std::abort();
    std::fclose(file);
    return path_;
  }

 private:
  std::string path_;
};

}  // namespace lockstep::fuzz
