#include "train/batches.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "base/philox.h"
#include "base/progress.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/safe_files.h"
#include "io/sha256.h"
#include "text/documents.h"
#include "text/token_shard.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kOneIn = 250;

// Who is held out: documents whose hash says so, or those of a file.
struct HeldOutRule {
  uint64_t so_many = 1, of = kOneIn;
  fs::path file;
  std::unordered_set<uint64_t> hashes;

  bool holds(uint64_t hash) const {
    return file.empty() ? is_held_out(hash, of, so_many) : hashes.contains(hash);
  }
};

HeldOutRule read_rule(const std::string& held_out) {
  HeldOutRule rule;
  if (held_out.empty()) return rule;
  double share = 0;
  const char* const end = held_out.data() + held_out.size();
  const auto [stop, error] = std::from_chars(held_out.data(), end, share);
  if (error != std::errc() || stop != end) {
    rule.file = held_out;
    return rule;
  }
  if (!(share > 0 && share <= 0.5)) {
    fail_input(fmt::format("a share of {}", printable(held_out, 40)), "--held-out",
               "give a file or a share up to 0.5");
  }
  rule.of = static_cast<uint64_t>(std::llround(1 / share));
  if (std::abs(share * static_cast<double>(rule.of) - 1) > 1e-3) {
    constexpr uint64_t kParts = 1'000'000;
    rule.so_many = static_cast<uint64_t>(std::llround(share * kParts)), rule.of = kParts;
  }
  return rule;
}

nlohmann::json describe_file(const fs::path& path) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  if (error) fail_input("the data file cannot be read", path.string(), "check its name");
  return {{"file", path.filename().string()}, {"bytes", size}, {"sha256", sha256_of_file(path)}};
}

// Of everything but the files' names: the same for the same tokens in the same order.
std::string hash_content(nlohmann::json description) {
  for (nlohmann::json& file : description["files"]) file.erase("file");
  description["held_out"].erase("file");
  return sha256_of_bytes(description.dump());
}

nlohmann::json describe(const DataOptions& options, const HeldOutRule& rule, const Tokenizer& tokenizer,
                        int32_t end_of_text) {
  nlohmann::json files = nlohmann::json::array();
  for (const fs::path& path : options.files) files.push_back(describe_file(path));
  nlohmann::json held_out = {{"one_in", rule.of}};
  if (rule.so_many > 1) held_out = {{"so_many", rule.so_many}, {"of", rule.of}};
  if (!rule.file.empty()) held_out = describe_file(rule.file);
  nlohmann::json description = {{"files", files},
                                {"held_out", held_out},
                                {"max_tokens", options.max_tokens},
                                {"vocabulary", tokenizer.size()},
                                {"vocabulary_hash", hash_vocabulary(tokenizer)},
                                {"end_of_text", end_of_text}};
  description["content"] = hash_content(description);
  return description;
}

// What data.json says beyond the description: how much there is.
bool is_made_from(const fs::path& folder, const nlohmann::json& description) {
  const fs::path path = folder / "data.json";
  if (!fs::exists(path)) return false;
  const nlohmann::json found = read_json_file(path);
  for (const auto& [key, value] : description.items()) {
    if (!found.is_object() || found.value(key, nlohmann::json()) != value) return false;
  }
  return true;
}

// Fails where the folder's shards say that they were made from something else.
void check_content(const fs::path& folder, const nlohmann::json& description) {
  const fs::path path = folder / "data.json";
  if (!fs::exists(path)) return;
  const nlohmann::json found = read_json_file(path);
  const std::string before = found.is_object() ? found.value("content", "") : "";
  if (before.empty() || before == description.at("content")) return;
  fail_input("the data is not what the run to resume was trained on", folder.string(),
             "resume with the data and the tokenizer of the run, or choose another --out");
}

class ShardMaker {
 public:
  ShardMaker(const Tokenizer& tokenizer, int32_t end_of_text, int64_t vocabulary)
      : tokenizer_(tokenizer),
        end_of_text_(end_of_text),
        vocabulary_(vocabulary),
        train_(tokenizer, end_of_text),
        held_out_(tokenizer, end_of_text) {}

  // First the held-out file, so that its documents are known when the training files come by.
  void read_held_out_file(HeldOutRule& rule) {
    for_each_token_document({rule.file}, &tokenizer_, end_of_text_, [&](TokenDocument&& document) {
      rule.hashes.insert(document.hash);
      add(document, held_out_, held_out_tokens_);
      return true;
    });
  }

  void read_files(const DataOptions& options, const HeldOutRule& rule) {
    Progress progress("tokenise", 0, " tokens");
    for_each_token_document(options.files, &tokenizer_, end_of_text_, [&](TokenDocument&& document) {
      if (!rule.holds(document.hash)) {
        add(document, train_, train_tokens_);
      } else if (rule.file.empty()) {
        add(document, held_out_, held_out_tokens_);
      }
      progress.set(static_cast<uint64_t>(train_tokens_));
      return options.max_tokens == 0 || train_tokens_ < options.max_tokens;
    });
  }

