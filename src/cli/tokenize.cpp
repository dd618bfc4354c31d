// openwork tokenize: text to token ids and pieces, and back.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/token_marks.h"
#include "cli/verbs.h"
#include "shell/common.h"
#include "shell/open_tokenizer.h"
#include "text/packed_text.h"

namespace openwork {
namespace {

struct TokenizeOptions {
  CommonOptions common;
  std::string model, text, file, ids;
  bool has_text = false, has_ids = false;
};

nlohmann::json tokenize_text(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  const std::vector<int32_t> ids =
      tokenizer.encode(options.file.empty() ? options.text : unpack_text(options.file));
  std::vector<std::string> pieces;
  for (const int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  print_result(options.common, fmt::format("{:>7}  token", "id"));
  for (size_t n = 0; n < ids.size(); ++n)
    print_result(options.common, fmt::format("{:>7}  {}", ids[n], quote_token(pieces[n])));
  return {{"ids", ids}, {"pieces", pieces}};
}

nlohmann::json decode_ids(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const int64_t id : parse_id_list(options.ids, "--ids")) {
    if (id < 0 || id >= tokenizer.size()) {
      fail_input(fmt::format("token id {}", id), "--ids",
                 fmt::format("ids are 0 to {}", tokenizer.size() - 1));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  std::vector<std::string> pieces;
  for (const int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  const std::string text = tokenizer.decode(ids);
  print_result(options.common, text);
  return {{"ids", ids}, {"pieces", pieces}, {"text", text}};
}

void run_tokenize(const TokenizeOptions& options) {
  apply_common_options(options.common);
  const int given = static_cast<int>(options.has_text) + !options.file.empty() + options.has_ids;
  if (given != 1) fail_input("exactly one input is needed", "command line", "give TEXT, --file or --ids");
  const Tokenizer tokenizer = open_tokenizer(options.model);
  nlohmann::json result =
      options.has_ids ? decode_ids(options, tokenizer) : tokenize_text(options, tokenizer);
  result["protocol"] = make_protocol(options.common);
  result["protocol"].update({{"tokenizer", options.model}, {"special_tokens_added", false}});
  write_json_result(options.common, result);
}

}  // namespace

void add_tokenize_verb(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* verb = add_verb(app, "tokenize");
  verb->add_option("MODEL", options->model, "a model, or a tokenizer.json")->required();
  CLI::Option* text =
      verb->add_option("TEXT", options->text, "the text; special tokens in it are parsed, none is added");
  verb->add_option("--file", options->file, "take the text from this file")->type_name("FILE");
  CLI::Option* ids = verb->add_option("--ids", options->ids, "decode these ids instead")->type_name("1,2,3");
  add_common_options(*verb, options->common);
  verb->footer(
      "Examples:\n"
      "  openwork tokenize openwork-8m \"Hello world\"\n"
      "  openwork tokenize tokenizer.json --file text.txt --json -\n"
      "  openwork tokenize openwork-8m --ids 452,1369");
  verb->callback([options, text, ids] {
    options->has_text = text->count() > 0;
    options->has_ids = ids->count() > 0;
    run_tokenize(*options);
  });
}

}  // namespace openwork
