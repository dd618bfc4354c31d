// A model's tokenizer into another model's folder.
#pragma once
#include <filesystem>

namespace openwork {

// From a model folder (tokenizer.json, or vocab.json and merges.txt, with the small files beside them: beginning
// and end tokens, the chat template), a tokenizer.json, or a .gguf file (or a folder with one), whose tokenizer is
// written as the files it was made from. Does nothing where there is none.
void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& folder);

}  // namespace openwork
