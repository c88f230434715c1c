// An example's module, loaded and called as a worker does it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/support/find_file.h"
#include "gtest/gtest.h"
#include "runtime/base/status.h"
#include "runtime/module/module.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::examples {

class LoadedModule {
 public:
  // `repo_path` is where the library is built, relative to the repository's root.
  explicit LoadedModule(const std::string& repo_path)
      : allocator_(tensor::NewHeapAllocator()), host_(tensor::NewHostProcessor(*allocator_)) {
    const StatusOr<std::string> path = FindFile(repo_path);
    EXPECT_TRUE(path.ok()) << path.status();
    if (!path.ok()) return;
    auto module = module::LoadModule(*path, {std::filesystem::path(*path).parent_path().string()});
    EXPECT_TRUE(module.ok()) << module.status();
    if (module.ok()) module_ = *std::move(module);
  }

  // Calls function `name`.
  StatusOr<registers::Value> Call(const std::string& name,
                                  const std::vector<registers::Value>& args) const {
    if (module_ == nullptr) return FailedPrecondition("the module was not loaded");
    LOCKSTEP_ASSIGN_OR_RETURN(const auto function, module_->GetFunction(name));
    module::CallContext context;
    context.host = host_.get();
    registers::Value result;
    LOCKSTEP_RETURN_IF_ERROR(function->Call(context, args, &result));
    return result;
  }

  template <typename T>
  tensor::Tensor MakeTensor(const Shape& shape, const std::vector<T>& elements) const {
    auto tensor = tensor::Tensor::Empty(*allocator_, DTypeOf<T>::value, shape);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(static_cast<size_t>(tensor->NumElements()), elements.size());
    std::copy(elements.begin(), elements.end(), tensor->template data_as<T>());
    return *std::move(tensor);
  }

 private:
  std::shared_ptr<tensor::Allocator> allocator_;
  std::unique_ptr<tensor::Processor> host_;
  std::shared_ptr<module::Module> module_;
};

// The elements of a call's result; empty, and a failure, if it is no tensor of T.
template <typename T>
std::vector<T> Elements(const StatusOr<registers::Value>& result) {
  EXPECT_TRUE(result.ok()) << result.status();
  const auto* tensor = result.ok() ? result->As<tensor::Tensor>() : nullptr;
  EXPECT_NE(tensor, nullptr);
  if (tensor == nullptr) return {};
  EXPECT_EQ(tensor->dtype(), DTypeOf<T>::value);
  const T* begin = tensor->template data_as<T>();
  return std::vector<T>(begin, begin + tensor->NumElements());
}

}  // namespace lockstep::examples
