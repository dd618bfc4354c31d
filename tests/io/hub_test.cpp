// Fetching from a hub on this machine (flow/hub_server.h) that redirects, breaks off, lies and refuses.
#include "io/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/progress.h"
#include "flow/hub_server.h"
#include "flow/scoped_environment.h"
#include "io/safe_files.h"
#include "io/sha256.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string make_bytes(size_t count) {
  std::string bytes(count, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  return bytes;
}

class Hub : public testing::Test {
 protected:
  Hub()
      : folder_(fs::temp_directory_path(), "openwork-test"), endpoint_("HF_ENDPOINT", hub_.endpoint() + "/") {
    set_quiet(true);
    options_.places = {{}, folder_.path() / "openwork", folder_.path() / "hub"};
    options_.http.first_wait = std::chrono::milliseconds(1);
    hub_.add_file("config.json", R"({"model_type": "gpt2"})");
    hub_.add_large_file("model.safetensors", weights_);
  }
  ~Hub() override { set_quiet(false); }

  FetchedModel fetch(const std::string& revision = "main") {
    return fetch_from_hub({HubServer::kRepo, revision}, options_);
  }

  Error expect_error(const std::string& name = std::string("hf:") + HubServer::kRepo) {
    try {
      fetch_model(name, options_);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error(Error::Kind::kFailure, "", "", "");
  }

  fs::path repo_folder() const { return options_.places.hub / "models--someone--tiny-model"; }
  fs::path weights_blob() const { return repo_folder() / "blobs" / sha256_of_bytes(weights_); }
  size_t store_requests() const { return hub_.count("store", "GET", ""); }

  HubServer hub_;
  TemporaryFolder folder_;
  FetchOptions options_;
  std::string weights_ = make_bytes(100000);
  ScopedEnvironment endpoint_;
  ScopedEnvironment token_{"HF_TOKEN", std::nullopt}, offline_{"HF_HUB_OFFLINE", std::nullopt};
};

TEST_F(Hub, FillsTheCacheAsPythonLaysItOut) {
  const FetchedModel model = fetch();
  EXPECT_EQ(model.name, HubServer::kRepo);
  EXPECT_EQ(model.revision, HubServer::kCommit);
  EXPECT_EQ(model.path, repo_folder() / "snapshots" / HubServer::kCommit);
  EXPECT_EQ(read_file(repo_folder() / "refs/main"), HubServer::kCommit);
  const fs::path link = model.path / "model.safetensors";
  EXPECT_EQ(fs::read_symlink(link).string(), "../../blobs/" + sha256_of_bytes(weights_));
  EXPECT_EQ(read_file(link), weights_);
  EXPECT_EQ(fs::read_symlink(model.path / "config.json").filename(),
            git_blob_sha1_of_bytes(read_file(model.path / "config.json")));
  EXPECT_FALSE(fs::exists(weights_blob().string() + ".incomplete"));
}

TEST_F(Hub, FetchesNothingAgain) {
  fetch();
  const size_t before = store_requests();
  const FetchedModel again = fetch();
  EXPECT_EQ(store_requests(), before);
  for (const FetchedFile& file : again.files) EXPECT_FALSE(file.downloaded) << file.name;
}

TEST_F(Hub, RepairsABlobThatWasDamaged) {
  fetch();
  std::ofstream(weights_blob(), std::ios::binary) << std::string(weights_.size(), 'x');
  fetch();
  EXPECT_EQ(read_file(weights_blob()), weights_);
}

TEST_F(Hub, SendsTheTokenToTheHubAndNeverToTheStore) {
  const ScopedEnvironment token("HF_TOKEN", "hf_secret");
  hub_.required_token = "hf_secret";
  fetch();
  ASSERT_GT(store_requests(), 0u);
  for (const HubRequest& request : hub_.requests()) {
    EXPECT_EQ(request.authorization, request.server == "hub" ? "Bearer hf_secret" : "") << request.path;
  }
}

TEST_F(Hub, FollowsARenamedRepository) {
  const ScopedEnvironment token("HF_TOKEN", "hf_secret");
  hub_.required_token = "hf_secret";
  hub_.renamed = true;
  EXPECT_EQ(read_file(fetch().path / "model.safetensors"), weights_);
}

TEST_F(Hub, GoesOnWhereAConnectionBroke) {
  hub_.breaks = 2;
  hub_.break_after = 40000;
  EXPECT_EQ(read_file(fetch().path / "model.safetensors"), weights_);
  std::vector<std::string> ranges;
  for (const HubRequest& request : hub_.requests()) {
    if (request.server == "store") ranges.push_back(request.range);
  }
  // Pieces of 4096 bytes: nine whole ones come before 40000 are passed.
  EXPECT_THAT(ranges, ElementsAre("", "bytes=36864-", "bytes=73728-"));
}

TEST_F(Hub, GoesOnFromAnEarlierRunsIncompleteFile) {
  fs::create_directories(weights_blob().parent_path());
  std::ofstream(weights_blob().string() + ".incomplete", std::ios::binary) << weights_.substr(0, 60000);
  EXPECT_EQ(read_file(fetch().path / "model.safetensors"), weights_);
  ASSERT_EQ(store_requests(), 1u);
  for (const HubRequest& request : hub_.requests()) {
    if (request.server == "store") {
      EXPECT_EQ(request.range, "bytes=60000-");
    }
  }
}

TEST_F(Hub, TakesAnIncompleteFileThatIsWhole) {
  fs::create_directories(weights_blob().parent_path());
  std::ofstream(weights_blob().string() + ".incomplete", std::ios::binary) << weights_;
  EXPECT_EQ(read_file(fetch().path / "model.safetensors"), weights_);
}

TEST_F(Hub, BeginsAnewWhereTheStoreOffersNoRanges) {
  hub_.breaks = 1;
  hub_.break_after = 40000;
  hub_.ignores_ranges = true;
  EXPECT_EQ(read_file(fetch().path / "model.safetensors"), weights_);
  EXPECT_EQ(store_requests(), 2u);
  EXPECT_EQ(hub_.requests().back().range, "bytes=36864-");  // asked for, and not heeded
}

TEST_F(Hub, GivesUpOnAConnectionThatBreaksEveryTime) {
  hub_.breaks = 1000;
  hub_.break_after = 0;
  options_.http.attempts = 3;
  const Error error = expect_error();
  EXPECT_EQ(error.exit_code(), 1);
  EXPECT_THAT(error.what(), HasSubstr("cannot reach the server"));
  EXPECT_THAT(error.what(), Not(HasSubstr("secret")));  // the signed part of the address
  EXPECT_EQ(store_requests(), 3u);
  EXPECT_FALSE(fs::exists(repo_folder() / "refs/main"));
}

TEST_F(Hub, WaitsOutABusyServer) {
  hub_.busy = 3;
  EXPECT_EQ(read_file(fetch().path / "model.safetensors"), weights_);
}

TEST_F(Hub, DeletesAFileWithAWrongHash) {
  const std::string wrong = sha256_of_bytes("something else");
  hub_.etags["model.safetensors"] = wrong;
  const Error error = expect_error();
  EXPECT_EQ(error.exit_code(), 1);
  EXPECT_THAT(error.what(), HasSubstr("the hash of 'model.safetensors' is wrong"));
  EXPECT_FALSE(fs::exists(repo_folder() / "blobs" / wrong));
  EXPECT_FALSE(fs::exists(repo_folder() / "blobs" / (wrong + ".incomplete")));
  EXPECT_FALSE(fs::exists(repo_folder() / "refs/main"));
}

TEST_F(Hub, ChecksSmallFilesByGitsHash) {
  hub_.etags["config.json"] = git_blob_sha1_of_bytes("something else");
  EXPECT_THAT(expect_error().what(), HasSubstr("the hash of 'config.json' is wrong"));
}

TEST_F(Hub, TakesFilesWithoutAHashUnderTheirOwn) {
  hub_.etags["model.safetensors"] = "";
  EXPECT_EQ(read_file(fetch().path / "model.safetensors"), weights_);
  EXPECT_TRUE(fs::exists(weights_blob()));
}

TEST_F(Hub, AsksByGetWhereHeadIsUnknown) {
  hub_.knows_head = false;
  EXPECT_EQ(read_file(fetch().path / "model.safetensors"), weights_);
  EXPECT_TRUE(fs::exists(weights_blob()));
}

TEST_F(Hub, SaysThatATokenIsNeeded) {
  hub_.required_token = "hf_secret";
  const Error error = expect_error();
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.what(), HasSubstr("without a token"));
  EXPECT_THAT(error.what(), HasSubstr("set HF_TOKEN"));
}

