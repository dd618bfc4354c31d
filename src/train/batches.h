// Training data. The documents are tokenised once, in order, into token shards in the run's own folder:
//   data/train.safetensors      all documents but the held-out ones
//   data/held_out.safetensors   the held-out ones: one in 250 by hash, another share, or those of a file
//   data/data.json              what the two were made from
// Documents, each with its end-of-text token, are joined and cut into blocks of context + 1 tokens (the last
// token of one is the first of the next). The order of blocks is a permutation drawn from (seed, epoch), so
// that the n-th sample of a run is a pure function of n: a resumed run, another number of ranks or of
// micro-batches reads the same samples, and a checkpoint's data position is its step. The shard is mapped;
// memory holds one permutation.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensor_file.h"
#include "text/tokenizer.h"

namespace openwork {

struct DataOptions {
  std::vector<std::filesystem::path> files;
  std::string held_out;          // empty: one document in 250; a share such as 0.01; or a file
  int64_t max_tokens = 0;        // stop reading after this many training tokens; 0: read everything
  std::filesystem::path folder;  // where the shards go
  int64_t context = 0;           // a block's tokens: data for less than one is refused; 0: not asked
  bool resumed = false;  // shards of other content are a run's that is to go on: refuse, do not replace
};

struct PreparedData {
  std::filesystem::path train, held_out;  // token shards
  nlohmann::json description;             // data.json; its "content" is a hash of all but the files' names
};

// Uses the shards that are there when they were made from the same content in the same way. A document of a
// held-out file is never among the training documents, whatever files it stands in. Fails where nothing is
// held out.
PreparedData prepare_data(const DataOptions& options, const Tokenizer& tokenizer, int32_t end_of_text,
                          int64_t vocabulary);

// What prepare_data left in the folder: of the other ranks, once the first has prepared it.
PreparedData open_data(const std::filesystem::path& folder);

// Whether a document's text is held out by these options: what learns from the data (a tokenizer, say) leaves
// it out. Reads the held-out file where one is named.
std::function<bool(std::string_view)> held_out_texts(const DataOptions& options);

class Batches {
 public:
  // Fails where the shard holds no whole block.
  Batches(const std::filesystem::path& shard, int64_t context, uint64_t seed);

  int64_t blocks() const { return blocks_; }  // in an epoch
  int64_t context() const { return context_; }
  // Samples [first, first + count) of the run: [count, context + 1] int64, on the CPU.
  at::Tensor read(int64_t first, int64_t count);
  // The block that is sample n of the run.
  int64_t block_of(int64_t sample);

 private:
  std::unique_ptr<TensorFile> file_;
  const TensorEntry* tokens_ = nullptr;
  int64_t context_, blocks_ = 0, epoch_ = -1;
  uint64_t seed_;
  std::vector<int64_t> order_;  // of epoch_
};

}  // namespace openwork
