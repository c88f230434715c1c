// lockstep-cuda-compiler as a worker starts it, with NVRTC in its sandbox. No GPU is needed.
#include <gmock/gmock.h>

#include <cstdlib>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/fragment/compile_codec.h"
#include "runtime/fragment/compiler_program.h"
#include "tests/support/files.h"

namespace lockstep::fragment {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kProgram[] = "services/compiler/cuda/lockstep-cuda-compiler";
constexpr char kScale[] =
    "// lockstep: scale(x: float64[n], by: float64) -> (y: float64[n])\n"
    "__global__ void scale(const double* x, double by, double* y, int64_t n) {\n"
    "  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * "
    "blockDim.x)\n"
    "    y[i] = x[i] * by;\n"
    "}\n";

CompilerProgram Program(const std::string& gpu, const std::string& nvrtc) {
  CompilerOptions options;
  options.program = kProgram;
  options.arguments = {"--gpu=" + gpu, "--nvrtc=" + nvrtc};
  options.language = Kind::kCuda;
  return *CompilerProgram::Find(options);
}

Patience Patiently() { return {Deadline::After(std::chrono::minutes(1))}; }

TEST(CudaCompilerWithoutNvrtcTest, SaysWhatIsMissing) {
  const auto described = Program("sm_90", "/nonexistent/libnvrtc.so").Describe(Patiently());
  EXPECT_EQ(described.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(described.status()),
              AllOf(StartsWith("fragments of CUDA source are not available: "),
                    HasSubstr("NVRTC is not here (/nonexistent/libnvrtc.so")));
}

class CudaCompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (nvrtc_.empty()) {
      GTEST_SKIP() << "there is no NVRTC here: `tools/dev setup --cuda` fetches it";
    }
  }

  StatusOr<Compiled> Compile(const std::string& source, const std::string& gpu = "sm_90",
                             const std::string& kernel = "scale") const {
    const CompileWork work{*Fragment::Cuda(source, kernel, "s.cu")};
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string request, EncodeRequest(work, Want::kObject));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string bytes,
                              Program(gpu, nvrtc_).Compile(request, "s.cu", Patiently()));
    LOCKSTEP_ASSIGN_OR_RETURN(
        const CompilerAnswer answer,
        DecodeAnswer({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "s.cu"));
    return answer.result;
  }
  std::string ErrorOf(const std::string& source) const {
    const auto compiled = Compile(source);
    EXPECT_EQ(compiled.status().code(), StatusCode::kInvalidArgument) << compiled.status();
    return Message(compiled.status());
  }
  // kScale with something else in the place of something.
  static std::string Changed(const std::string& from, const std::string& to) {
    std::string source = kScale;
    return source.replace(source.find(from), from.size(), to);
  }

  const std::string nvrtc_ = [] {
    const char* const file = std::getenv("LOCKSTEP_NVRTC");
    return std::string(file == nullptr ? "" : file);
  }();
};

TEST_F(CudaCompilerTest, CompilesForTheGpuThatIsNamed) {
  const auto identity = Program("sm_90", nvrtc_).Describe(Patiently());
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_THAT(identity->compiler, HasSubstr("NVRTC 1"));
  EXPECT_EQ(identity->processor, "sm_90");
  const auto compiled = Compile(kScale);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->compiler, *identity);
  EXPECT_EQ(compiled->signature.ToString(), "scale(float64[?], float64) -> (float64[?])");
  const std::string image(reinterpret_cast<const char*>(compiled->object.data()),
                          compiled->object.size());
  EXPECT_THAT(image, StartsWith("\x7f"
                                "ELF"));
  EXPECT_THAT(compiled->entry, HasSubstr("scale"));
  EXPECT_NE(image.find(".text." + compiled->entry), std::string::npos);
}

// Whatever the GPU is called by then.
TEST_F(CudaCompilerTest, LeavesNewerGpusToTheirDrivers) {
  const auto compiled = Compile(kScale, "sm_990");
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const std::string image(reinterpret_cast<const char*>(compiled->object.data()),
                          compiled->object.size());
  EXPECT_THAT(image, HasSubstr(".entry " + compiled->entry));
  EXPECT_EQ(Compile(kScale, "sm_10").status().code(), StatusCode::kUnimplemented);
}

TEST_F(CudaCompilerTest, CompilesWhatTestsSendToGpus) {
  const std::string source = support::ReadFile("tests/cuda_fragments/kernels.cu");
  for (const char* const kernel : {"scale", "sum", "scores", "places", "repeat", "crash"}) {
    const auto compiled = Compile(source, "sm_80", kernel);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
  }
}

TEST_F(CudaCompilerTest, ErrorsSayWhere) {
  EXPECT_EQ(ErrorOf(Changed("* by;", "* nope;")), "s.cu:4:19: identifier \"nope\" is undefined");
  EXPECT_THAT(ErrorOf(Changed("// lockstep:", "// lockstop:")),
              StartsWith("s.cu:1:1: no comment states what `scale` takes and gives"));
  EXPECT_THAT(ErrorOf("#include \"/etc/passwd\"\n" + std::string(kScale)), StartsWith("s.cu:1:"));
}

// What would read and write anywhere.
TEST_F(CudaCompilerTest, AKernelTakesWhatItsSignatureSays) {
  constexpr char kTakes[] =
      "s.cu:1:14: by its signature the kernel takes (const double* x, double by, double* y, "
      "int64_t n)";
  EXPECT_EQ(ErrorOf(Changed("double by, double* y", "float by, double* y")), kTakes);
  EXPECT_EQ(ErrorOf(Changed("const double* x", "double* x")), kTakes);
  EXPECT_EQ(ErrorOf(Changed(", int64_t n", ", int n")), kTakes);
  EXPECT_TRUE(Compile(Changed(", int64_t n", ", const long long n")).ok());
  EXPECT_TRUE(Compile("#define int64_t long long\n" + std::string(kScale)).ok());
  EXPECT_TRUE(Compile(Changed("double* y", "double* __restrict__ y")).ok());
  EXPECT_TRUE(Compile(kScale + std::string("// not continued \\")).ok());
  EXPECT_THAT(ErrorOf(Changed("__global__", "__device__")), HasSubstr("non-__global__"));
  EXPECT_THAT(ErrorOf(Changed("void scale", "void other")),
              HasSubstr("s.cu:1:14: identifier scale is undefined"));
}

TEST_F(CudaCompilerTest, MacrosOfTheSourceAreItsOwn) {
  const auto compiled = Compile(
      "#define T 16\n#define A 4\n#define B 8\n#define N 2\n#define type float\n"
      "#define value 1\n" +
      std::string(kScale));
  EXPECT_TRUE(compiled.ok()) << compiled.status();
}

}  // namespace
}  // namespace lockstep::fragment