TEST_F(Hub, SaysThatAModelIsGated) {
  hub_.status = 403;
  const Error error = expect_error();
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.what(), HasSubstr("ask for access"));
}

TEST_F(Hub, SaysThatAModelOrRevisionIsMissing) {
  EXPECT_THAT(expect_error("hf:someone/other").what(), HasSubstr("the hub has no 'someone/other'"));
  hub_.status = 404;
  hub_.error_code = "RevisionNotFound";
  const Error error = expect_error("hf:someone/tiny-model@v9");
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.what(), HasSubstr("no revision 'v9'"));
}

TEST_F(Hub, SaysThatTheServerCannotBeReached) {
  const ScopedEnvironment nowhere("HF_ENDPOINT", "http://127.0.0.1:9");  // the discard port: nothing listens
  const Error error = expect_error();
  EXPECT_EQ(error.exit_code(), 1);
  EXPECT_THAT(error.what(), HasSubstr("cannot reach the server"));
  EXPECT_THAT(error.what(), HasSubstr("HF_ENDPOINT"));
}

TEST_F(Hub, KeepsOffTheNetworkWhenTold) {
  const ScopedEnvironment off("HF_HUB_OFFLINE", "1");
  EXPECT_EQ(expect_error().exit_code(), 2);
  EXPECT_TRUE(hub_.requests().empty());
}

