// A user's task: JSONL, one prompt a line, {"clean", "corrupt", "answer", "wrong"} as texts or lists of token
// ids. The answer follows the last token; a list of answers is then a set. With "at": [positions whose
// next-token logits are read] answer and wrong are lists, one entry per position, and the entries may
// themselves be sets, at every position or at none: the two have different metrics.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "analyze/circuits/task_parts.h"
#include "base/error.h"
#include "io/json.h"
#include "text/packed_text.h"

namespace openwork {
namespace {

using nlohmann::json;

// One line of the file: its values, and errors that name the line.
class TaskLine {
 public:
  TaskLine(const json& line, std::string where, const TaskVocabulary& vocabulary)
      : line_(line), where_(std::move(where)), vocabulary_(vocabulary) {
    if (!line_.is_object())
      refuse("not an object", "write {\"clean\": ..., \"corrupt\": ..., \"answer\": ..., \"wrong\": ...}");
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& advice) const {
    fail_input(what, where_, advice);
  }

  const json& need(const char* key) const {
    const auto it = line_.find(key);
    if (it == line_.end()) refuse(fmt::format("no \"{}\"", key), "give clean, corrupt, answer and wrong");
    return *it;
  }
  bool has(const char* key) const { return line_.contains(key) && !line_[key].is_null(); }

  // A prompt: ids as they are, or a text behind the tokenizer's beginning tokens.
  std::vector<int64_t> read_prompt(const char* key) const {
    const json& value = need(key);
    if (value.is_string()) {
      need_text(key);
      return task_tokens(vocabulary_, value.get<std::string>());
    }
    return read_ids(value, key);
  }

  // One token, by its id or as a text that is one token.
  int64_t read_token(const json& value, const char* key) const {
    if (value.is_number_integer()) return value.get<int64_t>();
    if (!value.is_string())
      refuse(fmt::format("\"{}\" has something that is neither text nor id", key),
             "write tokens as \" Mary\" or 2573");
    need_text(key);
    const std::string text = value.get<std::string>();
    const std::vector<int32_t> ids = vocabulary_.tokenizer->encode(text);
    if (ids.size() == 1) return ids.front();
    refuse(fmt::format("\"{}\" is '{}', which is {} tokens", key, printable(text, 60), ids.size()),
           "use a target that is one token");
  }

  // A token, or a list of them.
  std::vector<int64_t> read_set(const json& value, const char* key) const {
    if (!value.is_array()) return {read_token(value, key)};
    std::vector<int64_t> tokens;  // a set: each counts once
    for (const json& entry : value) {
      const int64_t token = read_token(entry, key);
      if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
    }
    return tokens;
  }

  std::vector<int64_t> read_ids(const json& value, const char* key) const {
    const auto is_id = [](const json& id) { return id.is_number_integer(); };
    if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_id)) {
      refuse(fmt::format("\"{}\" is neither a text nor a list of whole numbers", key),
             "write it like \"some text\" or [15, 27, 3]");
    }
    return value.get<std::vector<int64_t>>();
  }

 private:
  void need_text(const char* key) const {
    if (!vocabulary_.tokenizer)
      refuse(fmt::format("\"{}\" is a text, and the model has no tokenizer", key), "give token ids");
  }

  const json& line_;
  std::string where_;
  const TaskVocabulary& vocabulary_;
};

[[noreturn]] void refuse_mixed(const TaskLine& line) {
  line.refuse("single answers and sets of answers are mixed",
              "use one kind in a file: a set may have one token, [5]");
}

// The reads of one line; says whether they compare sets.
std::vector<TaskRead> read_targets(const TaskLine& line, int64_t length, bool& sets) {
  const json &answer = line.need("answer"), &wrong = line.need("wrong");
  if (!line.has("at")) {
    sets = answer.is_array() || wrong.is_array();
    return {{length - 1, line.read_set(answer, "answer"), line.read_set(wrong, "wrong")}};
  }
  const std::vector<int64_t> positions = line.read_ids(line.need("at"), "at");
  const bool lists = answer.is_array() && wrong.is_array() && answer.size() == positions.size() &&
                     wrong.size() == positions.size();
  if (!lists)
    line.refuse(fmt::format("\"at\" has {} positions, but answer and wrong are not lists of as many",
                            positions.size()),
                "give one answer and one wrong per position");
  std::vector<TaskRead> reads;
  for (size_t n = 0; n < positions.size(); ++n) {
    const bool set = answer[n].is_array() || wrong[n].is_array();
    if (n > 0 && set != sets) refuse_mixed(line);
    sets = set;
    reads.push_back({positions[n], line.read_set(answer[n], "answer"), line.read_set(wrong[n], "wrong")});
  }
  return reads;
}

}  // namespace

Task read_task_file(const std::string& path, const TaskVocabulary& vocabulary, int64_t prompts) {
  check_task_name(path);
  std::istringstream file(unpack_text(path));
  Task task{.name = path};
  int64_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (prompts > 0 && static_cast<int64_t>(task.prompts.size()) == prompts) break;
    const std::string where = fmt::format("line {} of {}", number, path);
    const json value = parse_json(text, where);
    const TaskLine line(value, where, vocabulary);
    TaskPrompt prompt{.clean = line.read_prompt("clean"), .corrupt = line.read_prompt("corrupt")};
    bool sets = false;
    prompt.reads = read_targets(line, static_cast<int64_t>(prompt.clean.size()), sets);
    const TaskMetric metric = sets ? TaskMetric::kProbabilityDifference : TaskMetric::kLogitDifference;
    if (!task.prompts.empty() && metric != task.metric) refuse_mixed(line);
    task.metric = metric;
    task.prompts.push_back(std::move(prompt));
  }
  return task;
}

}  // namespace openwork
