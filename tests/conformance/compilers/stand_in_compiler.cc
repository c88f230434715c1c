// The stand-in that tests use where there is no MLIR: it conforms, too.
#include <utility>

#include "tests/conformance/compilers/compiler_under_test.h"
#include "tests/unit/runtime/fragment/fake_compiler.h"

namespace lockstep::fragment {

CompilerUnderTest TheCompiler() {
  // Sanitizers map more than any compiler uses.
  CompilerOptions program{FakeCompiler::File("fake_compiler"), {}, 0};
  return {
      std::move(program), [](Sample sample) -> SampleSource {
        // Of whatever it is told it makes the same object, which is told what to do when it is
        // called (testdata/test_object.cc); but not of this.
        const bool is_wrong = sample == Sample::kDoesNotCompile;
        constexpr int64_t kFirst[] = {7, 1, 2, 3, 0};
        return {*Fragment::Mlir(is_wrong ? "wrong" : "right"), kFirst[static_cast<size_t>(sample)]};
      }};
}

}  // namespace lockstep::fragment
