// Names to files, on folders made for each test.
#include "io/model_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "flow/scoped_environment.h"
#include "io/hub_cache.h"
#include "io/package.h"
#include "io/safe_files.h"
#include "io/sha256.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

class ModelStore : public testing::Test {
 protected:
  ModelStore() : folder_(fs::temp_directory_path(), "openwork-test") {
    places_ = {{folder_.path() / "first", folder_.path() / "second"},
               folder_.path() / "cache",
               folder_.path() / "hub"};
  }

  fs::path make_builtin(const std::string& place, const std::string& name) const {
    write(folder_.path() / place / name / "config.json", R"({"model_type": "gpt2"})");
    return folder_.path() / place / name;
  }

  fs::path make_adapter(const fs::path& folder, const std::string& base) const {
    write(folder / "adapter_config.json", R"({"base_model_name_or_path": ")" + base + R"("})");
    return folder;
  }

  fs::path make_cached(const std::string& id, const std::string& revision, const std::string& commit) const {
    const HubCache cache(places_.hub, id);
    write(cache.blob("aa"), R"({"model_type": "llama"})");
    cache.link(commit, "config.json", "aa");
    cache.write_ref(revision, commit);
    return cache.snapshot(commit);
  }

  fs::path make_fetched() const {
    const fs::path path = packaged_model_path(*find_packaged_model("smollm2-135m"), places_);
    std::string head = std::string("GGUF\3\0\0\0", 8) + std::string(16, '\0');
    head += std::string("\x14\0\0\0\0\0\0\0", 8) + "general.architecture" + std::string("\x08\0\0\0", 4);
    write(path, head + std::string("\x05\0\0\0\0\0\0\0", 8) + "llama");
    return path;
  }

  std::string error_of(const std::string& name) const {
    try {
      locate_model(name, places_);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
      return error.what();
    }
    ADD_FAILURE() << "no error for " << name;
    return "";
  }

  TemporaryFolder folder_;
  ModelPlaces places_;
};

TEST_F(ModelStore, TakesAPathBeforeABuiltIn) {
  make_builtin("first", "tiny");
  const fs::path here = fs::current_path();
  fs::create_directories(folder_.path() / "here" / "tiny");
  fs::current_path(folder_.path() / "here");
  const LocatedModel model = locate_model("tiny", places_);
  fs::current_path(here);
  EXPECT_EQ(model.kind, ModelKind::kFolder);
  EXPECT_EQ(model.path, "tiny");
}

TEST_F(ModelStore, TakesFilesByPath) {
  write(folder_.path() / "a.gguf", "GGUF");
  write(folder_.path() / "tokenizer.json", "{}");
  EXPECT_EQ(locate_model((folder_.path() / "a.gguf").string(), places_).kind, ModelKind::kGguf);
  EXPECT_EQ(locate_model((folder_.path() / "tokenizer.json").string(), places_).kind, ModelKind::kFile);
}

TEST_F(ModelStore, TakesALoneGgufForItsFolder) {
  write(folder_.path() / "lone" / "a.gguf", "GGUF");
  const std::string name = (folder_.path() / "lone").string();
  EXPECT_EQ(locate_model(name, places_).path, folder_.path() / "lone" / "a.gguf");
  write(folder_.path() / "lone" / "b.gguf", "GGUF");
  EXPECT_EQ(locate_model(name, places_).path, folder_.path() / "lone");
}

TEST_F(ModelStore, SearchesBuiltInFoldersInOrder) {
  const fs::path second = make_builtin("second", "tiny");
  EXPECT_EQ(locate_model("tiny", places_).path, second);
  const fs::path first = make_builtin("first", "tiny");
  EXPECT_EQ(locate_model("tiny", places_).path, first);
  EXPECT_EQ(locate_model("tiny", places_).kind, ModelKind::kBuiltin);
}

TEST_F(ModelStore, TakesABuiltInBeforeAFetchedOneBeforeACachedOne) {
  const fs::path cached = make_cached("smollm2-135m", "main", kCommit);
  EXPECT_EQ(locate_model("smollm2-135m", places_).path, cached);
  const fs::path fetched = make_fetched();
  EXPECT_EQ(locate_model("smollm2-135m", places_).path, fetched);
  EXPECT_EQ(locate_model("smollm2-135m", places_).kind, ModelKind::kFetched);
  const fs::path builtin = make_builtin("first", "smollm2-135m");
  EXPECT_EQ(locate_model("smollm2-135m", places_).path, builtin);
}

