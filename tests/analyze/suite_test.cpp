#include "analyze/capability/suite.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "analyze/capability/suite_source.h"
#include "analyze/held_out.h"
#include "base/error.h"
#include "model/load.h"

namespace openwork {
namespace {

using testing::HasSubstr;

const Transformer& tiny_model() {
  static const Transformer model = load_model("tests/data/llama");
  return model;
}

const Tokenizer& tokenizer_8m() {
  static const Tokenizer tokenizer = Tokenizer::from_file("models/openwork-8m");
  return tokenizer;
}

// What the tiny models can be asked: copying, and the loss of made-up blocks.
SuiteSource tiny_source(uint64_t seed = 3, int64_t prompts = 5) {
  SuiteSource source;
  source.vocabulary = make_vocabulary(tiny_model().config(), nullptr, {}, true);
  source.context = 40, source.prompts = prompts, source.seed = seed;
  source.blocks.context = 40, source.blocks.count = 3;
  for (int32_t n = 0; n < 121; ++n) {
    source.blocks.tokens.push_back((n * 37 + n / 5) % 97);
    source.blocks.document.push_back(n / 50);
    source.blocks.bytes.push_back(1);
  }
  return source;
}

// What text tests are made of, by the built-in model's tokenizer.
SuiteSource text_source(int64_t context = 256) {
  SuiteSource source;
  source.vocabulary = make_vocabulary(load_config("models/openwork-8m"), &tokenizer_8m(), {}, true);
  source.context = context, source.prompts = 6;
  read_suite_data(source, {"tests/data/held_out.txt"}, 0, "openwork-8m");
  return source;
}

// Scores by whole passes, a prompt at a time.
double plain_score(const Transformer& model, const SuitePrompt& prompt, const SuiteRead& read,
                   SuiteScore score) {
  const Tensor logits = model.forward(at::tensor(prompt.tokens, at::kLong).unsqueeze(0))[0][read.position];
  const Tensor p = logits.to(at::kDouble).softmax(0);
  const auto probability = [&](int64_t token) { return p[token].item<double>(); };
  double best_answer = 0, best_wrong = 0, answers = 0, wrongs = 0;
  for (const int64_t token : read.answers)
    best_answer = std::max(best_answer, probability(token)), answers += probability(token);
  for (const int64_t token : read.wrongs)
    best_wrong = std::max(best_wrong, probability(token)), wrongs += probability(token);
  if (score == SuiteScore::kTop) return best_answer == p.max().item<double>();
  if (score == SuiteScore::kChoice) return best_answer > best_wrong;
  if (score == SuiteScore::kSum) return answers > wrongs;
  return -std::log(best_answer);
}

// Prompts of three lengths with reads in two bins.
SuiteTest made_up_test(SuiteScore score) {
  SuiteTest test{.score = score, .bins = {{"even"}, {"odd"}}};
  for (int64_t p = 0; p < 9; ++p) {
    SuitePrompt prompt;
    for (int64_t t = 0; t < 5 + p % 3; ++t) prompt.tokens.push_back((11 * p + 31 * t + t * t) % 97);
    const Tensor logits = tiny_model().forward(at::tensor(prompt.tokens, at::kLong).unsqueeze(0))[0];
    for (int64_t t = 1; t < 5; ++t) {
      // Half of the answers are what the model says, so that there is something to be right about.
      const int64_t said = logits[t].argmax().item<int64_t>();
      prompt.reads.push_back({t,
                              {(p + t) % 2 ? said : (said + 7) % 97, (3 * p + t) % 97},
                              {(said + 13) % 97, (p + 2 * t) % 97, 5},
                              static_cast<size_t>(t % 2)});
    }
    test.prompts.push_back(std::move(prompt));
  }
  return test;
}

TEST(Suite, ScoresAreThoseOfWholePasses) {
  for (const SuiteScore score :
       {SuiteScore::kTop, SuiteScore::kChoice, SuiteScore::kSum, SuiteScore::kNats}) {
    SuiteTest test = made_up_test(score);
    if (score == SuiteScore::kNats) {
      for (SuitePrompt& prompt : test.prompts) {
        for (SuiteRead& read : prompt.reads) read.answers.resize(1);
      }
    }
    const BinScores scores = score_prompts(tiny_model(), test);
    ASSERT_EQ(scores.size(), 2u);
    double total = 0;
    for (size_t p = 0; p < test.prompts.size(); ++p) {
      double expected[2] = {0, 0};
      for (const SuiteRead& read : test.prompts[p].reads)
        expected[read.bin] += 0.5 * plain_score(tiny_model(), test.prompts[p], read, score);
      EXPECT_NEAR(scores[0][p], expected[0], 1e-5) << p;
      EXPECT_NEAR(scores[1][p], expected[1], 1e-5) << p;
      total += expected[0] + expected[1];
    }
    EXPECT_GT(total, 2);  // neither all wrong nor all right, or nothing was tested
    EXPECT_LT(total, score == SuiteScore::kNats ? 1000 : 17);
  }
}

TEST(Suite, APromptIsRightWhereAllItsReadsAre) {
  SuiteTest test = made_up_test(SuiteScore::kTop);
  const BinScores means = score_prompts(tiny_model(), test);
  test.all_reads = true;
  const BinScores all = score_prompts(tiny_model(), test);
  for (size_t bin = 0; bin < 2; ++bin) {
    for (size_t p = 0; p < means[bin].size(); ++p) EXPECT_EQ(all[bin][p], means[bin][p] == 1 ? 1 : 0);
  }
}

TEST(Suite, BatchSizeChangesNoAnswer) {
  for (const SuiteScore score : {SuiteScore::kTop, SuiteScore::kNats}) {
    const SuiteTest test = made_up_test(score);
    ScoreOptions one, many;
    one.batch_tokens = 1, many.batch_tokens = 1000;
    const BinScores a = score_prompts(tiny_model(), test, one), b = score_prompts(tiny_model(), test, many);
    for (size_t bin = 0; bin < 2; ++bin) {
      ASSERT_EQ(a[bin].size(), b[bin].size());
      for (size_t p = 0; p < a[bin].size(); ++p) EXPECT_NEAR(a[bin][p], b[bin][p], 1e-5);
    }
  }
}

TEST(Suite, AModelDiffersNowhereFromItself) {
  const SuiteModel model = run_suite(tiny_model(), "a", tiny_source(), choose_suite_tests({}));
  const std::vector<SuiteDifference> rows = compare_suites({model, model}, 1);
  ASSERT_GT(rows.size(), 5u);
  for (const SuiteDifference& row : rows) {
    EXPECT_EQ(row.difference, 0) << row.test;
    EXPECT_EQ(row.interval.low, 0);
    EXPECT_EQ(row.p, 1);
    EXPECT_EQ(row.p_holm, 1);
  }
}

TEST(Suite, ADifferenceIsFoundAndHasItsSign) {
  SuiteModel model = run_suite(tiny_model(), "a", tiny_source(3, 30), choose_suite_tests({"copy"})),
             worse = model;
  for (SuiteTestResult& test : worse.tests) {
    for (double& score : test.bins.front().scores) score -= 0.5;
  }
  worse.name = "b";
  const std::vector<SuiteDifference> rows = compare_suites({model, worse}, 1);
  EXPECT_NEAR(rows.front().difference, -0.5, 1e-12);
  EXPECT_LT(rows.front().p_holm, 0.01);
  EXPECT_EQ(rows.back().p_holm, 1);
}

TEST(Suite, OtherPromptsAreNotCompared) {
  const SuiteModel one = run_suite(tiny_model(), "a", tiny_source(1), choose_suite_tests({"copy"})),
                   other = run_suite(tiny_model(), "b", tiny_source(2), choose_suite_tests({"copy"}));
  EXPECT_TRUE(compare_suites({one, other}, 1).empty());
}

TEST(Suite, TheSeedGivesTheNumbers) {
  const auto run = [](uint64_t seed) {
    return run_suite(tiny_model(), "a", tiny_source(seed), choose_suite_tests({"copy"})).tests[0];
  };
  const SuiteTestResult one = run(7), again = run(7), other = run(8);
  for (size_t n = 0; n < one.bins.size(); ++n) {
    EXPECT_EQ(one.bins[n].scores, again.bins[n].scores);
    EXPECT_EQ(one.bins[n].prompts_hash, again.bins[n].prompts_hash);
    EXPECT_EQ(one.bins[n].interval.low, again.bins[n].interval.low);
    EXPECT_NE(one.bins[n].prompts_hash, other.bins[n].prompts_hash);
  }
}

TEST(Suite, ResumedEqualsWhole) {
  const auto tests = choose_suite_tests({"copy", "loss"});
  const SuiteModel whole = run_suite(tiny_model(), "a", tiny_source(), tests);
  std::map<std::string, std::vector<double>> kept;
  std::string running;
  SuiteOptions options;
  options.memory.find = [&](const std::string& name) -> const std::vector<double>* {
    const auto at = kept.find(name);
    return at == kept.end() ? nullptr : &at->second;
  };
  options.memory.add = [&](const std::string& name, const std::vector<double>& scores) {
    kept[name] = scores;
  };
  options.begin = [&](const std::string& test, int64_t) { running = test; };
  options.after_pass = [&] {
    if (running == "loss") throw 15;
  };
  EXPECT_THROW(run_suite(tiny_model(), "a", tiny_source(), tests, options), int);
  EXPECT_GT(kept.size(), 0u);
  bool copied = false;
  options.after_pass = [&] { copied |= running == "copy"; };
  const SuiteModel resumed = run_suite(tiny_model(), "a", tiny_source(), tests, options);
  EXPECT_FALSE(copied);  // what was done is not done again
  for (size_t t = 0; t < 2; ++t) {
    for (size_t b = 0; b < whole.tests[t].bins.size(); ++b)
      EXPECT_EQ(whole.tests[t].bins[b].scores, resumed.tests[t].bins[b].scores);
  }
}

TEST(Suite, WhatCannotBeAskedIsLeftOutWithItsReason) {
  SuiteSource source = tiny_source();
  source.blocks = {};
  const SuiteModel model = run_suite(tiny_model(), "a", source, choose_suite_tests({}));
  for (const SuiteTestResult& test : model.tests)
    EXPECT_EQ(test.left_out.empty(), test.name.starts_with("copy")) << test.name;
  EXPECT_THAT(model.tests[2].left_out, HasSubstr("no tokenizer"));
  EXPECT_THAT(model.tests.back().left_out, HasSubstr("no held-out text"));
  EXPECT_THROW(choose_suite_tests({"copy", "juggling"}), Error);
}

TEST(Suite, AllOfAllRightIsNotCertainty) {
  const Interval all = suite_interval(std::vector<double>(64, 1), 0);
  EXPECT_NEAR(all.low, 0.9434, 1e-4);  // Wilson's, by hand
  EXPECT_NEAR(all.high, 1, 1e-9);
  std::vector<double> half(64, 0);
  std::fill(half.begin(), half.begin() + 32, 1);
  EXPECT_NEAR(suite_interval(half, 0).low, 0.3812, 1e-3);
}

TEST(SuiteCopying, EveryAnswerStandsAtItsDistanceAndNowhereElse) {
  const SuiteTest test = make_copying(tiny_source());
  EXPECT_EQ(test.bins.front().name, "8");
  EXPECT_EQ(test.bins.back().name, "32");  // the whole context of 40: a beginning, 32, and 7 to read at
  size_t longest = 0;
  for (const SuitePrompt& prompt : test.prompts) {
    longest = std::max(longest, prompt.tokens.size());
    for (const SuiteRead& read : prompt.reads) {
      const auto distance = static_cast<int64_t>(test.bins[read.bin].at);
      const auto at = prompt.tokens.begin() + read.position + 1 - distance;
      EXPECT_EQ(*at, read.answers[0]);
      EXPECT_EQ(std::count(prompt.tokens.begin(), prompt.tokens.begin() + read.position + 1, *at), 1);
    }
  }
  EXPECT_EQ(longest, 40u);
}

TEST(SuiteCopying, TheBuiltInModelChoosesBetterThanChance) {
  const Transformer model = load_model("models/openwork-8m");
  SuiteSource source = text_source(64);
  source.prompts = 16;
  const SuiteTestResult near = run_suite(model, "8m", source, choose_suite_tests({"copy-choice"})).tests[0];
  EXPECT_GT(near.bins[0].interval.low, near.chance);
}

TEST(SuiteRetrieval, TheColourStandsAtItsDistance) {
  const SuiteTest test = make_retrieval(text_source());
  ASSERT_GE(test.bins.size(), 3u);
  for (const SuitePrompt& prompt : test.prompts) {
    ASSERT_EQ(prompt.reads.size(), 1u);
    const SuiteRead& read = prompt.reads[0];
    ASSERT_LE(prompt.tokens.size(), 256u);
    EXPECT_EQ(read.position + 1, static_cast<int64_t>(prompt.tokens.size()));
    const auto at = read.position + 1 - static_cast<int64_t>(test.bins[read.bin].at);
    EXPECT_EQ(prompt.tokens[static_cast<size_t>(at)], read.answers[0]);
    EXPECT_EQ(read.wrongs.size(), 3u);
    // Said of the thing that is asked about: "... The box is red. ... The box is".
    const size_t thing = prompt.tokens.size() - 2;
    EXPECT_EQ(prompt.tokens[static_cast<size_t>(at) - 2], prompt.tokens[thing]);
  }
}

TEST(SuiteWords, AreWholeWordsAskedForWithAndWithoutTheFarContext) {
  for (const bool recalled : {false, true}) {
    const SuiteTest test = recalled ? make_recalled_word(text_source()) : make_last_word(text_source());
    ASSERT_GT(test.prompts.size(), 1u);
    for (size_t n = 0; n < test.prompts.size(); n += 2) {
      const SuitePrompt &whole = test.prompts[n], &near = test.prompts[n + 1];
      ASSERT_EQ(whole.reads.size(), near.reads.size());
      ASSERT_LT(near.tokens.size(), whole.tokens.size());
      EXPECT_TRUE(std::equal(near.tokens.begin(), near.tokens.end(),
                             whole.tokens.end() - static_cast<int64_t>(near.tokens.size())));
      std::vector<int64_t> word;
      std::string text;
      for (size_t r = 0; r < whole.reads.size(); ++r) {
        EXPECT_EQ(whole.reads[r].answers, near.reads[r].answers);
        EXPECT_EQ(near.reads[r].position, 31 + static_cast<int64_t>(r));  // 32 tokens stand before the word
        word.push_back(whole.reads[r].answers[0]);
        text += tokenizer_8m().piece(static_cast<int32_t>(word.back()));
      }
      EXPECT_GE(text.size(), 5u) << text;
      EXPECT_EQ(text[0], ' ');
      const auto stands = [&](const std::vector<int64_t>& tokens, size_t end) {
        return std::search(tokens.begin(), tokens.begin() + static_cast<int64_t>(end), word.begin(),
                           word.end()) != tokens.begin() + static_cast<int64_t>(end);
      };
      if (recalled) {
        EXPECT_TRUE(stands(whole.tokens, static_cast<size_t>(whole.reads[0].position) - 31)) << text;
        EXPECT_FALSE(stands(near.tokens, 32)) << text;
      }
    }
  }
}

TEST(SuiteLoss, IsTheHeldOutLossTakenApart) {
  const SuiteSource source = tiny_source();
  const SuiteTestResult result = run_suite(tiny_model(), "a", source, choose_suite_tests({"loss"})).tests[0];
  ASSERT_EQ(result.bins.size(), 4u);
  EXPECT_EQ(result.bins[3].name, "33-40");
  const double counts[] = {8, 8, 16, 8};
  double total = 0;
  for (size_t n = 0; n < 4; ++n) total += counts[n] * result.bins[n].mean;
  EXPECT_NEAR(total / 40, evaluate_held_out(tiny_model(), source.blocks).nats_per_token, 1e-5);
}

// Behind every year there is a later one, so one high digit is nearly always right.
TEST(SuiteTasks, ChanceOfSetsIsThatOfTheBestSingleToken) {
  const SuiteTest test = make_greater_choice(text_source());
  EXPECT_GT(test.chance, 0.9);
  EXPECT_LE(test.chance, 1);
  bool reached = false;
  for (int64_t token = 0; token < 8192 && !reached; ++token) {
    const auto is_right = [&](const SuitePrompt& prompt) {
      const std::vector<int64_t>& answers = prompt.reads[0].answers;
      return std::find(answers.begin(), answers.end(), token) != answers.end();
    };
    const auto right = std::count_if(test.prompts.begin(), test.prompts.end(), is_right);
    const double share = static_cast<double>(right) / static_cast<double>(test.prompts.size());
    EXPECT_LE(share, test.chance);
    reached = share == test.chance;
  }
  EXPECT_TRUE(reached);
  EXPECT_EQ(make_opposite_choice(text_source()).chance, 0.5);
}

TEST(SuiteTasks, DrawnTwiceCountsOnce) {
  SuiteSource source = text_source();
  source.prompts = 200;
  const SuiteTest test = make_opposite_choice(source);
  EXPECT_LT(test.prompts.size(), 60u);  // there are no more pairs
  EXPECT_GT(test.prompts.size(), 8u);
}

}  // namespace
}  // namespace openwork
