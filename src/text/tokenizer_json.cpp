#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/specification.h"
#include "text/tokenizer_parts.h"

namespace openwork {
namespace {

using nlohmann::json;
using Ids = std::unordered_map<std::string, int32_t>;

// Ids may leave gaps, but a file cannot ask for more memory than this many tokens it does not name.
constexpr int64_t kMostUnusedIds = 65536;
constexpr const char* kAdvice = "check the tokenizer file";

const json& field_or_null(const json& object, const char* name) {
  static const json kNull;
  const auto it = object.find(name);
  return it == object.end() ? kNull : *it;
}

Ids read_vocabulary(const json& model, const std::string& where) {
  const json& vocabulary = field_or_null(model, "vocab");
  if (!vocabulary.is_object()) fail_input("the model has no \"vocab\" object", where, kAdvice);
  const auto limit = static_cast<int64_t>(vocabulary.size()) + kMostUnusedIds;
  Ids ids;
  ids.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= limit)
      fail_input(fmt::format("token {} has id {}, not a number from 0 to {}", printable(token),
                             printable(id.dump()), limit - 1),
                 where, kAdvice);
    ids.emplace(token, id.get<int32_t>());
  }
  return ids;
}

int32_t id_of_part(const Ids& ids, const std::string& token, size_t rank, const std::string& where) {
  const auto it = ids.find(token);
  if (it == ids.end())
    fail_input(fmt::format("merge {} needs token {}, which is not in the vocabulary", rank, printable(token)),
               where, kAdvice);
  return it->second;
}

// A merge is "left right" or ["left", "right"].
std::pair<std::string, std::string> read_merge(const json& merge, size_t rank, const std::string& where) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  fail_input(fmt::format("merge {} is not two tokens: {}", rank, printable(merge.dump(-1, ' ', true))), where,
             kAdvice);
}

std::vector<Merge> read_merges(const json& model, const Ids& ids, const std::string& where) {
  std::vector<Merge> merges;
  const json& list = read_list(model, "merges", where);
  merges.reserve(list.size());
  for (const json& item : list) {
    const size_t rank = merges.size();
    if (item.is_string() && item.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = read_merge(item, rank, where);
    merges.push_back({id_of_part(ids, left, rank, where), id_of_part(ids, right, rank, where),
                      id_of_part(ids, left + right, rank, where)});
  }
  return merges;
}

// Refuses what changes tokens in ways that are not supported.
void check_model(const json& model, const std::string& where) {
  if (!model.is_object()) fail_input("the tokenizer has no \"model\"", where, "name a tokenizer.json file");
  if (model.contains("type") && model["type"] != "BPE")
    fail_input(
        fmt::format("tokenizer model {} is not supported", printable(model["type"].dump(-1, ' ', true))),
        where, "use a byte-level BPE tokenizer");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const json& value = field_or_null(model, name); !value.is_null() && value != "")
      fail_input(fmt::format("BPE with {} is not supported", name), where, "use a byte-level BPE tokenizer");
  if (const json& dropout = field_or_null(model, "dropout"); !dropout.is_null() && dropout != 0)
    fail_input("BPE dropout is not supported", where, "set \"dropout\" to null");
}

BytePairs read_pairs(const json& model, const Ids& ids, const std::vector<std::string>& bytes,
                     const std::string& where) {
  BytePairs::Options options;
  options.whole_words = read_flag(model, "ignore_merges", false, where);
  options.fuse_unknown = read_flag(model, "fuse_unk", false, where);
  if (!field_or_null(model, "unk_token").is_null()) {
    const auto it = ids.find(read_text(model, "unk_token", where));
    if (it == ids.end()) fail_input("\"unk_token\" is not in the vocabulary", where, kAdvice);
    options.unknown = it->second;
  }
  BytePairs pairs(bytes, read_merges(model, ids, where), options);
  if (read_flag(model, "byte_fallback", false, where) && !pairs.has_every_byte())
    fail_input("byte_fallback with a vocabulary that lacks some bytes is not supported", where,
               "use a byte-level BPE tokenizer");
  return pairs;
}

AddedToken read_added_token(const json& item, const std::string& where) {
  AddedToken token;
  token.content = read_text(item, "content", where);
  token.special = read_flag(item, "special", false, where);
  token.single_word = read_flag(item, "single_word", false, where);
  token.strip_left = read_flag(item, "lstrip", false, where);
  token.strip_right = read_flag(item, "rstrip", false, where);
  token.normalised = read_flag(item, "normalized", !token.special, where);
  return token;
}