TEST_F(ModelStore, IgnoresFoldersWithoutAConfiguration) {
  fs::create_directories(folder_.path() / "first" / "notes");
  EXPECT_THAT(error_of("notes"), HasSubstr("no model 'notes'"));
}

TEST_F(ModelStore, FindsHubIdsByRevision) {
  const fs::path snapshot = make_cached("org/repo", "main", kCommit);
  EXPECT_EQ(locate_model("org/repo", places_).path, snapshot);
  EXPECT_EQ(locate_model("hf:org/repo", places_).kind, ModelKind::kHubCache);
  EXPECT_EQ(locate_model(std::string("org/repo@") + kCommit, places_).path, snapshot);
  EXPECT_THAT(error_of("org/repo@v2"), HasSubstr("not its revision 'v2'"));
}

TEST_F(ModelStore, SaysWhichRevisionTheCacheHas) {
  make_cached("org/repo", "v1", kCommit);
  EXPECT_THAT(error_of("org/repo"), HasSubstr(std::string("write org/repo@") + kCommit));
}

TEST_F(ModelStore, IgnoresARefThatLeavesTheCache) {
  make_cached("org/repo", "main", kCommit);
  write(HubCache(places_.hub, "org/repo").folder() / "refs/main", "../../../first");
  fs::create_directories(folder_.path() / "first");
  error_of("org/repo");
}

TEST_F(ModelStore, JoinsAModelAndItsAdapter) {
  const fs::path base = make_builtin("first", "tiny");
  const fs::path adapter = make_adapter(folder_.path() / "lora+v2", "elsewhere");
  const std::string name = "tiny+" + adapter.string();
  const LocatedModel model = locate_model(name, places_);
  EXPECT_EQ(model.name, name);
  EXPECT_EQ(model.path, base);
  EXPECT_EQ(model.adapter, adapter);
}

TEST_F(ModelStore, FindsTheBaseOfAnAdapterNamedAlone) {
  const fs::path base = make_fetched();
  const fs::path adapter = make_adapter(folder_.path() / "first" / "smollm2-135m-sparse", "smollm2-135m");
  const LocatedModel model = locate_model("smollm2-135m-sparse", places_);
  EXPECT_EQ(model.path, base);
  EXPECT_EQ(model.adapter, adapter);
  EXPECT_EQ(model.kind, ModelKind::kBuiltin);
}

TEST_F(ModelStore, SaysWhatAnAdapterLacks) {
  const fs::path adapter = make_adapter(folder_.path() / "lora", "org/absent");
  EXPECT_THAT(error_of(adapter.string()), HasSubstr("no base model 'org/absent'"));
  make_adapter(folder_.path() / "circle", (folder_.path() / "circle").string());
  EXPECT_THAT(error_of((folder_.path() / "circle").string()), HasSubstr("no base model"));
  write(adapter / "adapter_config.json", "no json");
  EXPECT_THAT(error_of(adapter.string()), HasSubstr("does not name its base"));
  make_builtin("first", "tiny");
  make_builtin("first", "small");
  EXPECT_THAT(error_of("tiny+small"), HasSubstr("is no adapter"));
  EXPECT_THAT(error_of("tiny+absent"), HasSubstr("no model 'absent'"));
  EXPECT_THAT(error_of("absent+tiny"), HasSubstr("no model 'absent'"));
}

TEST_F(ModelStore, SuggestsNearNames) {
  make_builtin("first", "openwork-8m");
  make_cached("org/repository", "main", kCommit);
  EXPECT_THAT(error_of("openwork8m"), HasSubstr("did you mean openwork-8m?"));
  EXPECT_THAT(error_of("org/repositry"), HasSubstr("did you mean org/repository?"));
  EXPECT_THAT(error_of("smolm2-135m"), HasSubstr("did you mean smollm2-135m?"));
  EXPECT_THAT(error_of("entirely-different"), Not(HasSubstr("did you mean")));
}

