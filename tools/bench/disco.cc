#include "tools/bench/disco.h"

#include <filesystem>
#include <system_error>

#include "runtime/base/child_process.h"
#include "tools/bench/program.h"

namespace lockstep::bench {

StatusOr<Disco> Disco::Find(const Settings& settings, std::string number,
                            std::vector<Line*> lines) {
  Disco disco;
  disco.number_ = std::move(number);
  disco.lines_ = std::move(lines);
  disco.scratch_ = settings.scratch;
  LOCKSTEP_ASSIGN_OR_RETURN(disco.program_,
                            FindProgram("disco_rival", "LOCKSTEP_DISCO_RIVAL", "tools/bench"));
  const std::string folder = UnpackedFolder("disco");
  std::error_code error;
  if (std::filesystem::is_directory(folder + "/tvm", error)) {
    disco.folder_ = folder;
  } else {
    for (Line* const line : disco.lines_) {
      line->note += "; without TVM Disco, which is not here: tools/dev setup --rivals";
    }
  }
  return disco;
}

Status Disco::Measure(int workers) const {
  if (folder_.empty()) return OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const Numbers numbers,
                            RunRival({.argv = {program_, std::to_string(workers)},
                                      .environment = {"PYTHONPATH=" + folder_},
                                      .scratch = scratch_}));
  LOCKSTEP_ASSIGN_OR_RETURN(const double value, Get(numbers, number_));
  for (Line* const line : lines_) line->Rival("TVM Disco").values.push_back(value);
  return OkStatus();
}

}  // namespace lockstep::bench