TEST_F(Hub, RefusesAnAnswerThatIsNotJson) {
  hub_.list_text = "<html>Please log in to this network</html>";
  EXPECT_THAT(expect_error().what(), HasSubstr("not a hub's list of files"));
  hub_.list_text = R"({"sha": "0123", "siblings": ["config.json"]})";
  EXPECT_THAT(expect_error().what(), HasSubstr("not a hub's list of files"));
}

TEST_F(Hub, RefusesFileNamesThatLeaveTheFolder) {
  for (const std::string name : {"../../escape", "/etc/escape", "a/../../b", "a\\\\b", "a//b", ""}) {
    hub_.list_text = R"({"sha": "0123", "siblings": [{"rfilename": ")" + name + R"("}]})";
    EXPECT_THAT(expect_error().what(), HasSubstr("points outside its folder")) << name;
  }
}

TEST_F(Hub, RefusesACommitThatLeavesTheFolder) {
  hub_.commit = "../../escape";
  EXPECT_THAT(expect_error().what(), HasSubstr("is no commit"));
}

TEST_F(Hub, PutsPlainFilesIntoAFolder) {
  options_.to = folder_.path() / "here";
  hub_.breaks = 1;
  hub_.break_after = 40000;
  const FetchedModel model = fetch();
  EXPECT_EQ(model.path, *options_.to);
  EXPECT_FALSE(fs::is_symlink(model.path / "model.safetensors"));
  EXPECT_EQ(read_file(model.path / "model.safetensors"), weights_);
  EXPECT_FALSE(fs::exists(options_.places.hub));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(model.path)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, UnorderedElementsAre("config.json", "model.safetensors"));
}

TEST_F(Hub, RemovesWhatFetchesOfOtherVersionsLeftInAFolder) {
  options_.to = folder_.path() / "here";
  fs::create_directories(*options_.to);
  const fs::path stale = *options_.to / ("model.safetensors." + std::string(64, 'a') + ".incomplete");
  const fs::path mine = *options_.to / "model.safetensors.mine.incomplete";
  std::ofstream(stale) << "half";
  std::ofstream(mine) << "not ours";
  fetch();
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(mine));
}

TEST_F(Hub, KeepsWhatWasThereWhenTheNewFileIsWrong) {
  options_.to = folder_.path() / "here";
  fs::create_directories(*options_.to);
  std::ofstream(*options_.to / "model.safetensors") << "mine";
  hub_.etags["model.safetensors"] = sha256_of_bytes("something else");
  expect_error();
  EXPECT_EQ(read_file(*options_.to / "model.safetensors"), "mine");
}

TEST_F(Hub, SaysThatTheTargetCannotBeWritten) {
  std::ofstream(folder_.path() / "file") << "in the way";
  options_.to = folder_.path() / "file" / "below";
  EXPECT_THAT(expect_error().what(), HasSubstr("cannot make the folder"));
}

TEST_F(Hub, SaysThatTheDiskIsFull) {
  hub_.claimed_size = uint64_t{1} << 60;
  const Error error = expect_error();
  EXPECT_EQ(error.exit_code(), 1);
  EXPECT_THAT(error.what(), HasSubstr("are free"));
  EXPECT_EQ(store_requests(), 0u);
}

TEST_F(Hub, LeavesNothingBehindWhenTheDiskFillsUp) {
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small = {50000, old.rlim_max};  // a limit on file sizes stands for the full disk
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Error error = expect_error();
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error.exit_code(), 1);
  EXPECT_THAT(error.what(), HasSubstr("cannot write the file"));
  EXPECT_THAT(error.what(), HasSubstr("free some space"));
  EXPECT_FALSE(fs::exists(weights_blob().string() + ".incomplete"));
}

TEST_F(Hub, KeepsTheRevisionAskedFor) {
  fetch("refs/pr/1");
  EXPECT_EQ(hub_.count("hub", "GET", "/revision/refs%2Fpr%2F1"), 1u);
  EXPECT_EQ(read_file(repo_folder() / "refs/refs/pr/1"), HubServer::kCommit);
}

