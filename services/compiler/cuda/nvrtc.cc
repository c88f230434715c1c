#include "services/compiler/cuda/nvrtc.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "absl/cleanup/cleanup.h"

namespace lockstep::compiler {
namespace {

// As nvrtc.h has them, in all versions.
using Program = struct NvrtcProgram*;
constexpr int kSuccess = 0;
constexpr int kOutOfMemory = 1;
constexpr int kCompilation = 6;

// What files of the system would tell, of which there are none.
constexpr char kIntegers[] = R"(#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
)";

// Where the library lies that a handle is of.
std::filesystem::path FileOf(void* handle) {
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  return map->l_name;
}

StatusOr<void*> Open(const std::string& file) {
  const std::vector<std::string> files =
      file.empty() ? std::vector<std::string>{"libnvrtc.so.13", "libnvrtc.so.12"}
                   : std::vector<std::string>{file};
  std::string why;
  for (const std::string& name : files) {
    if (void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    if (why.empty()) why = dlerror();
  }
  return Unavailable("NVRTC is not here (", why,
                     "); install it (it comes with the CUDA toolkit, or as the package "
                     "nvidia-cuda-nvrtc of Python's), or say where it is (nvrtc_library)");
}

}  // namespace

struct Nvrtc::Functions {
  const char* (*error_string)(int);
  int (*version)(int*, int*);
  int (*num_architectures)(int*);
  int (*architectures)(int*);
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(Program*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*add_name)(Program, const char*);
  int (*lowered_name)(Program, const char*, const char**);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
};

StatusOr<Nvrtc> Nvrtc::Load(const std::string& file) {
  LOCKSTEP_ASSIGN_OR_RETURN(void* const handle, Open(file));
  auto functions = std::make_shared<Functions>();
  std::string missing;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
    if (*function == nullptr) missing = name;
  };
  find("nvrtcGetErrorString", &functions->error_string);
  find("nvrtcVersion", &functions->version);
  find("nvrtcGetNumSupportedArchs", &functions->num_architectures);
  find("nvrtcGetSupportedArchs", &functions->architectures);
  find("nvrtcCreateProgram", &functions->create);
  find("nvrtcDestroyProgram", &functions->destroy);
  find("nvrtcCompileProgram", &functions->compile);
  find("nvrtcGetProgramLogSize", &functions->log_size);
  find("nvrtcGetProgramLog", &functions->log);
  find("nvrtcAddNameExpression", &functions->add_name);
  find("nvrtcGetLoweredName", &functions->lowered_name);
  find("nvrtcGetCUBINSize", &functions->cubin_size);
  find("nvrtcGetCUBIN", &functions->cubin);
  find("nvrtcGetPTXSize", &functions->ptx_size);
  find("nvrtcGetPTX", &functions->ptx);
  const std::filesystem::path found = FileOf(handle);
  if (!missing.empty()) {
    return Unavailable(found.string(), " has no ", missing, ": it is older than NVRTC 11.2");
  }
  Nvrtc nvrtc(std::move(functions));
  const Functions& f = *nvrtc.functions_;
  int major = 0;
  int minor = 0;
  LOCKSTEP_RETURN_IF_ERROR(nvrtc.Check(f.version(&major, &minor), "nvrtcVersion"));
  nvrtc.version_ = std::to_string(major) + "." + std::to_string(minor);
  // It opens this by name when it compiles, and takes what is loaded under that name.
  const std::string builtins = "libnvrtc-builtins.so." + nvrtc.version_;
  if (dlopen((found.parent_path() / builtins).c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr &&
      dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    return Unavailable("NVRTC lacks a part of it: ", dlerror());
  }
  int count = 0;
  LOCKSTEP_RETURN_IF_ERROR(nvrtc.Check(f.num_architectures(&count), "nvrtcGetNumSupportedArchs"));
  nvrtc.architectures_.resize(static_cast<size_t>(count));
  LOCKSTEP_RETURN_IF_ERROR(
      nvrtc.Check(f.architectures(nvrtc.architectures_.data()), "nvrtcGetSupportedArchs"));
  std::sort(nvrtc.architectures_.begin(), nvrtc.architectures_.end());
  return nvrtc;
}

Status Nvrtc::Check(int result, const char* call) const {
  if (result == kSuccess) return OkStatus();
  return MakeStatus(result == kOutOfMemory ? StatusCode::kResourceExhausted : StatusCode::kInternal,
                    "NVRTC: ", call, ": ", functions_->error_string(result));
}

StatusOr<KernelImage> Nvrtc::Compile(const KernelSource& source, int architecture,
                                     std::string* log) const {
  // Code for a GPU runs on all that share its major number and are newer; on others, what the
  // driver compiles from the text (PTX).
  const auto above = std::upper_bound(architectures_.begin(), architectures_.end(), architecture);
  if (above == architectures_.begin()) {
    return Unimplemented("NVRTC ", version_, " does not compile for compute capability ",
                         architecture / 10, ".", architecture % 10, " any more");
  }
  const int target = *std::prev(above);
  const bool is_code = target / 10 == architecture / 10;
  const std::string target_option =
      std::string("--gpu-architecture=") + (is_code ? "sm_" : "compute_") + std::to_string(target);
  const std::array<const char*, 3> options = {target_option.c_str(), "--std=c++20",
                                              "--pre-include=cstdint"};
  const std::array<const char*, 2> headers = {kIntegers, kIntegers};
  const std::array<const char*, 2> header_names = {"cstdint", "stdint.h"};

  const Functions& f = *functions_;
  Program program = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(Check(f.create(&program, source.text.c_str(), "fragment", headers.size(),
                                          headers.data(), header_names.data()),
                                 "nvrtcCreateProgram"));
  const absl::Cleanup destroy = [&] { f.destroy(&program); };
  LOCKSTEP_RETURN_IF_ERROR(
      Check(f.add_name(program, source.kernel.c_str()), "nvrtcAddNameExpression"));
  const int compiled = f.compile(program, options.size(), options.data());
  if (compiled == kCompilation) {
    size_t size = 0;
    LOCKSTEP_RETURN_IF_ERROR(Check(f.log_size(program, &size), "nvrtcGetProgramLogSize"));
    log->resize(size);
    LOCKSTEP_RETURN_IF_ERROR(Check(f.log(program, log->data()), "nvrtcGetProgramLog"));
    return KernelImage();
  }
  LOCKSTEP_RETURN_IF_ERROR(Check(compiled, "nvrtcCompileProgram"));

  KernelImage image;
  const char* entry = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(
      Check(f.lowered_name(program, source.kernel.c_str(), &entry), "nvrtcGetLoweredName"));
  image.entry = entry;
  size_t size = 0;
  LOCKSTEP_RETURN_IF_ERROR(
      Check((is_code ? f.cubin_size : f.ptx_size)(program, &size), "nvrtcGetCUBINSize"));
  image.bytes.resize(size);
  LOCKSTEP_RETURN_IF_ERROR(
      Check((is_code ? f.cubin : f.ptx)(program, image.bytes.data()), "nvrtcGetCUBIN"));
  return image;
}

}  // namespace lockstep::compiler