TEST_F(ModelStore, SaysWhatToRun) {
  EXPECT_THAT(error_of("smollm2-135m"), HasSubstr("run `openwork fetch smollm2-135m`"));
  EXPECT_THAT(error_of("org/repo"), HasSubstr("`openwork fetch hf:org/repo`"));
  EXPECT_THAT(error_of("nothing"), HasSubstr("`openwork models`"));
  EXPECT_THAT(error_of("./nothing"), HasSubstr("no file or folder './nothing'"));
  EXPECT_THAT(error_of("nothing.gguf"), HasSubstr("no file or folder"));
  EXPECT_THAT(error_of(""), HasSubstr("an empty model name"));
}

TEST_F(ModelStore, ListsBuiltInThenFetchedThenCached) {
  make_cached("org/repo", "main", kCommit);
  make_fetched();
  make_builtin("second", "b");
  const fs::path first = make_builtin("first", "a");
  make_builtin("second", "a");
  write(first / "model.safetensors", std::string(1000, 'x'));
  const std::vector<ModelListing> models = list_models(places_);
  std::vector<std::string> names;
  for (const ModelListing& model : models) names.push_back(model.name);
  ASSERT_THAT(names, ElementsAre("a", "b", "smollm2-135m", "org/repo"));
  EXPECT_EQ(models[0].path, first);
  EXPECT_EQ(models[0].bytes, 1000 + fs::file_size(first / "config.json"));
  EXPECT_EQ(models[0].architecture, "gpt2");
  EXPECT_EQ(models[2].architecture, "llama");
  EXPECT_EQ(models[3].architecture, "llama");
  EXPECT_GT(models[3].bytes, 0u);  // through the link
}

TEST_F(ModelStore, ListsNothingWhereThereIsNothing) {
  EXPECT_TRUE(list_models(places_).empty());
}

TEST_F(ModelStore, HashesWeightsAndConfigurationOnly) {
  const fs::path folder = make_builtin("first", "tiny");
  write(folder / "model.safetensors", "weights");
  const std::string hash = model_hash(folder);
  const std::string config = R"({"model_type": "gpt2"})";
  EXPECT_EQ(hash,
            sha256_of_bytes("config.json " + std::to_string(config.size()) + " " + sha256_of_bytes(config) +
                            "\nmodel.safetensors 7 " + sha256_of_bytes("weights") + "\n"));
  write(folder / "README.md", "a card");
  EXPECT_EQ(model_hash(folder), hash);
  write(folder / "model.safetensors", "Weights");
  EXPECT_NE(model_hash(folder), hash);
  EXPECT_EQ(model_hash(folder / "model.safetensors"), sha256_of_bytes("Weights"));
}

TEST(ModelPlaces, FollowTheEnvironment) {
  const ScopedEnvironment models("OPENWORK_MODELS", "/one::/two"), home("HOME", "/home/me"),
      old("HUGGINGFACE_HUB_CACHE", {});
  const ScopedEnvironment shared("XDG_CACHE_HOME", {}), own("OPENWORK_CACHE", {}), hub("HF_HUB_CACHE", {}),
      hf("HF_HOME", {});
  ModelPlaces places = find_model_places();
  EXPECT_EQ(places.builtin.at(0), "/one");
  EXPECT_EQ(places.builtin.at(1), "/two");
  EXPECT_EQ(places.fetched, "/home/me/.cache/openwork");
  EXPECT_EQ(places.hub, "/home/me/.cache/huggingface/hub");
  {
    const ScopedEnvironment set("XDG_CACHE_HOME", "/shared");
    EXPECT_EQ(find_model_places().fetched, "/shared/openwork");
    EXPECT_EQ(find_model_places().hub, "/shared/huggingface/hub");
  }
  const ScopedEnvironment set_own("OPENWORK_CACHE", "~/mine"), set_hf("HF_HOME", "/hf");
  EXPECT_EQ(find_model_places().fetched, "/home/me/mine");
  EXPECT_EQ(find_model_places().hub, "/hf/hub");
  const ScopedEnvironment set_hub("HF_HUB_CACHE", "/direct");
  EXPECT_EQ(find_model_places().hub, "/direct");
}

}  // namespace
}  // namespace openwork