// As the tokenizers package has it: a token that the vocabulary holds keeps its id, others take the next
// ones.
std::vector<AddedToken> read_added_tokens(const json& tokenizer, Ids& ids, const std::string& where) {
  std::vector<AddedToken> tokens;
  if (field_or_null(tokenizer, "added_tokens").is_null()) return tokens;
  auto next = static_cast<int32_t>(ids.size());
  for (const json& item : read_list(tokenizer, "added_tokens", where)) {
    AddedToken token = read_added_token(item, where);
    if (token.content.empty()) continue;
    const auto [it, is_new] = ids.emplace(token.content, next);
    if (is_new) ++next;
    token.id = it->second;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Each token's bytes by id, where its written form is of the byte alphabet (`plain` false), or as people see
// it.
std::vector<std::string> bytes_by_id(const Ids& ids, bool plain, const std::string& where) {
  int32_t largest = -1;
  for (const auto& [token, id] : ids) largest = std::max(largest, id);
  std::vector<std::string> bytes(static_cast<size_t>(largest) + 1);
  std::vector<bool> taken(bytes.size());
  for (const auto& [token, id] : ids) {
    const auto at = static_cast<size_t>(id);
    if (taken[at]) fail_input(fmt::format("two tokens have id {}", id), where, kAdvice);
    taken[at] = true;
    bytes[at] = read_written_bytes(token).value_or(plain ? token : std::string());
  }
  return bytes;
}

// An id in the post_processor; check_template_ids sees whether there is such a token.
int32_t read_id(const json& id, const std::string& where) {
  if (!id.is_number_integer() || id.get<int64_t>() != static_cast<int32_t>(id.get<int64_t>()))
    fail_input("an id in the post_processor is not a token's", where, kAdvice);
  return id.get<int32_t>();
}

std::vector<int32_t> ids_of_special(const json& processor, const std::string& name,
                                    const std::string& where) {
  const json& table = field_or_null(processor, "special_tokens");
  const json& entry = table.is_object() && table.contains(name) ? table[name] : json();
  std::vector<int32_t> ids;
  for (const json& id : read_list(entry, "ids", where)) {
    ids.push_back(read_id(id, where));
  }
  return ids;
}

void read_template(const json& processor, TokenizerParts& parts) {
  std::vector<int32_t>* side = &parts.prefix;
  for (const json& item : read_list(processor, "single", parts.origin)) {
    if (!item.is_object())
      fail_input("the post_processor's \"single\" is not a list of parts", parts.origin, kAdvice);
    if (item.contains("Sequence")) side = &parts.suffix;
    if (!item.contains("SpecialToken")) continue;
    const auto ids =
        ids_of_special(processor, read_text(item["SpecialToken"], "id", parts.origin), parts.origin);
    side->insert(side->end(), ids.begin(), ids.end());
  }
}

// ["</s>", 2], as the Roberta and Bert processors write a token.
int32_t read_named_id(const json& processor, const std::string& name, const std::string& where) {
  const json& pair = read_list(processor, name, where);
  if (pair.size() != 2)
    fail_input(fmt::format("the post_processor's \"{}\" is not a token and its id", name), where, kAdvice);
  return read_id(pair[1], where);
}

void read_post_processor(const json& processor, TokenizerParts& parts, int depth) {
  if (processor.is_null()) return;
  const std::string type = read_type(processor, "post_processor", parts.origin);
  if (type == "Sequence" && depth < 16) {
    for (const json& part : read_list(processor, "processors", parts.origin))
      read_post_processor(part, parts, depth + 1);
  } else if (type == "TemplateProcessing") {
    read_template(processor, parts);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    parts.prefix.push_back(read_named_id(processor, "cls", parts.origin));
    parts.suffix.push_back(read_named_id(processor, "sep", parts.origin));
  } else if (type != "ByteLevel") {
    fail_input(fmt::format("post_processor of type {} is not supported", printable(type)), parts.origin,
               "use a byte-level BPE tokenizer");
  }
}

void check_decoder(const json& decoder, const std::string& where) {
  if (decoder.is_null()) return;
  const std::string type = read_type(decoder, "decoder", where);
  if (type != "ByteLevel")
    fail_input(fmt::format("decoder of type {} is not supported", printable(type)), where,
               "use a byte-level BPE tokenizer");
}

void place_added_tokens(const std::vector<AddedToken>& tokens, TokenizerParts& parts) {
  MatchScratch scratch;
  for (const AddedToken& token : tokens) {
    const auto at = static_cast<size_t>(token.id);
    const std::string written =
        token.normalised ? parts.normaliser.apply(token.content, scratch) : token.content;
    (token.normalised ? parts.normalised_tokens : parts.raw_tokens).add(token, written);
    parts.pieces[at] = token.content;
    parts.special[at] = token.special;
  }
}

void check_template_ids(const TokenizerParts& parts) {
  for (const auto* side : {&parts.prefix, &parts.suffix})
    for (const int32_t id : *side)
      if (id < 0 || static_cast<size_t>(id) >= parts.pieces.size())
        fail_input(fmt::format("the post_processor adds token {}, which is not in the vocabulary", id),
                   parts.origin, kAdvice);
}

}  // namespace

TokenizerParts read_tokenizer_json(const json& tokenizer, const std::string& origin) {
  if (!tokenizer.is_object())
    fail_input("a tokenizer.json must hold an object", origin, "name a tokenizer.json file");
  const json& model = field_or_null(tokenizer, "model");
  check_model(model, origin);
  Ids ids = read_vocabulary(model, origin);
  BytePairs pairs = read_pairs(model, ids, bytes_by_id(ids, false, origin), origin);
  const std::vector<AddedToken> added = read_added_tokens(tokenizer, ids, origin);
  std::vector<std::string> pieces = bytes_by_id(ids, true, origin);
  if (pieces.empty()) fail_input("the tokenizer has no tokens", origin, kAdvice);
  TokenizerParts parts(origin, Normaliser(field_or_null(tokenizer, "normalizer"), origin),
                       PreTokeniser(field_or_null(tokenizer, "pre_tokenizer"), origin), std::move(pairs));
  parts.special.resize(pieces.size());
  parts.pieces = std::move(pieces);
  parts.ids = std::move(ids);
  place_added_tokens(added, parts);
  read_post_processor(field_or_null(tokenizer, "post_processor"), parts, 0);
  check_template_ids(parts);
  check_decoder(field_or_null(tokenizer, "decoder"), origin);
  return parts;
}

}  // namespace openwork
