// A model's tokenizer into another model's folder.
#pragma once
#include <filesystem>

namespace openwork {

// From a model folder (tokenizer.json and the small files beside it, or vocab.json and merges.txt), a
// tokenizer.json, or a .gguf file, whose tokenizer is written as the tokenizer.json it was made from. Does
// nothing where there is none.
void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& folder);

}  // namespace openwork
