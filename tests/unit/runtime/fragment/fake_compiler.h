// The compiler of testdata/, with files of its own.
#pragma once

#include <string>

#include "runtime/fragment/compiler_program.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/object_key.h"
#include "tests/support/files.h"

namespace lockstep::fragment {

class FakeCompiler {
 public:
  static std::string File(const std::string& name) {
    return "tests/unit/runtime/fragment/testdata/" + name;
  }

  CompilerOptions Options(const std::string& object = File("test_object.so")) const {
    CompilerOptions options;
    options.program = File("fake_compiler");
    options.arguments = {"--object=" + object, "--ran=" + directory_.File("ran"),
                         "--version=" + directory_.File("version")};
    // Sanitizers map more than any compiler uses.
    options.memory_bytes = 0;
    return options;
  }
  // What it calls itself from now on.
  void SetVersion(const std::string& version) const {
    std::ofstream(directory_.File("version")) << version;
  }
  // How many requests it has had.
  size_t Requests() const { return support::ReadFile(directory_.File("ran")).size(); }
  std::string Path(const std::string& name) const { return directory_.File(name); }

  static CompileWork Work(const std::string& source) {
    return {*Fragment::Mlir(source, "test.mlir")};
  }

  FakeCompiler() { SetVersion("fake 1"); }

 private:
  const support::ScratchDirectory directory_;
};

}  // namespace lockstep::fragment
