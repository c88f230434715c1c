#include "tools/cli/fragment/fragment_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "runtime/base/files.h"

namespace lockstep::cli {

StatusOr<fragment::Fragment> ReadFragmentFile(const std::string& path) {
  if (path.ends_with(".cu")) {
    return Unimplemented(path,
                         " is CUDA C++, which programs send (docs/fragments.md); this command "
                         "takes fragments in MLIR");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return FileError("cannot read", path, errno);
  // One byte more than is allowed, so that too much is seen without being read.
  std::string source(fragment::Fragment::kMaxSourceBytes + 1, '\0');
  file.read(source.data(), static_cast<std::streamsize>(source.size()));
  if (file.bad()) return FileError("cannot read", path, errno);
  source.resize(static_cast<size_t>(file.gcount()));
  std::string name = std::filesystem::path(path).filename().string();
  StatusOr<fragment::Fragment> fragment =
      fragment::Fragment::Mlir(std::move(source), std::move(name));
  return fragment.ok() ? fragment : Annotate(fragment.status(), path);
}

}  // namespace lockstep::cli
