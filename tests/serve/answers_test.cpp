// What the built-in pair answers, held against the functions that compute it.
#include "serve/answers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "analyze/circuits/ablation.h"
#include "analyze/circuits/prompt_task.h"
#include "analyze/heads/patterns.h"
#include "analyze/logit_lens.h"
#include "analyze/next_tokens.h"
#include "analyze/switched_heads.h"
#include "base/error.h"
#include "serve/binary_tensor.h"
#include "serve/built_in_pair.h"
#include "serve/model_backend.h"
#include "serve/page_data.h"
#include "serve/service.h"

namespace openwork::serve {
namespace {

const ServedModels& pair() {
  static const ServedModels models(open_pair());
  return models;
}

Answer ask(const std::string& route, const nlohmann::json& body) {
  UnwatchedWork work;
  return answer_request(pair(), parse_request(route, body.dump()).request, work);
}
nlohmann::json ask_json(const std::string& route, const nlohmann::json& body) {
  return nlohmann::json::parse(*ask(route, body).body);
}
std::string refusal(const std::string& route, const nlohmann::json& body) {
  try {
    ask(route, body);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    return error.what();
  }
  return "";
}

const std::string kPrompt = kBuiltInPrompt;

TEST(ServedAnswers, OneHeadOffTakesTheBuiltInPromptsAnswerFromBothModels) {
  const nlohmann::json off = {{"openwork-8m", {"L5H6"}}, {"openwork-8m-sparse", {"L5H6"}}};
  const nlohmann::json json = ask_json("switch", {{"prompt", kPrompt}, {"off", off}});
  for (const nlohmann::json& model : json["models"]) {
    EXPECT_GT(model["answer"]["probability_before"], 0.5) << model["name"];
    EXPECT_LT(model["answer"]["probability"], 0.1) << model["name"];
  }
  const nlohmann::json importance = ask_json("importance", {{"prompt", kPrompt}});
  for (const nlohmann::json& model : importance["models"]) {
    double largest = -1e9;
    for (const nlohmann::json& layer : model["effects"]) {
      for (const nlohmann::json& effect : layer) largest = std::max(largest, effect.get<double>());
    }
    EXPECT_EQ(model["effects"][5][6], largest) << model["name"];
  }
}

TEST(ServedAnswers, BothModelsAnswerTheBuiltInPrompt) {
  const nlohmann::json json = ask_json("run", {{"prompt", kPrompt}, {"top", 5}});
  ASSERT_EQ(json["models"].size(), 2u);
  for (const nlohmann::json& model : json["models"]) {
    EXPECT_EQ(model["next"][0]["token"], " dog") << model["name"];
    EXPECT_EQ(model["next"].size(), 5u);
    EXPECT_EQ(model["heads"].size(), 64u);
    EXPECT_EQ(model["tokens"].size(), model["ids"].size());
    EXPECT_EQ(model["heads"][9]["head"], "L1H1");
  }
  const nlohmann::json &dense = json["models"][0], &sparse = json["models"][1];
  const auto tokens = static_cast<int64_t>(dense["ids"].size());
  EXPECT_EQ(dense["prompt_kept_edges"], 1.0);
  EXPECT_EQ(dense["heads"][0]["kept"], tokens * (tokens + 1) / 2);
  EXPECT_LT(sparse["prompt_kept_edges"], 0.6);
  EXPECT_GT(sparse["prompt_kept_edges"], 0.0);
  EXPECT_NEAR(dense["heads"][0]["mass"], 1.0, 1e-4);
}

TEST(ServedAnswers, PatternsComeBackWithinTheirQuantisation) {
  const nlohmann::json request = {{"prompt", kPrompt}, {"model", "openwork-8m-sparse"}};
  nlohmann::json exact = request;
  exact["format"] = "f32";
  const Answer bytes = ask("patterns", request), floats = ask("patterns", exact);
  EXPECT_EQ(bytes.type, kBinaryType);
  const UnpackedTensor small = unpack_tensor(*bytes.body), large = unpack_tensor(*floats.body);
  const auto tokens = large.header["tokens"].get<size_t>();
  ASSERT_EQ(small.header["shape"], nlohmann::json({64, tokens * (tokens + 1) / 2}));
  ASSERT_EQ(large.data.size(), small.data.size() * 4);
  const auto* values = reinterpret_cast<const float*>(large.data.data());
  const size_t entries = small.header["shape"][1];
  for (size_t n = 0; n < small.data.size(); ++n) {
    const double scale = small.header["scale"][n / entries];
    const double share = static_cast<uint8_t>(small.data[n]) / 255.0;
    EXPECT_NEAR(scale * share * share, values[n], scale / 255 + 1e-6);
  }
}

TEST(ServedAnswers, PatternsOfSomeHeadsAreThoseOfTheModel) {
  const TracedModel& model = pair().all().front();
  const Answer answer =
      ask("patterns",
          {{"prompt", kPrompt}, {"model", model.name}, {"heads", {"L3H2", "L0H5"}}, {"format", "f32"}});
  const UnpackedTensor tensor = unpack_tensor(*answer.body);
  EXPECT_EQ(tensor.header["heads"], nlohmann::json({"L3H2", "L0H5"}));
  const size_t entries = tensor.header["shape"][1];
  const auto* values = reinterpret_cast<const float*>(tensor.data.data());
  const Tensor batch = at::tensor(tokenise(model, kPrompt), at::kLong).unsqueeze(0);
  visit_patterns(model.model, batch, [&](const PatternView& pattern) {
    const size_t row = pattern.place == HeadPlace{3, 2} ? 0 : pattern.place == HeadPlace{0, 5} ? 1 : 2;
    if (row == 2) return;
    const std::vector<float> own = causal_values(pattern);
    for (size_t n = 0; n < own.size(); ++n) EXPECT_EQ(values[row * entries + n], own[n]);
  });
}

TEST(ServedAnswers, ValueWeightedPatternsAreAttentionTimesWhatIsMoved) {
  nlohmann::json request = {
      {"prompt", kPrompt}, {"model", "openwork-8m"}, {"heads", {"L2H3"}}, {"format", "f32"}};
  const Answer plain = ask("patterns", request);
  request["weights"] = "value";
  const Answer weighted = ask("patterns", request);
  const auto* attention = reinterpret_cast<const float*>(unpack_tensor(*plain.body).data.data());
  const auto* moved = reinterpret_cast<const float*>(unpack_tensor(*weighted.body).data.data());
  const auto entry = [](int64_t query, int64_t key) { return query * (query + 1) / 2 + key; };
  // A key's factor |v W_O| is the same whoever looks at it.
  for (const int64_t key : {0, 1, 3}) {
    const float factor = moved[entry(key, key)] / attention[entry(key, key)];
    for (const int64_t query : {5, 7}) {
      EXPECT_NEAR(moved[entry(query, key)], factor * attention[entry(query, key)], 1e-4 * (1 + factor));
    }
  }
}

TEST(ServedAnswers, AskedForFewerCellsGiveAsMany) {
  const Answer answer =
      ask("patterns", {{"prompt", kPrompt}, {"model", "openwork-8m"}, {"cells", 5}, {"format", "f32"}});
  const UnpackedTensor tensor = unpack_tensor(*answer.body);
  EXPECT_EQ(tensor.header["cells"], 5);
  EXPECT_EQ(tensor.header["shape"][1], 15);
}

TEST(ServedAnswers, AHeadSwitchedOffChangesWhatAblationSays) {
  const TracedModel& model = pair().all().front();
  const std::vector<int64_t> ids = tokenise(model, kPrompt);
  const std::vector<NextToken> likely = likely_tokens(next_logits(model.model, ids), 2);
  const std::vector<Part> parts = {head_part(5, 1), head_part(0, 3)};
  AblationRunner runner(model.model, make_prompt_task(ids, likely[0].id, likely[1].id), AblationKind::kZero);
  const double wanted = runner.run({parts}).front().front();
  const Tensor logits = switched_logits(model.model, ids, {{5, 1}, {0, 3}});
  EXPECT_NEAR(logits[likely[0].id].item<double>() - logits[likely[1].id].item<double>(), wanted, 1e-3);

  const nlohmann::json json =
      ask_json("switch", {{"prompt", kPrompt}, {"off", {{model.name, {"L5H1", "L0H3"}}}}});
  EXPECT_NEAR(json["models"][0]["answer"]["logit"], logits[likely[0].id].item<double>(), 1e-4);
  EXPECT_NEAR(json["models"][0]["answer"]["logit_before"], likely[0].logit, 1e-4);
  EXPECT_EQ(json["models"][1]["off"].size(), 0u);
  EXPECT_EQ(json["models"][1]["answer"]["logit"], json["models"][1]["answer"]["logit_before"]);
}

TEST(ServedAnswers, HeadsMaySayWhatTheySayOnAnotherPrompt) {
  const TracedModel& model = pair().all().front();
  const std::vector<int64_t> ids = tokenise(model, "a b c d"), other = tokenise(model, "a b d d");
  std::vector<HeadPlace> all;
  for (int64_t layer = 0; layer < 8; ++layer)
    for (int64_t head = 0; head < 8; ++head) all.push_back({layer, head});
  EXPECT_TRUE(
      at::allclose(switched_logits(model.model, ids, all, ids), next_logits(model.model, ids), 1e-4, 1e-4));
  EXPECT_FALSE(
      at::allclose(switched_logits(model.model, ids, all, other), next_logits(model.model, ids), 1e-2, 1e-2));
  EXPECT_NE(refusal("switch", {{"prompt", "a b c"}, {"off", {{"openwork-8m", {"L0H0"}}}}, {"corrupt", "a"}}),
            "");
}

TEST(ServedAnswers, TheLensEndsInTheModelsOwnOutput) {
  const TracedModel& model = pair().all().front();
  const std::vector<int64_t> ids = tokenise(model, kPrompt);
  const LogitLens lens = read_lens(model.model, ids, 3);
  ASSERT_EQ(lens.points.size(), 9u);
  ASSERT_EQ(lens.top.back().size(), ids.size());
  const NextToken own = likely_tokens(next_logits(model.model, ids), 1).front();
  EXPECT_EQ(lens.top.back().back().front().id, own.id);
  EXPECT_NEAR(lens.top.back().back().front().probability, own.probability, 1e-5);
  EXPECT_NEAR(lens.answer_probability.back().back(), own.probability, 1e-5);
  const nlohmann::json json = ask_json("lens", {{"prompt", kPrompt}, {"model", model.name}, {"top", 2}});
  EXPECT_EQ(json["points"].front(), "embedding");
  EXPECT_EQ(json["top"][8].back()[0]["token"], " dog");
  EXPECT_EQ(json["top"][0][0].size(), 2u);
}

TEST(ServedAnswers, ImportanceIsWhatSwitchingOffCosts) {
  const nlohmann::json json = ask_json("importance", {{"prompt", kPrompt}, {"models", {"openwork-8m"}}});
  ASSERT_EQ(json["models"].size(), 1u);
  const nlohmann::json& model = json["models"][0];
  EXPECT_EQ(model["answer"]["token"], " dog");
  ASSERT_EQ(model["effects"].size(), 8u);
  const nlohmann::json off =
      ask_json("switch", {{"prompt", kPrompt}, {"off", {{"openwork-8m", {"L4H2"}}}}, {"top", 200}});
  const nlohmann::json& answer = off["models"][0]["answer"];
  double wrong_before = 0, wrong = 0;
  for (const nlohmann::json& row : off["models"][0]["next"]) {
    if (row["id"] == model["wrong"]["id"]) wrong = row["logit"], wrong_before = row["logit_before"];
  }
  const double lost =
      (answer["logit_before"].get<double>() - wrong_before) - (answer["logit"].get<double>() - wrong);
  EXPECT_NEAR(model["effects"][4][2], lost, 1e-3);
}

TEST(ServedAnswers, ACircuitOfOnePromptReachesItsThreshold) {
  const nlohmann::json json = ask_json("circuit", {{"prompt", kPrompt}, {"threshold", 0.8}});
  ASSERT_EQ(json["models"].size(), 2u);
  EXPECT_EQ(json["ratios"].size(), 1u);
  for (const nlohmann::json& model : json["models"]) {
    EXPECT_EQ(model["order"].size(), 64u);
    EXPECT_EQ(model["faithfulness"].size(), model["counts"].size());
    EXPECT_GE(model["faithfulness"][model["heads_at_threshold"].get<size_t>()], 0.8);
    EXPECT_NEAR(model["faithfulness"].back(), 1.0, 1e-4);
  }
  EXPECT_NE(refusal("circuit", {{"task", "/etc/passwd"}}), "");
}

TEST(ServedAnswers, CopiesBeginAsTheModelWasOpened) {  // --bos no: without a token before them
  const auto measure = [](bool begins) {
    std::vector<TracedModel> models;
    models.push_back(open_built_in("openwork-8m"));
    models.front().copy_begins = begins;
    const ParsedRequest asked = parse_request("circuit", R"({"task": "copy", "prompts": 2})");
    UnwatchedWork work;
    const Answer answer = answer_request(ServedModels(std::move(models)), asked.request, work);
    return nlohmann::json::parse(*answer.body)["models"][0]["clean_metric"].get<double>();
  };
  EXPECT_GT(std::abs(measure(true) - measure(false)), 1e-3);
}

TEST(ServedAnswers, ATraceHasAGraphThatItsLimitsThin) {
  const nlohmann::json json = ask_json(
      "trace", {{"prompt", "The old king gave the sword to his"}, {"max_nodes", 40}, {"max_links", 25}});
  for (const nlohmann::json& model : json["models"]) {
    EXPECT_GT(model["graph"]["nodes"].size(), 3u);
    EXPECT_LE(model["graph"]["links"].size(), 25u);
    for (const nlohmann::json& link : model["graph"]["links"]) {
      if (!link.contains("heads")) continue;
      EXPECT_LE(link["heads"].size(), 8u);
      double sum = link.value("other_heads", 0.0);
      for (const nlohmann::json& head : link["heads"]) sum += head["weight"].get<double>();
      EXPECT_NEAR(sum, link["weight"].get<double>(), 1e-3 * (1 + std::abs(sum)));
    }
    EXPECT_FALSE(model["trace"]["explanation"]["heads"].empty());
  }
}

TEST(ServedAnswers, StatisticsOfOnePromptClassifyEveryHead) {
  const nlohmann::json json = ask_json("statistics", {{"prompt", kPrompt}});
  ASSERT_EQ(json["models"].size(), 2u);
  EXPECT_EQ(json["models"][0]["heads"].size(), 64u);
  EXPECT_EQ(json["prompt"], kPrompt);
  EXPECT_EQ(json["comparisons"].size(), 1u);
}

TEST(ServedAnswers, ScatterShowsTheSameHeadsOfBothModels) {
  const nlohmann::json json = ask_json("scatter", {{"prompt", kPrompt}});
  EXPECT_EQ(json["models"][0]["heads"], json["models"][1]["heads"]);
  EXPECT_GE(json["models"][0]["heads"].size(), 2u);
}

TEST(ServedAnswers, AreRecordedForAPageWithoutAServer) {
  std::vector<TracedModel> models;
  models.push_back(open_built_in("openwork-8m-sparse"));
  ModelBackend backend(std::move(models));
  const std::string prompt = "a b </script> a";
  const nlohmann::json page =
      record_page(backend, {.prompt = prompt}, {{"circuit", {{"task", "copy"}}, {{"threshold", 0.9}}}});
  EXPECT_EQ(page["api"]["embedded"], true);
  EXPECT_EQ(page["api"]["prompt"], prompt);
  std::map<std::string, int> count;
  for (const nlohmann::json& entry : page["answers"]) {
    ++count[entry["route"]];
    EXPECT_EQ(entry.contains("binary"), entry["route"] == "/api/patterns");
  }
  const std::map<std::string, int> wanted = {
      {"/api/run", 1},        {"/api/lens", 1},   {"/api/patterns", 2}, {"/api/scatter", 1},
      {"/api/importance", 1}, {"/api/switch", 1}, {"/api/circuit", 1}};
  EXPECT_EQ(page["api"]["tasks"], nlohmann::json({"copy"}));
  EXPECT_EQ(count, wanted);
}

// The service that the program has, without HTTP.
TEST(ServedAnswers, AreRefusedBeforeAJobIsBegun) {
  std::vector<TracedModel> models;
  models.push_back(open_built_in("openwork-8m"));
  ModelBackend backend(std::move(models));
  Service service(backend, {.prompt = kPrompt});
  const auto refuse = [&](const std::string& route, const nlohmann::json& body, const std::string& message) {
    const Reply reply = service.handle({.method = "POST", .path = "/api/" + route, .body = body.dump()});
    EXPECT_EQ(reply.status, 400) << route << body;
    EXPECT_NE(reply.answer.body->find(message), std::string::npos) << *reply.answer.body;
  };
  refuse("importance", {{"task", "nothing"}},
         "no task 'nothing'; \\\"task\\\" of the request; use copy, ioi");
  refuse("circuit", {{"task", "nothing"}}, "no task 'nothing'");
  refuse("importance", {{"prompt", "a b"}, {"answer", "two words"}}, "'two words' is");
  refuse("trace", {{"prompt", "a b"}, {"target", "two words"}}, "'two words' is not one token but");
  refuse("trace", {{"prompt", "a b"}, {"from", 7}}, "position 7 of a prompt of");
  refuse("statistics", {{"models", {"nothing"}}}, "no model 'nothing'");
}

TEST(ServedAnswers, SayWhatAModelHasNot) {
  EXPECT_NE(refusal("run", {{"prompt", ""}}), "");
  EXPECT_NE(refusal("run", {{"prompt", "a"}, {"models", {"none"}}}), "");
  EXPECT_NE(refusal("patterns", {{"prompt", "a"}, {"model", "openwork-8m"}, {"heads", {"L9H0"}}}), "");
  EXPECT_NE(refusal("patterns", {{"prompt", "a"}, {"model", "openwork-8m"}, {"heads", {"L0H0,L0H1;"}}}), "");
  EXPECT_NE(refusal("switch", {{"prompt", "a"}, {"off", {{"none", {"L0H0"}}}}}), "");
  EXPECT_NE(refusal("importance", {{"prompt", "a b"}, {"answer", "two words here"}}), "");
  std::string long_prompt;
  for (int n = 0; n < 600; ++n) long_prompt += " word";
  EXPECT_NE(refusal("run", {{"prompt", long_prompt}}).find("context"), std::string::npos);
  EXPECT_NE(refusal("scatter", {{"prompt", "a b"}, {"heads", {"L0H0"}}}), "");
}

}  // namespace
}  // namespace openwork::serve
