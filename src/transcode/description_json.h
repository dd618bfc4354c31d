// features.json.zst as it is read, without torch:
//   {"version": 1, "model", "model_sha256", "tokens",
//    "layers": [[{"max", "density", "contexts": [{"tokens", "activations", "peak"}], "top", "bottom"}]]}
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>

namespace openwork {

// Unpacked and of that form: every key there, of its kind, token ids from 0 on, every context's activations as many as
// its tokens, its peak one of them. Fails in one line on any other file, and where read_packed_json does.
nlohmann::json read_descriptions_json(const std::filesystem::path& file);

}  // namespace openwork
