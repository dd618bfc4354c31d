// Models from the Hugging Face hub, or whatever HF_ENDPOINT names. HF_TOKEN is sent to that server only;
// HF_HUB_OFFLINE=1 forbids all of it. What happens, in phases:
//   1. list      GET  /api/models/REPO/revision/REVISION    the commit and the names of its files
//   2. choose    plan_files: configuration, tokenizer, one form of the weights
//   3. describe  HEAD /REPO/resolve/COMMIT/FILE             its hash (X-Linked-Etag, else ETag) and size
//   4. bring     GET  the same, resumed, checked, then put in place
#pragma once
#include <string>
#include <vector>

#include "io/fetch.h"
#include "io/hub_cache.h"

namespace openwork {

FetchedModel fetch_from_hub(const HubName& name, const FetchOptions& options);

// Which of a repository's files to bring. Only files at its top count. Weights come in one form: safetensors,
// else PyTorch's, else a GGUF; `index` names the shards and is read once it is here.
struct FilePlan {
  std::vector<std::string> small;    // configuration and tokenizer, the index too
  std::string index;                 // "" where the weights are not sharded
  std::vector<std::string> weights;  // empty where there is an index
  std::vector<std::string> adapter;  // adapter_model.safetensors and the like
};

// `wanted` chooses among several GGUF files. Fails where there are no weights, or several and no choice.
FilePlan plan_files(const std::vector<std::string>& names, const std::string& wanted,
                    const std::string& origin);

// The shards an index's text lists, each once, sorted; each must be among `names`.
std::vector<std::string> read_shard_names(const std::string& index_text,
                                          const std::vector<std::string>& names, const std::string& origin);

}  // namespace openwork
