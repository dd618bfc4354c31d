// Finds and loads the GPU kernels: libopenwork_ops_cuda.so in this library's own folder, after libtorch's
// CUDA part. Order matters: torch caches whether it has CUDA at the first question, so its CUDA library must
// be there before. Whatever is missing (file, driver, CUDA libraries), the CPU kernels go on working.
#include <dlfcn.h>

#include <filesystem>
#include <mutex>

#include "ops/gated_attention.h"
#include "ops/recording.h"

namespace openwork {
namespace {

// The folder this library was loaded from.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&load_cuda_operators), &info) == 0 || !info.dli_fname) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

// True once both libraries are in the process. `extra` is RTLD_NOLOAD to take torch's CUDA part only if the
// process has it already.
bool load_libraries(int extra) {
  std::error_code ignored;
  const auto kernels = own_folder() / "libopenwork_ops_cuda.so";
  if (!std::filesystem::exists(kernels, ignored)) return false;
  if (!dlopen("libcuda.so.1", RTLD_LAZY)) return false;  // no driver, no GPU
  if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL | extra)) return false;
  return dlopen(kernels.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr;
}

// The kernels' library, which is in the process already.
void* loaded_library() {
  return dlopen((own_folder() / "libopenwork_ops_cuda.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
}

// In a Python process torch is loaded whole before torch.ops.load_library, so the kernels come along with
// this library. A program without it decides for itself, by calling load_cuda_operators.
const bool loaded_beside_torch = load_libraries(RTLD_NOLOAD);

}  // namespace

bool load_cuda_operators() {
  static const bool loaded = loaded_beside_torch || load_libraries(0);
  return loaded;
}

std::unique_ptr<Recorder> make_recorder(const at::Device& device) {
  using Make = Recorder*(const at::Device&);
  if (!device.is_cuda() || !load_cuda_operators()) return nullptr;
  static const auto make = reinterpret_cast<Make*>(dlsym(loaded_library(), "openwork_make_cuda_recorder"));
  return std::unique_ptr<Recorder>(make ? make(device) : nullptr);
}

}  // namespace openwork
