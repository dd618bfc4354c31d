// Where models lie on this machine: the folders of built-in models, openwork's own cache of fetched ones, and
// the Hugging Face cache shared with Python's tools. All of it follows from the environment:
//   built-in  OPENWORK_MODELS (several, colon separated), then models/ beside the program, one folder up, or
//   in
//             the install's share/openwork/models; in another program's process, where that says
//   fetched   OPENWORK_CACHE, else XDG_CACHE_HOME/openwork, else ~/.cache/openwork
//   hub       HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else
//   ~/.cache/huggingface/hub
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace openwork {

struct ModelPlaces {
  std::vector<std::filesystem::path> builtin;  // searched in this order; some may not exist
  std::filesystem::path fetched;               // empty where neither the variables nor HOME are set
  std::filesystem::path hub;                   // likewise
};

ModelPlaces find_model_places();

// Where the process is not the program: built-in models are in this folder.
void set_builtin_folder(const std::filesystem::path& folder);

// The variable's value, or "" when it is unset or empty.
std::string environment_value(const char* name);

}  // namespace openwork
