#include "tests/fakes/cuda/kernels.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/kernels/bodies.h"

namespace lockstep::fake_cuda {
namespace {

template <typename Body>
constexpr FakeKernel KernelOf() {
  return {sizeof(Body), [](const void* body) { static_cast<const Body*>(body)->Run(0, 1); }};
}

// Those of runtime/cuda are known, others are looked for in the libraries of $FAKE_CUDA_KERNELS.
const FakeKernel* FindKernel(const std::string& name) {
  static const std::map<std::string, FakeKernel> own = {
      {cuda::Fill::kName, KernelOf<cuda::Fill>()},
      {cuda::Arange::kName, KernelOf<cuda::Arange>()},
      {cuda::Cast::kName, KernelOf<cuda::Cast>()},
  };
  const auto found = own.find(name);
  if (found != own.end()) return &found->second;
  const char* const libraries = std::getenv("FAKE_CUDA_KERNELS");
  std::istringstream files(libraries == nullptr ? "" : libraries);
  for (std::string file; std::getline(files, file, ':');) {
    void* const library = dlopen(file.c_str(), RTLD_NOW);
    if (library == nullptr) continue;
    const void* const kernel = dlsym(library, ("fake_kernel_" + name).c_str());
    if (kernel != nullptr) return static_cast<const FakeKernel*>(kernel);
  }
  return nullptr;
}

// What a launch knows a kernel by; it stays.
CUfunction FunctionOf(const FakeKernel* kernel, const FakeFunction* function) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::pair<const void*, const void*>, CUfunc_st>;
  std::lock_guard lock(mutex);
  return &known->insert({{kernel, function}, CUfunc_st{kernel, function}}).first->second;
}

// An image that is a shared object: where it ends is told by what comes last in it.
CUresult LoadLibraryOf(const void* image, void** library) {
  const auto& header = *static_cast<const Elf64_Ehdr*>(image);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return CUDA_SUCCESS;
  if (header.e_type != ET_DYN) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  const size_t size = header.e_shoff + size_t{header.e_shentsize} * header.e_shnum;
  const int file = memfd_create("fake-image", MFD_CLOEXEC);
  if (file < 0 || write(file, image, size) != static_cast<ssize_t>(size)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // The file stays open: the path of another one would be taken for the same library.
  *library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW);
  if (*library == nullptr) std::fprintf(stderr, "fake libcuda: %s\n", dlerror());
  return *library == nullptr ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}

// A kernel's parameters, with device addresses as the fake reaches them. Whatever looks like one is
// one: bodies are made of words, and the memory lies where no number comes near, nor an int and
// what is in the padding behind it.
std::vector<uint64_t> Translated(const void* parameters, size_t size_bytes) {
  std::vector<uint64_t> words(size_bytes / 8 + 1);
  std::memcpy(words.data(), parameters, size_bytes);
  for (uint64_t& word : words) {
    word = reinterpret_cast<uint64_t>(fake_cuda_host_view(reinterpret_cast<void*>(word)));
  }
  return words;
}

std::vector<uint64_t> Translated(const FakeFunction& function, void** parameters) {
  std::vector<uint64_t> words(function.parameters);
  for (size_t i = 0; i < words.size(); ++i) {
    std::memcpy(&words[i], parameters[i], function.parameter_bytes[i]);
    words[i] = reinterpret_cast<uint64_t>(fake_cuda_host_view(reinterpret_cast<void*>(words[i])));
  }
  return words;
}

}  // namespace

CUresult LoadModule(const void* image, CUmod_st* module) {
  return LoadLibraryOf(image, &module->library);
}

CUresult FindFunction(const CUmod_st& module, const char* name, CUfunction* function) {
  if (module.library != nullptr) {
    const void* const found = dlsym(module.library, (std::string("fake_function_") + name).c_str());
    if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
    *function = FunctionOf(nullptr, static_cast<const FakeFunction*>(found));
    return CUDA_SUCCESS;
  }
  const FakeKernel* const kernel = FindKernel(name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = FunctionOf(kernel, nullptr);
  return CUDA_SUCCESS;
}

std::function<void()> LaunchOf(CUfunction function, unsigned blocks, unsigned threads,
                               void** parameters) {
  if (const FakeFunction* const own = function->function) {
    return [own, blocks, threads, words = Translated(*own, parameters)] {
      own->run(words.data(), blocks, threads);
    };
  }
  const FakeKernel* const kernel = function->kernel;
  return [kernel, words = Translated(parameters[0], kernel->parameter_bytes)] {
    kernel->run(words.data());
  };
}

}  // namespace lockstep::fake_cuda
