#include "tensorcask/tensor/memory/internal/cuda_driver.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/windows_api.h"

#ifndef _WIN32
#include <dlfcn.h>
#endif

namespace tensorcask::internal {
namespace {

std::string VersionText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

#ifdef _WIN32
// Not from the current folder, where any user may have put a file of this name.
void* OpenLibrary(const std::string& path) {
  return LoadLibraryExA(path.c_str(), nullptr, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
}
void* FindFunction(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}
std::string LoadError() { return absl::StrCat("error ", GetLastError()); }
#else
void* OpenLibrary(const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }
void* FindFunction(void* library, const char* name) { return dlsym(library, name); }
std::string LoadError() {
  const char* const error = dlerror();
  return error == nullptr ? "unknown error" : error;
}
#endif

}  // namespace

absl::StatusOr<CudaDriver> CudaDriver::Load(const std::string& library) {
  // The driver has threads of its own, so it is never closed.
  void* const handle = OpenLibrary(library);
  if (handle == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("CUDA: there is no driver library ", library, " (is NVIDIA's driver installed?): ", LoadError()));
  }
  CudaDriver driver;
  const char* missing = nullptr;
#define CASK_CUDA_FIND(name, ...)                                                           \
  driver.name = reinterpret_cast<CudaResult (*)(__VA_ARGS__)>(FindFunction(handle, #name)); \
  if (driver.name == nullptr && missing == nullptr) missing = #name;
  CASK_CUDA_FUNCTIONS(CASK_CUDA_FIND)
  const char* const missing_needed = std::exchange(missing, nullptr);
  CASK_CUDA_VIRTUAL_MEMORY_FUNCTIONS(CASK_CUDA_FIND)
  driver.has_virtual_memory = missing == nullptr;
#undef CASK_CUDA_FIND
  int version = 0;
  if (driver.cuDriverGetVersion != nullptr && driver.cuDriverGetVersion(&version) == kCudaSuccess &&
      version < kCudaMinVersion) {
    return absl::UnimplementedError(absl::StrCat("CUDA: ", library, " is of version ", VersionText(version), "; ",
                                                 VersionText(kCudaMinVersion), " or later is needed"));
  }
  if (missing_needed != nullptr) {
    return absl::UnimplementedError(absl::StrCat("CUDA: ", library, " has no function ", missing_needed));
  }
  return driver;
}

absl::Status CudaDriver::Check(CudaResult result, absl::string_view what) const {
  if (result == kCudaSuccess) return absl::OkStatus();
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != kCudaSuccess || name == nullptr) name = "unknown error";
  const std::string text = absl::StrCat(what, ": ", name, " (", result, ")");
  switch (result) {
    case kCudaOutOfMemory:
      return MarkResourceFailure(absl::ResourceExhaustedError(text));
    case kCudaInvalidValue:
    case kCudaInvalidDevice:
    case kCudaInvalidHandle:
      return absl::InvalidArgumentError(text);
    case kCudaNotSupported:
      return absl::UnimplementedError(text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace tensorcask::internal
