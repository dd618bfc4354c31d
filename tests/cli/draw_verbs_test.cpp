// heads and scatter as a person calls them: what is drawn, what is said about it, and what is refused.
#include <cmath>
#include <set>

#include "cli/command.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

// A copy of the tiny GPT-2 with another number of heads (its weights have the same shapes for any), and,
// where asked, the published form's gate.
class TinyModel {
 public:
  explicit TinyModel(int heads, bool gated = false) {
    const fs::path from = gated ? "tests/data/sparse_gpt2_published" : "tests/data/gpt2";
    for (const auto& entry : fs::directory_iterator(from)) {
      if (entry.path().filename() != "golden.safetensors") fs::copy(entry.path(), scratch_.path());
    }
    nlohmann::json config = nlohmann::json::parse(read_file(scratch_ / "config.json"));
    if (heads > 0) config["n_head"] = heads;
    std::ofstream(scratch_ / "config.json") << config;
  }
  std::string path() const { return scratch_.path().string(); }

 private:
  ScratchFolder scratch_;
};

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(HeadsVerb, DrawsEveryHeadAndSaysSo) {
  const ScratchFolder scratch;
  const ProgramResult result = run_openwork({"heads", "openwork-8m", "When Mary and John went", "--out",
                                             scratch / "h.svg", "--json", "-", "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json model = result.json()["models"][0];
  EXPECT_EQ(model["heads"], 64);
  EXPECT_EQ(model["shown"].size(), 64u);
  EXPECT_EQ(model["shown"][9]["head"], "L1H1");
  EXPECT_EQ(model["blank"].size(), 0u);
  EXPECT_NEAR(model["shown"][0]["mass"].get<double>(), 1, 1e-5);
  EXPECT_EQ(result.json()["scale"]["shared"], true);
  EXPECT_GT(result.json()["scale"]["high"].get<double>(), 0.9);
  EXPECT_EQ(result.json()["protocol"]["models"][0]["name"], "openwork-8m");
  EXPECT_EQ(files_in(scratch.path()), std::vector<std::string>{"h.svg"});
  EXPECT_TRUE(read_file(scratch / "h.svg").starts_with("<?xml"));
}

TEST(HeadsVerb, EachFormatIsItsOwn) {
  const ScratchFolder scratch;
  for (const auto& [name, start] : std::vector<std::pair<std::string, std::string>>{
           {"h.png", "\x89PNG"}, {"h.pdf", "%PDF-"}, {"h.svg", "<?xml"}}) {
    ASSERT_EQ(run_openwork({"heads", "openwork-8m", "a b", "--out", scratch / name}).exit_code, 0);
    EXPECT_TRUE(read_file(scratch / name).starts_with(start)) << name;
  }
}

TEST(HeadsVerb, ChoosesLayersHeadsAndOrder) {
  const ScratchFolder scratch;
  const auto shown = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "heads", "openwork-8m", "The opposite of 'large' is '", "--out", scratch / "h.svg", "--json", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_openwork(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json model = result.json()["models"][0];
    std::vector<std::string> names;
    for (const nlohmann::json& head : model["shown"]) names.push_back(head["head"]);
    return names;
  };
  EXPECT_EQ(shown({"--layers", "even", "--heads", "1"}),
            (std::vector<std::string>{"L0H1", "L2H1", "L4H1", "L6H1"}));
  EXPECT_EQ(shown({"--heads", "L5H6,L0H0"}), (std::vector<std::string>{"L5H6", "L0H0"}));
  EXPECT_EQ(shown({"--layers", "0,2-3", "--heads", "0-1", "--top", "3"}),
            (std::vector<std::string>{"L0H0", "L0H1", "L2H0"}));
  EXPECT_EQ(shown({"--order", "importance", "--top", "1"}),
            std::vector<std::string>{"L5H6"});  // its previous-token head
}

TEST(HeadsVerb, NamesNoEndOfAScaleThatHeadsDoNotShare) {
  const ScratchFolder scratch;
  const ProgramResult result = run_openwork({"heads", "openwork-8m", "a", "--top", "1", "--scale", "head",
                                             "--out", scratch / "h.svg", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.json()["scale"]["high"].is_null());
}

TEST(HeadsVerb, FramesTheStrongestMovesOfThePrompt) {
  const ScratchFolder scratch;
  const ProgramResult result =
      run_openwork({"heads", "openwork-8m", "The opposite of 'large' is '", "--preset", "prompt", "--out",
                    scratch / "h.svg", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  size_t frames = 0;
  const nlohmann::json model = result.json()["models"][0];
  for (const nlohmann::json& head : model["shown"]) frames += head["frames"].size();
  EXPECT_EQ(frames, 12u);
  const ProgramResult edge =
      run_openwork({"heads", "openwork-8m", "The opposite of 'large' is '", "--from", "5", "--to", "8",
                    "--frames", "4", "--out", scratch / "h.svg", "--json", "-"});
  std::set<std::string> ends;
  const nlohmann::json watched = edge.json()["models"][0];
  for (const nlohmann::json& head : watched["shown"]) {
    for (const std::string frame : head["frames"]) ends.insert(frame.substr(frame.find(':')));
  }
  EXPECT_EQ(ends, std::set<std::string>{":8<-5"});
}

TEST(HeadsVerb, BlankHeadsKeepTheirPlaceOrAreLeftOutAndCounted) {
  const ScratchFolder scratch;
  const TinyModel model(0, true);
  const ProgramResult left_out =
      run_openwork({"heads", model.path(), "--tokens", "3,1,4,1,5,9,2,6", "--blank", "leave-out", "--out",
                    scratch / "h.svg", "--json", "-"});
  ASSERT_EQ(left_out.exit_code, 0) << left_out.err;
  const nlohmann::json without = left_out.json()["models"][0];
  EXPECT_EQ(without["gated"], true);
  EXPECT_EQ(without["shown"].size() + without["blank"].size(), without["heads"].get<size_t>());
  const ProgramResult shown = run_openwork(
      {"heads", model.path(), "--tokens", "3,1,4,1,5,9,2,6", "--out", scratch / "h.svg", "--json", "-"});
  EXPECT_EQ(shown.json()["models"][0]["shown"].size(), without["heads"].get<size_t>());
  EXPECT_EQ(shown.json()["models"][0]["blank"], without["blank"]);
}

TEST(HeadsVerb, OneTokenOneHeadAndNoTokenizer) {
  const ScratchFolder scratch;
  const TinyModel model(1);
  const ProgramResult result =
      run_openwork({"heads", model.path(), "--tokens", "7", "--out", scratch / "h.png", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json()["models"][0]["tokens"], 1);
  EXPECT_EQ(result.json()["models"][0]["shown"][0]["head"], "L0H0");
  EXPECT_EQ(
      run_openwork({"heads", "openwork-8m", "日本\n\tnaïve\xF0\x9F\x98\x80", "--out", scratch / "h.svg"})
          .exit_code,
      0);
}

TEST(HeadsVerb, SeveralModelsAndPromptsOfOneLength) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "tokens.json") << "[[1, 2, 3], [4, 5, 6]]";
  const ProgramResult result =
      run_openwork({"heads", "openwork-8m", "tests/data/gpt2", "--tokens-file", scratch / "tokens.json",
                    "--out", scratch / "h.svg", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json()["models"].size(), 2u);
  EXPECT_EQ(result.json()["models"][1]["prompts"], 2);
  std::ofstream(scratch / "uneven.json") << "[[1, 2, 3], [4, 5]]";
  expect_refusal(
      {"heads", "openwork-8m", "--tokens-file", scratch / "uneven.json", "--out", scratch / "h.svg"},
      "prompts of 3 and 2 tokens");
}

TEST(HeadsVerb, RefusesWhatItCannotDo) {
  const ScratchFolder scratch;
  const std::string out = scratch / "h.svg";
  const auto refuse = [&](std::vector<std::string> more, const std::string& message) {
    std::vector<std::string> arguments = {"heads", "openwork-8m", "a b c", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refusal(arguments, message);
  };
  expect_refusal({"heads", "openwork-8m", "--out", out}, "no prompt");
  expect_refusal({"heads", "openwork-8m", "", "--out", out}, "the prompt is empty");
  expect_refusal({"heads", "openwork-9m", "a b c", "--out", out}, "openwork-9m");
  refuse({"--layers", "8"}, "number 8");
  refuse({"--layers", "some"}, "'some' is not a list of numbers");
  refuse({"--layers", "3-1"}, "'3-1' is not a list of numbers");
  refuse({"--heads", "0-8"}, "number 8");
  refuse({"--heads", "L9H0"}, "no head L9H0");
  refuse({"--heads", "L1"}, "'L1' is not a list of heads");
  refuse({"--heads", "L1H1", "--layers", "1"}, "heads by name and --layers together");
  refuse({"--from", "1"}, "one end of an edge");
  refuse({"--from", "2", "--to", "1"}, "no edge from key 2 to query 1");
  refuse({"--from", "0", "--to", "99"}, "no edge from key 0 to query 99");
  refuse({"--preset", "sketch"}, "sketch");
  refuse({"--order", "beauty"}, "beauty");
  refuse({"--top", "0"}, "--top");
  refuse({"--scale", "head", "--scale-high", "0.5"}, "--scale-high with --scale head");
  refuse({"--dpi", "1"}, "--dpi");
  EXPECT_TRUE(files_in(scratch.path()).empty());
}

TEST(FigureVerbs, AnOutputThatCannotBeWrittenIsSaidBeforeTheWork) {
  const ScratchFolder scratch;
  for (const std::string verb : {"heads", "scatter"}) {
    expect_refusal({verb, "openwork-8m", "a b c", "--out", scratch / "none/h.svg"}, "no such folder");
    expect_refusal({verb, "openwork-8m", "a b c", "--out", scratch / "h.gif"},
                   "end it in .svg, .pdf or .png");
    expect_refusal({verb, "openwork-8m", "a b c", "--out", scratch / "h"}, "end it in .svg, .pdf or .png");
    fs::create_directories(scratch / "folder.svg");
    expect_refusal({verb, "openwork-8m", "a b c", "--out", scratch / "folder.svg"},
                   "a folder where an output file is wanted");
  }
}

TEST(ScatterVerb, CorrelatesTheHeadsThatAreNamed) {
  const ScratchFolder scratch;
  const ProgramResult result =
      run_openwork({"scatter", "openwork-8m", "When Mary and John went to the store, John gave a drink to",
                    "--heads", "L5H6,L6H0,L6H3", "--out", scratch / "s.svg", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json model = result.json()["models"][0];
  EXPECT_EQ(model["heads"], (std::vector<std::string>{"L5H6", "L6H0", "L6H3"}));
  const auto tokens = model["tokens"].get<int64_t>();
  EXPECT_EQ(model["pairs"], tokens * (tokens + 1) / 2);
  EXPECT_EQ(model["pearson"][0][0], 1.0);
  EXPECT_EQ(model["pearson"][0][2], model["pearson"][2][0]);
  // The two induction heads are alike, the previous-token head is another thing.
  EXPECT_GT(model["pearson"][1][2].get<double>(), 0.9);
  EXPECT_LT(std::abs(model["pearson"][0][1].get<double>()), 0.5);
}

TEST(ScatterVerb, ChoosesSixHeadsAndShowsTheSameOfEveryModel) {
  const ScratchFolder scratch;
  const ProgramResult result = run_openwork(
      {"scatter", "openwork-8m", "openwork-8m", "a b c a b c", "--out", scratch / "s.png", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json()["models"][0]["heads"].size(), 6u);
  EXPECT_EQ(result.json()["models"][0]["heads"], result.json()["models"][1]["heads"]);
  EXPECT_EQ(result.json()["models"][0]["pearson"], result.json()["models"][1]["pearson"]);
}

TEST(ScatterVerb, RefusesHeadsThatAreNotThere) {
  const ScratchFolder scratch;
  const TinyModel one_head(1);
  expect_refusal({"scatter", "openwork-8m", "a b", "--heads", "L0H1", "--out", scratch / "s.svg"},
                 "one head");
  expect_refusal({"scatter", "openwork-8m", "a b", "--heads", "L0H1,L8H0", "--out", scratch / "s.svg"},
                 "no head L8H0");
  expect_refusal({"scatter", "openwork-8m", "a b", "--heads", "first", "--out", scratch / "s.svg"},
                 "'first' is not a list of heads");
  expect_refusal(
      {"scatter", one_head.path(), "openwork-8m", "--tokens", "1,2,3,4", "--out", scratch / "s.svg"},
      "no head");
}

}  // namespace
}  // namespace openwork
