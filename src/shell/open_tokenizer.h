// From a MODEL argument to its tokenizer, without torch.
#pragma once
#include <optional>
#include <string>

#include "text/tokenizer.h"

namespace openwork {

// The model's own tokenizer; the published Sparse GPT-2 has none and takes GPT-2's out of the cache.
Tokenizer open_tokenizer(const std::string& name);

// The same for what can do without: none where there is none.
std::optional<Tokenizer> find_tokenizer(const std::string& name);

}  // namespace openwork
