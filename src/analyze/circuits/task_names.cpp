// The task ioi, indirect object identification (Wang et al. 2022): two names, one of them again, and the
// other is the answer. Half the prompts name the answer first (ABBA), half second (BABA); the corrupt prompt
// has three other names. Names, places and objects are those that this tokenizer writes as one token.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyze/circuits/task_parts.h"

namespace openwork {
namespace {

const std::vector<std::string> kNames = {
    "Mary",   "John",    "James", "Robert",  "David",    "William",   "Richard", "Thomas", "Charles",
    "Daniel", "Matthew", "Mark",  "Paul",    "Andrew",   "Kevin",     "George",  "Edward", "Henry",
    "Peter",  "Frank",   "Jack",  "Walter",  "Sarah",    "Emily",     "Anna",    "Alice",  "Laura",
    "Martha", "Rachel",  "Jane",  "Helen",   "Rose",     "Ruth",      "Kate",    "Lucy",   "Susan",
    "Lisa",   "Amy",     "Adam",  "Simon",   "Victoria", "Elizabeth", "Arthur",  "Philip", "Scott",
    "Steven", "Jason",   "Ryan",  "Michael", "Tom",      "Sam",       "Ben",     "Louis",  "Margaret"};
const std::vector<std::string> kPlaces = {"store", "school",   "office",  "house",  "garden",
                                          "park",  "hospital", "station", "church", "market",
                                          "river", "library",  "museum",  "hotel"};
const std::vector<std::string> kObjects = {"drink", "book",    "ring", "letter", "paper", "flower",
                                           "key",   "ball",    "gift", "card",   "watch", "hat",
                                           "box",   "picture", "kiss", "coin"};
// {0} and {1} are the two names, {2} the one that comes again.
const std::vector<std::string> kTemplates = {"When {0} and {1} went to the {3}, {2} gave a {4} to",
                                             "Then, {0} and {1} went to the {3}. {2} gave a {4} to",
                                             "After {0} and {1} went to the {3}, {2} gave a {4} to",
                                             "While {0} and {1} were at the {3}, {2} gave a {4} to",
                                             "Later, {0} and {1} came to the {3}. {2} gave a {4} to",
                                             "One day {0} and {1} went to the {3}, {2} gave a {4} to",
                                             "Then {0} and {1} walked to the {3}, and {2} gave a {4} to",
                                             "When {0} and {1} got to the {3}, {2} handed a {4} to",
                                             "Once {0} and {1} were in the {3}, {2} sent a {4} to",
                                             "Today {0} and {1} met at the {3}, and {2} gave a {4} to"};

struct Scene {
  std::string template_text, place, object;
  std::string write(const std::string& first, const std::string& second, const std::string& again) const {
    return fmt::format(fmt::runtime(template_text), first, second, again, place, object);
  }
};

// The templates of the length that most of them have, so that all prompts are equally long.
std::vector<std::string> equal_templates(const TaskVocabulary& vocabulary, const std::string& place,
                                         const std::string& object, const std::string& name) {
  std::map<size_t, std::vector<std::string>> by_length;
  for (const std::string& text : kTemplates) {
    by_length[task_tokens(vocabulary, Scene{text, place, object}.write(name, name, name)).size()].push_back(
        text);
  }
  std::vector<std::string> most;
  for (const auto& [length, templates] : by_length) {
    if (templates.size() > most.size()) most = templates;
  }
  return most;
}

int64_t find_token(const std::vector<int64_t>& ids, int64_t token, int64_t from = 0) {
  return std::find(ids.begin() + from, ids.end(), token) - ids.begin();
}

TaskPrompt make_prompt(const TaskVocabulary& vocabulary, const Scene& scene,
                       const std::vector<std::string>& names, bool answer_first) {
  const std::string &answer = names[0], &again = names[1];
  TaskPrompt prompt;
  prompt.clean = task_tokens(
      vocabulary, answer_first ? scene.write(answer, again, again) : scene.write(again, answer, again));
  prompt.corrupt = task_tokens(vocabulary, scene.write(names[2], names[3], names[4]));
  const int64_t answer_id = *single_token(*vocabulary.tokenizer, " " + answer);
  const int64_t again_id = *single_token(*vocabulary.tokenizer, " " + again);
  const auto end = static_cast<int64_t>(prompt.clean.size()) - 1;
  prompt.reads.push_back({end, {answer_id}, {again_id}});
  const int64_t first = find_token(prompt.clean, again_id);
  prompt.places = {{"end", end},
                   {"answer", find_token(prompt.clean, answer_id)},
                   {"subject", first},
                   {"after subject", first + 1},
                   {"subject again", find_token(prompt.clean, again_id, std::min(first + 1, end))}};
  return prompt;
}

}  // namespace

Task make_names_task(const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed) {
  const Tokenizer& tokenizer = need_tokenizer(vocabulary, "ioi");
  const std::vector<std::string> names = single_token_words(tokenizer, kNames);
  const std::vector<std::string> places = single_token_words(tokenizer, kPlaces);
  const std::vector<std::string> objects = single_token_words(tokenizer, kObjects);
  if (names.size() < 5 || places.empty() || objects.empty()) {
    refuse_tokenizer("ioi", fmt::format("only {} names, {} places and {} objects are one token each",
                                        names.size(), places.size(), objects.size()));
  }
  const std::vector<std::string> templates = equal_templates(vocabulary, places[0], objects[0], names[0]);
  TaskRandom random(mix_seed(seed, 2));
  Task task;
  for (int64_t n = 0; n < prompts; ++n) {
    const Scene scene{random.choose(templates), random.choose(places), random.choose(objects)};
    task.prompts.push_back(make_prompt(vocabulary, scene, random.choose_different(names, 5), n % 2 == 0));
  }
  return task;
}

}  // namespace openwork
