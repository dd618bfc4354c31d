// The task greater-than (Hanna et al. 2023): "The war lasted from the year 1742 to the year 17" goes on with
// a number above 42; corrupt: 1701. Tokenizers cut years differently, so every year is looked at: where 42 is
// one token, answers are the two-digit tokens above it and wrongs those up to it; where 4 and 2 are two
// tokens, answers are the digits above 4 and wrongs those below (4 itself decides nothing and is left out).
#include <fmt/format.h>

#include <algorithm>

#include "analyze/circuits/task_parts.h"

namespace openwork {
namespace {

const std::vector<std::string> kNouns = {"war",       "plan",     "trial",    "study",   "siege",    "tour",
                                         "project",   "voyage",   "campaign", "work",    "rule",     "reign",
                                         "marriage",  "fall",     "program",  "test",    "contract", "treaty",
                                         "case",      "dispute",  "affair",   "journey", "growth",   "trip",
                                         "operation", "practice", "process",  "effort",  "order",    "rise"};

enum class YearForm { kOther, kPair, kDigits };

struct YearTokens {
  std::vector<int64_t> pairs;   // of 00 .. 99, where each is one token
  std::vector<int64_t> digits;  // of 0 .. 9
};

YearTokens find_year_tokens(const Tokenizer& tokenizer) {
  YearTokens tokens;
  for (int n = 0; n < 100; ++n) {
    if (const auto id = single_token(tokenizer, fmt::format("{:02}", n))) tokens.pairs.push_back(*id);
  }
  for (int n = 0; n < 10; ++n) {
    if (const auto id = single_token(tokenizer, fmt::format("{}", n))) tokens.digits.push_back(*id);
  }
  if (tokens.pairs.size() < 100) tokens.pairs.clear();
  if (tokens.digits.size() < 10) tokens.digits.clear();
  return tokens;
}

// How the tokenizer cuts " 1742" behind the century " 17".
YearForm find_form(const Tokenizer& tokenizer, const YearTokens& tokens, int century, int year) {
  std::vector<int32_t> ids = tokenizer.encode(fmt::format(" {}{:02}", century, year));
  const std::vector<int32_t> head = tokenizer.encode(fmt::format(" {}", century));
  if (ids.size() <= head.size() || !std::equal(head.begin(), head.end(), ids.begin()))
    return YearForm::kOther;
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(head.size()));
  if (ids.size() == 1 && !tokens.pairs.empty() && ids[0] == tokens.pairs[static_cast<size_t>(year)])
    return YearForm::kPair;
  const bool digits = ids.size() == 2 && !tokens.digits.empty() &&
                      ids[0] == tokens.digits[static_cast<size_t>(year / 10)] &&
                      ids[1] == tokens.digits[static_cast<size_t>(year % 10)];
  return digits ? YearForm::kDigits : YearForm::kOther;
}

struct Year {
  int century, year;
};

// Years cut as `form` says whose corrupt year, 01 of the same century, is cut so too and equally long.
std::vector<Year> find_years(const Tokenizer& tokenizer, const YearTokens& tokens, YearForm form) {
  std::vector<Year> years;
  const size_t length = tokenizer.encode(" 17").size();
  for (int century = 11; century <= 18; ++century) {
    if (tokenizer.encode(fmt::format(" {}", century)).size() != length) continue;
    if (find_form(tokenizer, tokens, century, 1) != form) continue;
    for (int year = form == YearForm::kPair ? 2 : 10; year <= (form == YearForm::kPair ? 98 : 89); ++year) {
      if (find_form(tokenizer, tokens, century, year) == form) years.push_back({century, year});
    }
  }
  return years;
}

TaskRead make_read(const YearTokens& tokens, YearForm form, int year, int64_t position) {
  TaskRead read{.position = position};
  const bool pair = form == YearForm::kPair;
  const std::vector<int64_t>& all = pair ? tokens.pairs : tokens.digits;
  const int border = pair ? year : year / 10;
  for (int n = 0; n < static_cast<int>(all.size()); ++n) {
    if (n > border) read.answers.push_back(all[static_cast<size_t>(n)]);
    if (n < border || (pair && n == border)) read.wrongs.push_back(all[static_cast<size_t>(n)]);
  }
  return read;
}

TaskPrompt make_prompt(const TaskVocabulary& vocabulary, const YearTokens& tokens, YearForm form,
                       const std::string& noun, Year year) {
  const auto write = [&](int last) {
    return fmt::format("The {} lasted from the year {}{:02} to the year {}", noun, year.century, last,
                       year.century);
  };
  TaskPrompt prompt{.clean = task_tokens(vocabulary, write(year.year)),
                    .corrupt = task_tokens(vocabulary, write(1))};
  const auto end = static_cast<int64_t>(prompt.clean.size()) - 1;
  prompt.reads.push_back(make_read(tokens, form, year.year, end));
  // The first place where the two differ is the year's last two digits.
  const auto differs =
      std::mismatch(prompt.clean.begin(), prompt.clean.end(), prompt.corrupt.begin(), prompt.corrupt.end())
          .first;
  prompt.places = {{"end", end}, {"year", differs - prompt.clean.begin()}};
  return prompt;
}

}  // namespace

Task make_years_task(const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed) {
  const Tokenizer& tokenizer = need_tokenizer(vocabulary, "greater-than");
  const YearTokens tokens = find_year_tokens(tokenizer);
  const std::vector<std::string> nouns = single_token_words(tokenizer, kNouns);
  const std::vector<Year> pairs = find_years(tokenizer, tokens, YearForm::kPair);
  const std::vector<Year> digits = find_years(tokenizer, tokens, YearForm::kDigits);
  const YearForm form = pairs.size() >= digits.size() ? YearForm::kPair : YearForm::kDigits;
  const std::vector<Year>& years = form == YearForm::kPair ? pairs : digits;
  if (years.empty() || nouns.empty())
    refuse_tokenizer("greater-than", "no year is cut into two-digit tokens or digits");
  TaskRandom random(mix_seed(seed, 3));
  Task task{.metric = TaskMetric::kProbabilityDifference};
  for (int64_t n = 0; n < prompts; ++n) {
    const std::string& noun = random.choose(nouns);
    task.prompts.push_back(make_prompt(vocabulary, tokens, form, noun, random.choose(years)));
  }
  return task;
}

}  // namespace openwork