TEST_F(Hub, FetchesTheShardsAnIndexLists) {
  HubServer hub;
  const ScopedEnvironment endpoint("HF_ENDPOINT", hub.endpoint());
  hub.add_file("config.json", "{}");
  hub.add_file(
      "model.safetensors.index.json",
      R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-1.safetensors"}})");
  for (const char* name : {"model-1.safetensors", "model-2.safetensors", "consolidated.safetensors"}) {
    hub.add_large_file(name, std::string("content of ") + name);
  }
  const FetchedModel model = fetch();
  EXPECT_EQ(read_file(model.path / "model-2.safetensors"), "content of model-2.safetensors");
  EXPECT_FALSE(fs::exists(model.path / "consolidated.safetensors"));
}

std::vector<std::string> weights_of(const std::vector<std::string>& names, const std::string& wanted = "") {
  return plan_files(names, wanted, "a repository").weights;
}

TEST(FilePlan, TakesOneFormOfTheWeights) {
  EXPECT_THAT(weights_of({"model.safetensors", "pytorch_model.bin", "x.gguf", "onnx/model.safetensors"}),
              ElementsAre("model.safetensors"));
  EXPECT_THAT(weights_of({"pytorch_model.bin", "training_args.bin", "x.gguf"}),
              ElementsAre("pytorch_model.bin"));
  EXPECT_THAT(weights_of({"config.json", "final.pth", "rng_state.pth", "optimizer.pth", "scheduler.pth"}),
              ElementsAre("final.pth"));
  EXPECT_THAT(weights_of({"weights.pth", "rng_state_0.pth", "rng_state_1.pth"}), ElementsAre("weights.pth"));
  EXPECT_THAT(weights_of({"README.md", "x.gguf"}), ElementsAre("x.gguf"));
  EXPECT_THAT(weights_of({"other.safetensors"}), ElementsAre("other.safetensors"));
}

TEST(FilePlan, TakesConfigurationAndTokenizer) {
  const FilePlan plan = plan_files({"README.md", "config.json", "tokenizer.json", "merges.txt",
                                    "chat_template.jinja", "generation_config.json", "model.safetensors"},
                                   "", "");
  EXPECT_THAT(plan.small, UnorderedElementsAre("config.json", "tokenizer.json", "merges.txt",
                                               "chat_template.jinja", "generation_config.json"));
}

TEST(FilePlan, TakesAnAdapter) {
  const FilePlan plan =
      plan_files({"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"}, "", "");
  EXPECT_THAT(plan.adapter, ElementsAre("adapter_model.safetensors"));
  EXPECT_TRUE(plan.weights.empty());
}

TEST(FilePlan, AsksWhichOfSeveralGgufFiles) {
  EXPECT_THROW(weights_of({"a.gguf", "b.gguf"}), Error);
  EXPECT_THAT(weights_of({"a.gguf", "b.gguf"}, "b.gguf"), ElementsAre("b.gguf"));
  EXPECT_THROW(weights_of({"a.gguf", "b.gguf"}, "c.gguf"), Error);
}

TEST(FilePlan, RefusesARepositoryWithoutWeights) {
  EXPECT_THROW(weights_of({"README.md", "config.json"}), Error);
}

TEST(FilePlan, RefusesAnIndexThatListsWhatIsNotThere) {
  EXPECT_THROW(read_shard_names(R"({"weight_map": {"a": "../x"}})", {"model-1.safetensors"}, "index"), Error);
  EXPECT_THROW(read_shard_names(R"({"weight_map": {"a": 1}})", {}, "index"), Error);
  EXPECT_THROW(read_shard_names("no json", {}, "index"), Error);
}

TEST(HubName, ReadsIdsAndRevisions) {
  EXPECT_EQ(parse_hub_name("hf:org/repo@v1")->id, "org/repo");
  EXPECT_EQ(parse_hub_name("hf:org/repo@v1")->revision, "v1");
  EXPECT_EQ(parse_hub_name("org/repo")->revision, "main");
  EXPECT_EQ(parse_hub_name("gpt2")->id, "gpt2");
  for (const char* bad :
       {"", "hf:", "a/b/c", "../b", "a/..", "a--b/c", "a/b@", "a/b@../c", "a b/c", "/a", "a/"}) {
    EXPECT_FALSE(parse_hub_name(bad)) << bad;
  }
}

TEST(Fetch, SaysHowToNameWhatItDoesNotKnow) {
  try {
    fetch_model("org/repo");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_THAT(error.what(), HasSubstr("write hf:org/repo"));
  }
}

}  // namespace
}  // namespace openwork
