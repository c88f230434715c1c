// lockstep-compiler, which compiles MLIR.
#include <string>

#include "tests/conformance/compilers/compiler_under_test.h"

namespace lockstep::fragment {
namespace {

std::string BodyOf(Sample sample) {
  switch (sample) {
    case Sample::kDouble:
      return "  %y = arith.addf %x, %x : tensor<?xf64>\n";
    case Sample::kDivideByZero:
      return R"(  %c0 = arith.constant 0 : index
  %e = tensor.extract %x[%c0] : tensor<?xf64>
  %i = arith.fptosi %e : f64 to i64
  %q = arith.divsi %how, %i : i64
  %f = arith.sitofp %q : i64 to f64
  %y = tensor.insert %f into %x[%c0] : tensor<?xf64>
)";
    case Sample::kNeverEnds:
      return R"(  %n = scf.while (%t = %how) : (i64) -> i64 {
    %true = arith.constant true
    scf.condition(%true) %t : i64
  } do {
  ^bb0(%t: i64):
    %u = arith.addi %t, %t : i64
    scf.yield %u : i64
  }
  %c0 = arith.constant 0 : index
  %f = arith.sitofp %n : i64 to f64
  %y = tensor.insert %f into %x[%c0] : tensor<?xf64>
)";
    case Sample::kWantsMemory:
      return R"(  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %n = tensor.dim %x, %c0 : tensor<?xf64>
  %e = tensor.empty(%n) : tensor<?xf64>
  %filled = linalg.fill ins(%zero : f64) outs(%e : tensor<?xf64>) -> tensor<?xf64>
  %first = tensor.extract %x[%c0] : tensor<?xf64>
  %written = tensor.insert %first into %filled[%c0] : tensor<?xf64>
  %r = tensor.extract %written[%c0] : tensor<?xf64>
  %y = tensor.insert %r into %x[%c0] : tensor<?xf64>
)";
    case Sample::kDoesNotCompile:
      return "  %y = arith.addf %x, %how : tensor<?xf64>\n";
  }
  __builtin_unreachable();  // a Sample is always one of these
}

}  // namespace

CompilerUnderTest TheCompiler() {
  return {
      {"services/compiler/lockstep-compiler"}, [](Sample sample) -> SampleSource {
        return {*Fragment::Mlir("func.func @f(%how: i64, %x: tensor<?xf64>) -> tensor<?xf64> {\n" +
                                BodyOf(sample) + "  return %y : tensor<?xf64>\n}\n")};
      }};
}

}  // namespace lockstep::fragment