  // Fails where there is too little to train on or to measure.
  void check(int64_t context, const fs::path& origin) const {
    if (train_tokens_ == 0) fail_input("no documents to train on", origin.string(), "give more data");
    if (held_out_tokens_ == 0) {
      fail_input("no document is held out, so that nothing can be measured", origin.string(),
                 "give more documents, a larger share or a file with --held-out");
    }
    const auto fewest = std::min(train_tokens_, held_out_tokens_);
    if (context > 0 && fewest < context + 1) {
      fail_input(fmt::format("{} {} tokens are fewer than one block of {} and its next token", fewest,
                             fewest == train_tokens_ ? "training" : "held-out", context),
                 origin.string(), "give more data, or a smaller --context");
    }
  }

  nlohmann::json write(const PreparedData& data) const {
    train_.write(data.train);
    held_out_.write(data.held_out);
    return {{"train_tokens", train_tokens_},
            {"train_documents", train_.documents()},
            {"held_out_tokens", held_out_tokens_},
            {"held_out_documents", held_out_.documents()}};
  }

 private:
  void add(const TokenDocument& document, TokenShardWriter& writer, int64_t& tokens) const {
    for (const int32_t token : document.tokens) {
      if (token < 0 || token >= vocabulary_) {
        fail_input(fmt::format("token id {}, but the model knows {}", token, vocabulary_), "--data",
                   "the tokenizer and the model do not belong together");
      }
    }
    writer.add(document);
    tokens += static_cast<int64_t>(document.tokens.size());
  }

  const Tokenizer& tokenizer_;
  int32_t end_of_text_;
  int64_t vocabulary_, train_tokens_ = 0, held_out_tokens_ = 0;
  TokenShardWriter train_, held_out_;
};

}  // namespace

PreparedData prepare_data(const DataOptions& options, const Tokenizer& tokenizer, int32_t end_of_text,
                          int64_t vocabulary) {
  if (options.files.empty()) fail_input("no data files", "--data", "give at least one");
  HeldOutRule rule = read_rule(options.held_out);
  PreparedData data{options.folder / "train.safetensors", options.folder / "held_out.safetensors",
                    describe(options, rule, tokenizer, end_of_text)};
  const bool made =
      is_made_from(options.folder, data.description) && fs::exists(data.train) && fs::exists(data.held_out);
  if (!made) {
    if (options.resumed) check_content(options.folder, data.description);
    ShardMaker maker(tokenizer, end_of_text, vocabulary);
    if (!rule.file.empty()) maker.read_held_out_file(rule);
    maker.read_files(options, rule);
    maker.check(options.context, options.files.front());  // before a folder is made for nothing
    std::error_code ignored;
    make_folder(options.folder);
    fs::remove(options.folder / "data.json", ignored);  // says nothing while the shards change
    data.description.update(maker.write(data));
    write_text_file(options.folder / "data.json", data.description.dump(1) + "\n");
  }
  return open_data(options.folder);
}

PreparedData open_data(const fs::path& folder) {
  return {folder / "train.safetensors", folder / "held_out.safetensors",
          read_json_file(folder / "data.json")};
}

std::function<bool(std::string_view)> held_out_texts(const DataOptions& options) {
  HeldOutRule rule = read_rule(options.held_out);
  if (!rule.file.empty()) {
    for_each_document({rule.file}, [&](std::string_view text) {
      rule.hashes.insert(hash_document(text));
      return true;
    });
  }
  return [rule](std::string_view text) { return rule.holds(hash_document(text)); };
}

Batches::Batches(const fs::path& shard, int64_t context, uint64_t seed)
    : file_(open_weights(shard)), tokens_(&file_->at("tokens")), context_(context), seed_(seed) {
  if (tokens_->dtype != DType::kU16 && tokens_->dtype != DType::kI32) {
    fail_input(fmt::format("tokens of dtype {}", dtype_name(tokens_->dtype)), shard.string(),
               "make the shard again");
  }
  blocks_ = (tokens_->element_count() - 1) / context_;
  if (blocks_ < 1) {
    fail_input(
        fmt::format("{} training tokens are fewer than one block of {}", tokens_->element_count(), context_),
        shard.string(), "give more data or a smaller --context");
  }
}

int64_t Batches::block_of(int64_t sample) {
  const int64_t epoch = sample / blocks_;
  if (epoch != epoch_) {
    order_.resize(static_cast<size_t>(blocks_));
    std::iota(order_.begin(), order_.end(), 0);
    const uint64_t key = mix_seed(mix_seed(seed_, 0x6f72646572), static_cast<uint64_t>(epoch));
    for (size_t n = order_.size(); n > 1; --n)
      std::swap(order_[n - 1], order_[mix_seed(key, n) % n]);  // Fisher-Yates
    epoch_ = epoch;
  }
  return order_[static_cast<size_t>(sample % blocks_)];
}

at::Tensor Batches::read(int64_t first, int64_t count) {
  at::Tensor result = at::empty({count, context_ + 1}, at::kLong);
  int64_t* out = result.data_ptr<int64_t>();
  const auto copy = [&](const auto* tokens, int64_t sample) {
    const auto* start = tokens + block_of(sample) * context_;
    out = std::copy(start, start + context_ + 1, out);
  };
  for (int64_t sample = first; sample < first + count; ++sample) {
    if (tokens_->dtype == DType::kU16) {
      copy(reinterpret_cast<const uint16_t*>(tokens_->bytes.data()), sample);
    } else {
      copy(reinterpret_cast<const int32_t*>(tokens_->bytes.data()), sample);
    }
  }
  return result;
}

}  // namespace openwork
