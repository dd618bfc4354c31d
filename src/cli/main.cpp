// The program. Help, the version and the verbs that need no torch are answered here, in milliseconds; for every other
// verb it opens libopenwork.so, which knows torch (cli/library.cpp), and hands the command line on.
#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/verbs.h"

namespace openwork {
namespace {

constexpr const char* kLibrary =
    "libopenwork.so";  // beside the program or in ../lib: the program's RUNPATH says so

int run_with_torch(int argc, char** argv) {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  void* const entry = library ? dlsym(library, "openwork_main") : nullptr;
  if (entry) return reinterpret_cast<int (*)(int, char**)>(entry)(argc, argv);
  fmt::print(
      stderr,
      "openwork: error: {}; {}; build or install openwork again, or set LD_LIBRARY_PATH to torch/lib\n",
      dlerror(), kLibrary);
  return 1;
}

// The verbs that need no torch.
const Verbs& light_verbs() {
  static const Verbs verbs = {
      {"models", add_models_verb}, {"fetch", add_fetch_verb}, {"tokenize", add_tokenize_verb}};
  return verbs;
}

bool needs_torch(int argc, char** argv) {
  return argc >= 2 && is_verb(argv[1]) && !light_verbs().contains(argv[1]);
}

}  // namespace
}  // namespace openwork

int main(int argc, char** argv) {
  std::vector<char*> words = openwork::translate_help(argc, argv);
  const int count = static_cast<int>(words.size());
  words.push_back(nullptr);
  return openwork::needs_torch(count, words.data())
             ? openwork::run_with_torch(count, words.data())
             : openwork::run_program(count, words.data(), openwork::program_help(), openwork::light_verbs());
}
