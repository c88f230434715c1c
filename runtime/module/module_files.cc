#include "runtime/module/module_files.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "runtime/base/files.h"

namespace lockstep::module {
namespace {

namespace fs = std::filesystem;

std::string Listed(const std::vector<std::string>& directories) {
  std::string text;
  for (const std::string& directory : directories) {
    text += (text.empty() ? "" : ", ") + directory;
  }
  return text;
}

// The one of `directories` that the file is in or below, all symbolic links resolved; "": none.
fs::path DirectoryOf(const fs::path& file, const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    std::error_code error;
    const fs::path root = fs::canonical(directory, error);
    if (error) continue;  // a directory that does not exist holds nothing
    const auto [root_end, file_at] =
        std::mismatch(root.begin(), root.end(), file.begin(), file.end());
    if (root_end == root.end()) return root;
  }
  return {};
}

// What others may write is nothing that the operator has put there.
Status CheckWriters(const fs::path& file, const fs::path& directory) {
  for (fs::path path = file;; path = path.parent_path()) {
    const Status status = CheckTrusted(path);
    if (!status.ok()) {
      return Annotate(status,
                      "the module " + file.string() +
                          " is not loaded: a user who may change it decides what runs here");
    }
    if (path == directory) return OkStatus();
  }
}

}  // namespace

StatusOr<std::string> FindModule(const std::string& path,
                                 const std::vector<std::string>& directories) {
  if (directories.empty()) {
    return PermissionDenied("module \"", path,
                            "\" cannot be loaded: the operator allowed no directory of modules");
  }
  std::vector<fs::path> candidates;
  if (fs::path(path).is_absolute()) {
    candidates.emplace_back(path);
  } else {
    for (const std::string& directory : directories) {
      std::error_code error;
      if (fs::is_directory(directory, error)) candidates.push_back(fs::path(directory) / path);
    }
  }
  for (const fs::path& candidate : candidates) {
    std::error_code error;
    const fs::path file = fs::weakly_canonical(candidate, error);
    if (error) continue;
    // Clients are told nothing of what is out there, not even whether it exists.
    const fs::path directory = DirectoryOf(file, directories);
    if (directory.empty()) {
      return PermissionDenied("module \"", path,
                              "\" leads outside of the allowed directories: ", Listed(directories));
    }
    if (!fs::is_regular_file(file, error)) continue;
    LOCKSTEP_RETURN_IF_ERROR(CheckWriters(file, directory));
    return file.string();
  }
  return NotFound("there is no module file \"", path, "\"; the allowed directories are ",
                  Listed(directories));
}

StatusOr<std::string> Sha256OfFile(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  std::array<char, size_t{64} << 10> chunk;
  while (in) {
    in.read(chunk.data(), chunk.size());
    crypto_hash_sha256_update(&state, reinterpret_cast<const unsigned char*>(chunk.data()),
                              static_cast<unsigned long long>(in.gcount()));
  }
  if (!in.eof()) return NotFound("the module ", file, " cannot be read");
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest;
  crypto_hash_sha256_final(&state, digest.data());
  std::array<char, 2 * crypto_hash_sha256_BYTES + 1> text;
  return std::string(sodium_bin2hex(text.data(), text.size(), digest.data(), digest.size()));
}

Status CheckDigest(const std::string& file, const std::vector<std::string>& sha256) {
  if (sha256.empty()) return OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string digest, Sha256OfFile(file));
  if (std::find(sha256.begin(), sha256.end(), digest) != sha256.end()) return OkStatus();
  return PermissionDenied("the module ", file, " has the SHA-256 ", digest,
                          ", which the operator has not allowed (module_sha256)");
}

}  // namespace lockstep::module
