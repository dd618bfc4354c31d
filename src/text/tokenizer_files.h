// A model's tokenizer on disk: where it is, and into another model's folder.
#pragma once
#include <filesystem>

namespace openwork {

// Where a model's tokenizer is looked for: in itself, or, of a file that holds weights alone, in its folder.
std::filesystem::path tokenizer_place(const std::filesystem::path& model);

// From a model folder (tokenizer.json, or vocab.json and merges.txt, with the small files beside them: beginning
// and end tokens, the chat template), a tokenizer.json, or a .gguf file (or a folder with one), whose tokenizer is
// written as the files it was made from; of any other file, from its folder. Does nothing where there is none.
void copy_tokenizer(const std::filesystem::path& model, const std::filesystem::path& folder);

}  // namespace openwork
