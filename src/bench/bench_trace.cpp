// openwork bench trace: a 50-token prompt traced with random transcoders of 4,096 features, 32 of them active
// per token and layer on average, to the 2,000 most influential nodes; and the batched linear pass against
// the plain way, one backward pass of the frozen model per target by autograd, on fewer targets. Same
// numbers, same run.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyze/trace/trace.h"
#include "analyze/trace/trace_targets.h"
#include "base/median.h"
#include "base/progress.h"
#include "bench/benches.h"
#include "bench/measure.h"

namespace openwork {
namespace {

constexpr int64_t kTokens = 50, kFeatures = 4096, kActive = 32, kPlainTargets = 64;

Tensor draw_prompt(const Transformer& model, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randint(0, model.config().vocabulary, {kTokens}, generator, at::kLong).to(model.device());
}

// Encoders and decoders of random directions, with thresholds that let kActive features pass per token.
Transcoders draw_transcoders(const Transformer& model, const Tensor& ids, uint64_t seed) {
  const ModelConfig& config = model.config();
  at::Generator generator = at::detail::createCPUGenerator(seed);
  Transcoders made;
  std::vector<Tensor> inputs(static_cast<size_t>(config.layers));  // [T, D]
  Taps taps;
  for (int64_t l = 0; l < config.layers; ++l) {
    Tensor& input = inputs[static_cast<size_t>(l)];
    taps.read(transcoder_input(config, made.input, l), [&input](const Tensor& x) { input = x[0]; });
  }
  ForwardOptions options;
  options.taps = &taps;
  options.last_only = true;
  model.forward(ids.unsqueeze(0), options);
  const double scale = 1 / std::sqrt(static_cast<double>(config.width));
  const auto draw = [&](at::IntArrayRef sizes) {
    return (scale * at::randn(sizes, generator)).to(model.device());
  };
  for (const Tensor& input : inputs) {
    LayerTranscoder layer;
    layer.encoder = draw({kFeatures, config.width});
    layer.encoder_bias = draw({kFeatures});
    layer.decoder = draw({kFeatures, 1, config.width});
    layer.decoder_bias = draw({config.width});
    const Tensor before = at::linear(input, layer.encoder, layer.encoder_bias).flatten();  // [T F]
    const Tensor threshold = std::get<0>(before.kthvalue(before.numel() - kTokens * kActive));
    layer.threshold = threshold.expand({kFeatures}).contiguous();
    made.layers.push_back(layer);
  }
  return made;
}

// As people write it: the frozen model by hooks, its graph kept, one backward pass per target. The effects of
// all features, by column: [targets, columns].
class PlainTracer {
 public:
  PlainTracer(const FrozenRun& run, const Transcoders& transcoders)
      : run_(run), outputs_(run.layers.size()), reads_(run.layers.size()) {
    const at::AutoGradMode with_gradients(true);
    Taps taps;
    taps.replace({Site::kResidPre, 0}, [](const Tensor& x) { return x.detach().requires_grad_(true); });
    for (int64_t l = 0; l < run.config().layers; ++l) {
      const FrozenLayer& layer = run.layer(l);
      taps.replace({Site::kNorm1Scale, l}, [&layer](const Tensor&) { return layer.scale.unsqueeze(0); });
      taps.replace({Site::kNorm2Scale, l}, [&layer](const Tensor&) { return layer.mlp_scale.unsqueeze(0); });
      taps.replace({Site::kPattern, l}, [&layer](const Tensor&) { return layer.pattern.unsqueeze(0); });
      taps.read(transcoder_input(run.config(), transcoders.input, l),
                [this, l](const Tensor& x) { reads_[static_cast<size_t>(l)] = x; });
      taps.replace({Site::kMlpOut, l}, [this, l](const Tensor& x) {
        return outputs_[static_cast<size_t>(l)] = x.detach().clone().requires_grad_(true);
      });
    }
    ForwardOptions options;
    options.taps = &taps;
    options.last_only = true;
    run.model.forward(run.ids, options);
  }

  Tensor find_effects(const TraceSources& sources, const Transcoders& transcoders, int64_t column) {
    const TraceNode& target = sources.node(column);
    const Tensor row = transcoders.layers[static_cast<size_t>(target.layer)].encoder[target.feature];
    {
      const at::AutoGradMode with_gradients(true);
      const Tensor read = reads_[static_cast<size_t>(target.layer)][0][target.position];
      at::dot(row, read).backward({}, /*retain_graph=*/true);
    }
    const at::NoGradGuard no_grad;
    Tensor effects = at::zeros({sources.columns()}, run_.embedding.options());
    for (int64_t l = 0; l < target.layer; ++l) {
      Tensor& gradient = outputs_[static_cast<size_t>(l)].mutable_grad();
      const SourcePiece piece = sources.pieces_at(StreamPoint::kOutput, l).front();
      const Tensor rows = piece.first_rows(piece.count());
      effects.narrow(0, piece.first, piece.count())
          .copy_((rows * gradient[0].index_select(0, piece.positions)).sum(1));
      gradient.reset();
    }
    return effects;
  }

