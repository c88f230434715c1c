#include "tools/cli/doctor_fragments.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "runtime/base/deadline.h"
#include "runtime/base/quantity.h"
#include "runtime/fragment/compiler_program.h"
#include "services/local/fragment_cache.h"
#include "tools/text/format.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kAnswerTime{10};
constexpr char kCompiler[] = "fragments";
constexpr char kCache[] = "fragment cache";

}  // namespace

Finding CheckFragmentCompiler(const std::string& program, const std::string& allowed,
                              const Status& blas) {
  if (allowed == "off") {
    return {kCompiler, Verdict::kGood, "off, by the controller's setting \"fragments\"", ""};
  }
  const StatusOr<fragment::CompilerProgram> compiler = fragment::CompilerProgram::Find({program});
  if (!compiler.ok()) {
    return {kCompiler, Verdict::kDoubtful, Message(compiler.status()),
            "install lockstep-fragments, or set worker.compiler; all else works without"};
  }
  const StatusOr<fragment::CompilerIdentity> identity =
      compiler->Describe({Deadline::After(kAnswerTime)});
  if (!identity.ok()) {
    return {kCompiler, Verdict::kDoubtful, Message(identity.status()),
            "install lockstep-fragments again"};
  }
  const std::string fact = compiler->path() + ", " + identity->compiler + ", for " +
                           identity->processor + "; for keys of " +
                           (allowed == "client" ? "clients and operators" : "operators");
  if (!blas.ok()) {
    return {kCompiler, Verdict::kDoubtful, fact + "; products of matrices are slow", Message(blas)};
  }
  return {kCompiler, Verdict::kGood, fact, ""};
}

Finding CheckFragmentCache(std::string path) {
  const bool is_given = !path.empty();
  if (!is_given) {
    StatusOr<std::string> cache = local::UserFragmentCache();
    if (!cache.ok()) {
      return {kCache, Verdict::kGood, "in the run directory, because " + Message(cache.status()),
              ""};
    }
    path = *std::move(cache);
  }
  const Status usable = local::CanKeepFragments(path);
  // What leads to the user's own is made by `up`, and to another by nobody.
  if (!usable.ok() && (is_given || usable.code() != StatusCode::kNotFound)) {
    return {kCache, Verdict::kDoubtful, Message(usable),
            is_given ? "until then each worker compiles for itself"
                     : "until then fragments are compiled anew by each cluster"};
  }
  std::error_code error;
  if (!fs::exists(path, error))
    return {kCache, Verdict::kGood, path + ", which is not there yet", ""};
  uint64_t files = 0;
  uint64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    std::error_code gone;
    // Beside them are locks, and what is being written.
    if (entry.path().extension() != ".object") continue;
    const uint64_t size = entry.file_size(gone);
    if (gone) continue;
    ++files;
    bytes += size;
  }
  return {kCache, Verdict::kGood,
          path + " has " + text::Plural(files, "compiled fragment") + ", " + RoundedSize(bytes),
          ""};
}

}  // namespace lockstep::cli
