// Tracing where the answer is known otherwise: a toy model worked out by hand, gradients of the frozen model,
// and what must be refused.
#include "analyze/trace/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analyze/trace_fixtures.h"
#include "base/error.h"
#include "model/architecture.h"
#include "model/load.h"
#include "ops/gated_attention.h"

namespace openwork {
namespace {

// A GPT-2 of two layers and one head whose MLPs are transcoders (ReLU) and whose norms do nothing: a huge
// epsilon, undone by the weight; all vectors sum to 0, so that centring changes none. Queries and keys are 0:
// a token looks at itself and all before it alike. Tokens 0 and 1 are embedded as a and b, token 2's logit
// reads (a + 2b)/2.
//   layer 0   F0 reads a/2 and writes c
//   layer 1   the head finds c and writes a;  F0 reads a/2 and writes 2b;  F1 reads b/2 - 1/2 and writes a
class Toy {
 public:
  Toy() : model(make_model()) {
    transcoders.input = TranscoderInput::kNormed;
    for (int64_t l = 0; l < 2; ++l) {
      const Layer& layer = model.layer(l);
      transcoders.layers.push_back({.encoder = layer.up.matrix().contiguous(),
                                    .encoder_bias = layer.up.bias,
                                    .threshold = at::zeros({4}),
                                    .decoder = layer.down.matrix().t().contiguous().unsqueeze(1),
                                    .decoder_bias = at::zeros({4}),
                                    .skip = {}});
    }
  }

  Transformer model;
  Transcoders transcoders;