 private:
  const FrozenRun& run_;
  std::vector<Tensor> outputs_, reads_;
};

struct WaysCompared {
  double plain = 0, batched = 0, difference = 0;  // seconds; the largest difference over the largest effect
};

WaysCompared compare_ways(const Transformer& model, const Transcoders& transcoders, const Tensor& ids,
                          int repeats) {
  const FrozenRun run = run_frozen(model, &transcoders, ids);
  const TraceSources sources(run, &transcoders);
  const LinearPass pass(run, &transcoders);
  const TargetReader reader(pass, sources, &transcoders, 0);
  std::vector<int64_t> columns;  // from every layer, the highest first
  for (int64_t n = kPlainTargets - 1; n >= 0; --n)
    columns.push_back((2 * n + 1) * sources.attributable() / (2 * kPlainTargets));
  std::vector<double> plain, batched;
  Tensor expected, effects;
  for (int n = 0; n < repeats; ++n) {
    plain.push_back(seconds_of(
        [&] {
          PlainTracer tracer(run, transcoders);
          std::vector<Tensor> rows;
          for (const int64_t column : columns)
            rows.push_back(tracer.find_effects(sources, transcoders, column));
          expected = at::stack(rows).narrow(1, 0, sources.attributable());
        },
        model.device(), 1));
    batched.push_back(seconds_of(
        [&] {
          effects = find_effects(pass, sources, reader.nodes(columns)).narrow(1, 0, sources.attributable());
        },
        model.device(), 1));
  }
  return {median(plain), median(batched),
          ((effects - expected).abs().max() / expected.abs().max()).item<double>()};
}

}  // namespace

nlohmann::json bench_trace(const BenchSettings& options) {
  const at::NoGradGuard no_grad;
  const Transformer model = options.open_model(at::kFloat);
  const Tensor ids = draw_prompt(model, options.seed);
  const Transcoders transcoders = draw_transcoders(model, ids, options.seed);
  TraceGraph graph;
  const int64_t bytes = Tracer::bytes_needed(model.config(), &transcoders, kTokens, {});
  double seconds = 0;
  const double megabytes = peak_megabytes(
      [&] {
        seconds =
            seconds_of([&] { graph = Tracer(model, &transcoders, ids, {}).find_graph(); }, model.device(), 1);
      },
      model.device());
  options.say(fmt::format(
      "{} tokens, {} active features, {} nodes attributed: {:.2f} s, {:.0f} MB (at most {:.0f} said "
      "beforehand); {} nodes and {} links kept; effects off by {:.1e}, head shares by {:.1e}",
      kTokens, graph.active_features, graph.nodes_attributed, seconds, megabytes,
      1e-6 * static_cast<double>(bytes), graph.nodes.size(), graph.links.size(), graph.sums.effects,
      graph.sums.heads));
  const WaysCompared ways = compare_ways(model, transcoders, ids, options.repeats);
  options.say(
      fmt::format("{} targets: one backward pass each {:.3f} s, batched {:.3f} s, ratio {:.2f}, largest "
                  "difference {:.1e}",
                  kPlainTargets, ways.plain, ways.batched, ways.plain / ways.batched, ways.difference));
  return {{"rows",
           {{{"case", "graph"},
             {"tokens", kTokens},
             {"active_features", graph.active_features},
             {"nodes_attributed", graph.nodes_attributed},
             {"seconds", seconds},
             {"megabytes", megabytes},
             {"bytes_needed", bytes},
             {"nodes", graph.nodes.size()},
             {"links", graph.links.size()},
             {"effects_error", graph.sums.effects},
             {"heads_error", graph.sums.heads}},
            {{"case", "effects"},
             {"targets", kPlainTargets},
             {"plain_s", ways.plain},
             {"batched_s", ways.batched},
             {"ratio", ways.plain / ways.batched},
             {"largest_difference", ways.difference}}}},
          {"protocol",
           {{"model", options.describe_model()},
            {"device", model.device().str()},
            {"features", kFeatures},
            {"active", kActive},
            {"repeats", options.repeats}}}};
}

}  // namespace openwork
