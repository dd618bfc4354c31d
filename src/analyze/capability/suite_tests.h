// The tests of the suite (docs/method.md, 6), one function each, and the table that names them. To add one:
// write its function, declare it here, add its line to kSuiteTests.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "analyze/capability/suite_test.h"

namespace openwork {

// Each makes its prompts for the tokens at hand, the same ones for the same seed, and fails (fail_input) where it
// cannot: the suite then leaves it out and says why.
SuiteTest make_copying(
    const SuiteSource& source);  // a run of random tokens again, 8 tokens on to the whole context
SuiteTest make_copy_choice(const SuiteSource& source);  // the same, which of the run's tokens it is
SuiteTest make_retrieval(const SuiteSource& source);    // which colour a thing had, said once far back
SuiteTest make_ioi_choice(const SuiteSource& source);   // the built-in tasks: the answer before the wrong one
SuiteTest make_greater_choice(const SuiteSource& source);
SuiteTest make_docstring_choice(const SuiteSource& source);
SuiteTest make_opposite_choice(const SuiteSource& source);
SuiteTest make_last_word(
    const SuiteSource& source);  // a passage's last word, with and without the far context
SuiteTest make_recalled_word(
    const SuiteSource& source);  // likewise a word that stands in the far context alone
SuiteTest make_position_loss(const SuiteSource& source);  // nats per token by position in context

struct SuiteTestMaker {
  const char* name;
  const char* about;
  SuiteTest (*make)(const SuiteSource& source);
};

inline constexpr SuiteTestMaker kSuiteTests[] = {
    {"copy", "the next token of a run seen before, by distance", make_copying},
    {"copy-choice", "which token of a run seen before, of eight, by distance", make_copy_choice},
    {"retrieve", "the colour a thing was said to have, of four, by distance", make_retrieval},
    {"ioi", "the name that is not repeated before the one that is", make_ioi_choice},
    {"greater-than", "later years before earlier ones", make_greater_choice},
    {"docstring", "the next argument's name before another", make_docstring_choice},
    {"opposite", "a word's opposite before another's", make_opposite_choice},
    {"last-word", "the last word of a held-out passage", make_last_word},
    {"recalled-word", "a held-out word that stands far back and not near", make_recalled_word},
    {"loss", "nats per token by position in context", make_position_loss},
};

// Names of the table; the tests of `names`, all where there are none. Fails on a name that is not there.
std::vector<std::string> suite_test_names();
std::vector<const SuiteTestMaker*> choose_suite_tests(const std::vector<std::string>& names);

// Powers of two from `first` on while they are below `last`, then `last` itself; without those above 3/4 of it.
std::vector<int64_t> suite_distances(int64_t first, int64_t last);

}  // namespace openwork