 private:
  static Transformer make_model() {
    const nlohmann::json config = {{"model_type", "gpt2"},
                                   {"n_layer", 2},
                                   {"n_head", 1},
                                   {"n_embd", 4},
                                   {"n_inner", 4},
                                   {"n_positions", 4},
                                   {"vocab_size", 3},
                                   {"layer_norm_epsilon", 1e12},
                                   {"activation_function", "relu"},
                                   {"tie_word_embeddings", false}};
    const ModelConfig shape = read_model_config(config, "test");
    const Tensor a = at::tensor({1.f, -1.f, 0.f, 0.f}), b = at::tensor({0.f, 0.f, 1.f, -1.f}),
                 c = at::tensor({1.f, 1.f, -1.f, -1.f});
    NamedTensors parameters;
    for (const ParameterSpec& spec : list_parameters(architecture_named("gpt2", "test"), shape)) {
      Tensor value = at::zeros(spec.shape);
      const bool norm =
          spec.role == Role::kNorm1 || spec.role == Role::kNorm2 || spec.role == Role::kFinalNorm;
      if (norm && !spec.bias) value.fill_(1e6);
      if (spec.role == Role::kEmbedding) value[0] = a, value[1] = b;
      if (spec.role == Role::kUnembedding && !spec.bias) value[2] = (a + 2 * b) / 2;
      // GPT-2's matrices lie as [in, out].
      if (spec.role == Role::kUp && !spec.bias) value.select(1, 0).copy_(a / 2);
      if (spec.role == Role::kUp && spec.layer == 1 && !spec.bias) value.select(1, 1).copy_(b / 2);
      if (spec.role == Role::kUp && spec.layer == 1 && spec.bias) value[1] = -0.5;
      if (spec.role == Role::kDown && !spec.bias) value[0] = spec.layer == 0 ? c : 2 * b;
      if (spec.role == Role::kDown && spec.layer == 1 && !spec.bias) value[1] = a;
      if (spec.role == Role::kQkv && spec.layer == 1 && !spec.bias) value.select(1, 8).copy_(c / 4);
      if (spec.role == Role::kAttentionOutput && spec.layer == 1 && !spec.bias) value[0] = a;
      parameters.emplace_back(spec.name, value);
    }
    return Transformer(shape, parameters);
  }
};

using Links = std::map<std::string, double>;

Links links_of(const TraceGraph& graph) {
  Links links;
  for (const TraceLink& link : graph.links) {
    if (std::abs(link.weight) < 1e-6) continue;  // rounding: what norms of 1e6 leave of 0
    links[graph.nodes[static_cast<size_t>(link.source)].name() + " -> " +
          graph.nodes[static_cast<size_t>(link.target)].name()] = link.weight;
  }
  return links;
}

void expect_links(const Links& found, const Links& expected) {
  for (const auto& [name, weight] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_NEAR(found.at(name), weight, 1e-5) << name;
  }
  for (const auto& [name, weight] : found) EXPECT_TRUE(expected.contains(name)) << name << " " << weight;
}

TraceSettings toy_settings() {
  TraceSettings settings = keep_everything();
  settings.targets = {2};
  return settings;
}

TEST(Trace, OfAToyModelIsTheGraphWorkedOutByHand) {
  const Toy toy;
  Tracer tracer(toy.model, &toy.transcoders, at::tensor({0, 1}, at::kLong), toy_settings());
  const TraceGraph& graph = tracer.find_graph();
  expect_links(links_of(graph), {{"T@1 -> 2", 2.0},
                                 {"L1F0@1 -> 2", 2.0},
                                 {"L1F1@1 -> 2", 0.5},
                                 {"L0F0@0 -> 2", 0.5},
                                 {"L0F0@0 -> L1F0@1", 0.5},
                                 {"T@1 -> L1F1@1", 1.0},
                                 {"B1@1 -> L1F1@1", -0.5},
                                 {"T@0 -> L0F0@0", 1.0}});
  EXPECT_EQ(graph.active_features, 4);  // L1F0@0 too, which nothing reads
  std::map<std::string, TraceNode> nodes;
  for (const TraceNode& node : graph.nodes) nodes[node.name()] = node;
  const std::map<std::string, std::pair<double, double>> values = {// value, influence
                                                                   {"L0F0@0", {1.0, 0.1 + 0.4}},
                                                                   {"L1F0@1", {0.5, 0.4}},
                                                                   {"L1F1@1", {0.5, 0.1}},
                                                                   {"B1@1", {0.0, 0.1 / 3}},
                                                                   {"T@0", {0.0, 0.5}},
                                                                   {"T@1", {2.0, 0.4 + 0.1 * 2 / 3}},
                                                                   {"2", {5.0, 1.0}}};
  for (const auto& [name, value] : values) {
    ASSERT_TRUE(nodes.contains(name)) << name;
    EXPECT_NEAR(nodes[name].value, value.first, 1e-5) << name;
    EXPECT_NEAR(nodes[name].influence, value.second, 1e-5) << name;
  }
  // Its MLPs are the transcoders: nothing is left to errors, and nothing changes when they are replaced.
  ASSERT_TRUE(graph.worth.has_value());
  EXPECT_NEAR(graph.worth->replacement, 1, 1e-5);
  EXPECT_NEAR(graph.worth->completeness, 1, 1e-5);
  EXPECT_NEAR(graph.worth->replaced_loss, graph.worth->model_loss, 1e-5);
  for (const TraceLink& link : graph.links) {
    if (graph.nodes[static_cast<size_t>(link.source)].name() != "L0F0@0") continue;
    ASSERT_FALSE(link.heads.empty());
    EXPECT_EQ(link.heads[0].head.name(), "L1H0");
    EXPECT_NEAR(link.heads[0].weight, 0.5, 1e-5);
  }
}

TEST(Trace, OfAToyModelWithItsMlpsWhole) {
  const Toy toy;
  Tracer tracer(toy.model, nullptr, at::tensor({0, 1}, at::kLong), toy_settings());
  // MLP 1 at token 1 writes b and a/2: 2.5 of the logit, of which 2 come by F0's a/2 and 1/2 by F1. What F1
  // reads is b: 1, less 1/2 of bias.
  expect_links(links_of(tracer.find_graph()), {{"T@1 -> 2", 2.0},
                                               {"M1@1 -> 2", 2.5},
                                               {"M0@0 -> 2", 0.5},
                                               {"M0@0 -> M1@1", 2.0},
                                               {"T@1 -> M1@1", 1.0},
                                               {"B1@1 -> M1@1", -0.5},
                                               {"T@0 -> M0@0", 2.5}});
}

TEST(Trace, ExplainsTheToysOnlyMove) {
  const Toy toy;
  Tracer tracer(toy.model, &toy.transcoders, at::tensor({0, 1}, at::kLong), toy_settings());
  const HeadExplanation found = tracer.explain(0, 1, 0.8);
  ASSERT_EQ(found.needed, 1);
  EXPECT_EQ(found.heads[0].head.name(), "L1H0");
  EXPECT_NEAR(found.total, 1.0, 1e-5);  // 1/2 to the logit, 1/2 to L1F0
  EXPECT_NEAR(found.flows[0].weight, 1.0, 1e-5);
  EXPECT_THROW(tracer.explain(1, 0, 0.8), Error);
  EXPECT_THROW(tracer.explain(0, 2, 0.8), Error);
}

TEST(Trace, InterventionsOnTheToyDoWhatIsWorkedOut) {
  const Toy toy;
  Tracer tracer(toy.model, &toy.transcoders, at::tensor({0, 1}, at::kLong), toy_settings());
  const TraceIntervention ablated = tracer.intervene("L0F0@0", 0);
  EXPECT_NEAR(ablated.predicted, -0.5, 1e-5);
  EXPECT_NEAR(ablated.frozen, -0.5, 1e-5);
  EXPECT_NEAR(ablated.total, -2.5, 1e-5);     // L1F0@1 goes with it,
  EXPECT_NEAR(ablated.measured, -2.5, 1e-5);  // and does so in the model
  const TraceIntervention head = tracer.intervene("L1H0", 0);
  EXPECT_NEAR(head.frozen, -0.5, 1e-5);
  EXPECT_NEAR(head.total, -2.5, 1e-5);
  EXPECT_NEAR(head.measured, -2.5, 1e-5);
  EXPECT_THROW(tracer.intervene("L0F1@0", 0), Error);  // not active
  EXPECT_THROW(tracer.intervene("B1@1", 0), Error);
  EXPECT_THROW(tracer.intervene("L2H0", 0), Error);
  EXPECT_THROW(tracer.intervene("nonsense", 0), Error);
}

// The frozen model once more, by taps and autograd: patterns and scales replaced by constants, embeddings and
// MLP outputs by leaves whose gradients are wanted.
struct FrozenGradients {
  Tensor embedding;             // [T, D]
  std::vector<Tensor> outputs;  // per layer [T, D]
};

template <typename Scalar>
FrozenGradients differentiate(const Transformer& model, const Tensor& ids, ActivationName read_at,
                              const Scalar& scalar) {
  const auto layers = static_cast<size_t>(model.config().layers);
  std::vector<Tensor> outputs(layers);
  std::map<ActivationName, Tensor> fixed;
  Taps record, replay;
  const auto fix = [&](Site site, int64_t layer) {
    record.read({site, layer}, [&fixed, site, layer](const Tensor& x) {
      fixed[{site, layer}] = x.detach().clone();
    });
    replay.replace({site, layer}, [&fixed, site, layer](const Tensor&) { return fixed[{site, layer}]; });
  };
  for (int64_t l = 0; l < model.config().layers; ++l) {
    fix(Site::kPattern, l);
    fix(Site::kNorm1Scale, l);
    if (model.config().norm_placement == NormPlacement::kBefore) fix(Site::kNorm2Scale, l);
    replay.replace({Site::kMlpOut, l}, [&outputs, l](const Tensor& x) {
      return outputs[static_cast<size_t>(l)] = x.detach().clone().requires_grad_(true);
    });
  }
  fix(Site::kFinalScale, -1);
  {
    const at::NoGradGuard no_grad;
    model.forward(ids.unsqueeze(0), {.taps = &record});
  }
  Tensor read, start;
  replay.replace({Site::kResidPre, 0},
                 [&start](const Tensor& x) { return start = x.detach().clone().requires_grad_(true); });
  replay.read(read_at, [&read](const Tensor& x) { read = x; });
  const at::AutoGradMode with_gradients(true);
  const Tensor logits = model.forward(ids.unsqueeze(0), {.taps = &replay});
  scalar(read, logits).backward();
  FrozenGradients found{start.grad()[0], {}};
  for (Tensor& output : outputs)
    found.outputs.push_back(output.grad().defined() ? output.grad()[0] : at::zeros_like(start[0]));
  return found;
}

class TraceAgainstAutograd : public testing::TestWithParam<const char*> {};

TEST_P(TraceAgainstAutograd, EffectsAreGradientTimesWriting) {
  const Transformer model = load_model(GetParam());
  const Transcoders transcoders = random_transcoders(model.config());
  const Tensor ids = made_up_ids(model.config().vocabulary, 7);
  Tracer tracer(model, &transcoders, ids, keep_everything());
  const TraceGraph& graph = tracer.find_graph();
  int64_t compared = 0;
  for (size_t target = 0; target < graph.nodes.size(); ++target) {
    const TraceNode& to = graph.nodes[target];
    const bool logit = to.kind == TraceNodeKind::kLogit;
    if (!logit && (to.kind != TraceNodeKind::kFeature || target % 5 != 0)) continue;
    const int64_t layer = logit ? 0 : to.layer;
    const LayerTranscoder& own = transcoders.layers[static_cast<size_t>(layer)];
    const FrozenGradients gradients = differentiate(
        model, ids, transcoder_input(model.config(), transcoders.input, layer),
        [&](const Tensor& read, const Tensor& logits) {
          return logit ? logits[0][-1][to.feature] : at::dot(own.encoder[to.feature], read[0][to.position]);
        });
    for (const TraceLink& link : graph.links) {
      const TraceNode& from = graph.nodes[static_cast<size_t>(link.source)];
      if (link.target != static_cast<int64_t>(target) || from.kind != TraceNodeKind::kFeature) continue;
      const auto source_layer = static_cast<size_t>(from.layer);
      const Tensor writing = from.value * transcoders.layers[source_layer].decoder[from.feature][0];
      const double expected = at::dot(gradients.outputs[source_layer][from.position], writing).item<double>();
      EXPECT_NEAR(link.weight, expected, 1e-5 + 1e-4 * std::abs(expected))
          << from.name() << " -> " << to.name();
      ++compared;
    }
  }
  EXPECT_GT(compared, 50);
}

INSTANTIATE_TEST_SUITE_P(Models, TraceAgainstAutograd,
                         testing::Values("tests/data/gpt2", "tests/data/gpt_neox", "tests/data/llama",
                                         "tests/data/olmo", "tests/data/olmo2",
                                         "tests/data/sparse_gpt2_published", "tests/data/llama_idle",
                                         "tests/data/variants/olmo2_grouped"));

TEST(Trace, OfOneTokenHasNoMoves) {
  const Transformer model = load_model("tests/data/gpt2");
  const Transcoders transcoders = random_transcoders(model.config());
  for (const Transcoders* with : {static_cast<const Transcoders*>(nullptr), &transcoders}) {
    Tracer tracer(model, with, at::tensor({5}, at::kLong), keep_everything());
    const TraceGraph& graph = tracer.find_graph();
    EXPECT_LE(graph.sums.effects, 1e-4);
    EXPECT_EQ(graph.sums.links, 0);
    EXPECT_GT(graph.links.size(), 5u);
  }
}

TEST(Trace, AttributesToTheMostInfluentialFirst) {
  const Transformer model = load_model("models/openwork-8m");
  const Tensor ids = made_up_ids(model.config().vocabulary, 12);
  TraceSettings few = keep_everything(10);
  Tracer all(model, nullptr, ids, keep_everything()), some(model, nullptr, ids, few);
  EXPECT_EQ(some.find_graph().nodes_attributed, 10);
  std::vector<double> influences;
  std::map<std::string, double> by_name;
  for (const TraceNode& node : all.find_graph().nodes) {
    if (node.kind != TraceNodeKind::kMlp) continue;
    influences.push_back(node.influence);
    by_name[node.name()] = node.influence;
  }
  std::sort(influences.rbegin(), influences.rend());
  // Ten chosen with what was known then are among the thirty that matter most.
  for (const TraceNode& node : some.find_graph().nodes) {
    if (node.kind != TraceNodeKind::kMlp) continue;
    EXPECT_GE(by_name[node.name()], influences[30]) << node.name();
  }
}

TEST(Trace, PruningLeavesASmallerGraph) {
  const Transformer model = load_model("models/openwork-8m");
  const Tensor ids = made_up_ids(model.config().vocabulary, 12);
  Tracer whole(model, nullptr, ids, keep_everything()), pruned(model, nullptr, ids, {});
  EXPECT_LT(pruned.find_graph().nodes.size(), whole.find_graph().nodes.size());
  EXPECT_LT(pruned.find_graph().links.size(), whole.find_graph().links.size() / 2);
  for (const TraceNode& node : pruned.find_graph().nodes) {
    EXPECT_GE(node.influence, 0);
    EXPECT_LE(node.influence, 1 + 1e-6);
  }
}

TEST(Trace, WeighsSeveralTargetsByTheirProbabilities) {
  const Transformer model = load_model("tests/data/llama");
  TraceSettings settings = keep_everything();
  settings.targets = {7, 11};
  Tracer tracer(model, nullptr, made_up_ids(97, 6), settings);
  const TraceGraph& graph = tracer.find_graph();
  const TraceNode &first = graph.nodes[graph.nodes.size() - 2], &second = graph.nodes.back();
  EXPECT_EQ(first.feature, 7);
  EXPECT_EQ(second.feature, 11);
  EXPECT_NEAR(first.influence + second.influence, 1, 1e-9);
  EXPECT_NEAR(first.influence / second.influence, first.probability / second.probability, 1e-6);
  EXPECT_LE(graph.sums.effects, 1e-4);
}

TEST(Trace, OnAGpuIsTheSame) {
  load_cuda_operators();
  if (!at::hasCUDA()) GTEST_SKIP() << "no GPU here";
  const Transformer here = load_model("models/openwork-8m-sparse"),
                    there = load_model("models/openwork-8m-sparse", {.device = at::kCUDA});
  const Transcoders transcoders = random_transcoders(here.config());
  Transcoders moved = transcoders;
  for (LayerTranscoder& layer : moved.layers) {
    for (Tensor* part :
         {&layer.encoder, &layer.encoder_bias, &layer.threshold, &layer.decoder, &layer.decoder_bias})
      *part = part->to(at::kCUDA);
  }
  const Tensor ids = made_up_ids(here.config().vocabulary, 12);
  Tracer cpu(here, &transcoders, ids, {}), gpu(there, &moved, ids, {});
  EXPECT_LE(gpu.find_graph().sums.effects, 1e-4);
  EXPECT_LE(gpu.find_graph().sums.heads, 1e-4);
  const Links expected = links_of(cpu.find_graph()), found = links_of(gpu.find_graph());
  EXPECT_NEAR(static_cast<double>(found.size()), static_cast<double>(expected.size()),
              0.01 * static_cast<double>(expected.size()));
  for (const auto& [name, weight] : expected) {
    if (!found.contains(name)) continue;  // at the edge of what pruning keeps
    EXPECT_NEAR(found.at(name), weight, 1e-4 * std::max(1.0, std::abs(weight))) << name;
  }
  EXPECT_EQ(gpu.explain(3, 11, 0.8).needed, cpu.explain(3, 11, 0.8).needed);
  const TraceIntervention change = gpu.intervene("L3H1", 0);
  EXPECT_NEAR(change.frozen, change.predicted, 1e-4 * std::max(1.0, std::abs(change.predicted)));
  EXPECT_NEAR(gpu.attribute_score({4, 1}, 9, 2, 1).score, cpu.attribute_score({4, 1}, 9, 2, 1).score, 1e-3);
}

template <typename Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

TEST(Trace, SaysHowMuchMemoryItNeedsAndRefusesWhatIsTooMuch) {
  const Transformer model = load_model("tests/data/gpt2");
  const Tensor ids = made_up_ids(97, 8);
  TraceSettings settings;
  const int64_t bytes = Tracer::bytes_needed(model.config(), nullptr, 8, settings);
  EXPECT_GT(Tracer::bytes_needed(model.config(), nullptr, 60, settings), bytes);
  settings.memory = bytes - 1;
  const std::string message = message_of([&] { Tracer(model, nullptr, ids, settings); });
  EXPECT_NE(message.find(std::to_string(bytes)), std::string::npos) << message;
  EXPECT_NE(message.find("--max-nodes"), std::string::npos) << message;
  settings.memory = bytes;
  EXPECT_LE(Tracer(model, nullptr, ids, settings).find_graph().sums.effects, 1e-4);
}

TEST(Trace, RefusesMoreActiveFeaturesThanThereIsMemoryFor) {
  const Transformer model = load_model("tests/data/gpt2");
  const Transcoders transcoders = random_transcoders(model.config(), {.features = 4096, .threshold = -100});
  const Tensor ids = made_up_ids(97, 40);
  TraceSettings settings;
  settings.active_features = 8;
  settings.memory = Tracer::bytes_needed(model.config(), &transcoders, 40, settings);
  EXPECT_NE(message_of([&] { Tracer(model, &transcoders, ids, settings); }).find("bytes"), std::string::npos);
}

TEST(Trace, RefusesWhatDoesNotGoTogether) {
  const Transformer model = load_model("tests/data/gpt2"),
                    other = load_model("tests/data/variants/llama_biases");
  const Transcoders transcoders = random_transcoders(other.config());
  const Tensor ids = made_up_ids(61, 4);
  TraceSettings settings;
  settings.targets = {97};
  EXPECT_NE(message_of([&] { Tracer(model, nullptr, ids, settings); }).find("97"), std::string::npos);
  settings.targets = {-1};
  EXPECT_NE(message_of([&] { Tracer(model, nullptr, ids, settings); }), "");
  EXPECT_NE(message_of([&] { Tracer(model, &transcoders, ids, {}); }), "");
  EXPECT_NE(message_of([&] { Tracer(model, nullptr, at::zeros({0}, at::kLong), {}); }), "");
  const Transformer narrow = load_model("tests/data/gpt2", {.dtype = at::kBFloat16});
  EXPECT_NE(message_of([&] { Tracer(narrow, nullptr, ids, {}); }).find("fp32"), std::string::npos);
}

}  // namespace
}  // namespace openwork
