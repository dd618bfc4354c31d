#include "analyze/save_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "io/safetensors.h"

namespace openwork {
namespace {

// Tensors on their way into a file, kept alive until it is written.
class TensorList {
 public:
  void add(const std::string& name, const Tensor& tensor) {
    const bool whole = tensor.scalar_type() == at::kLong;
    kept_.emplace_back(name, tensor.detach().to(at::kCPU, whole ? at::kLong : at::kFloat).contiguous());
  }

  void write(const std::string& file) const {
    std::vector<OutputTensor> outputs;
    for (const auto& [name, tensor] : kept_) {
      const auto* data = static_cast<const std::byte*>(tensor.data_ptr());
      outputs.push_back({.name = name,
                         .dtype = tensor.scalar_type() == at::kLong ? DType::kI64 : DType::kF32,
                         .shape = tensor.sizes().vec(),
                         .bytes = {data, tensor.nbytes()}});
    }
    write_safetensors(file, std::move(outputs), {{"format", "pt"}});
  }

 private:
  NamedTensors kept_;
};

// Readers for everything asked for, putting it into the list as the pass meets it.
void add_taps(const Transformer& model, const SaveRequest& request, Taps& taps, TensorList& list) {
  const int64_t layers = model.config().layers;
  const auto save_as = [&](ActivationName activation, const std::string& name) {
    taps.read(activation, [&list, name](const Tensor& tensor) { list.add(name, tensor); });
  };
  for (int64_t n = 0; n < layers; ++n) {
    if (request.wants("attention")) save_as({Site::kPattern, n}, fmt::format("attention.{}", n));
    if (request.wants("hidden")) save_as({Site::kResidPre, n}, fmt::format("hidden.{}", n));
  }
  if (request.wants("hidden")) save_as({Site::kFinalNormalized, -1}, fmt::format("hidden.{}", layers));
  for (const std::string& name : request.activations) save_as(parse_activation_name(name, layers), name);
}

void add_gradients(const Transformer& model, TensorList& list) {
  for (const auto& [name, tensor] : model.parameters()) {
    list.add("grad." + name, tensor.grad().defined() ? tensor.grad() : at::zeros_like(tensor));
  }
}

}  // namespace

bool SaveRequest::wants(const std::string& name) const {
  return !file.empty() && std::find(what.begin(), what.end(), name) != what.end();
}

void check_save_request(const SaveRequest& request) {
  static const std::vector<std::string> kKnown = {"logits", "attention", "hidden", "loss", "grad"};
  for (const std::string& name : request.what) {
    if (std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end()) continue;
    fail_input(fmt::format("'{}' cannot be saved", printable(name)), "--what",
               "choose of logits, attention, hidden, loss, grad");
  }
  if (!request.activations.empty() && request.file.empty()) {
    fail_input("activations have nowhere to go", "--cache", "add --save FILE");
  }
}

void save_pass(const Transformer& model, const Tensor& ids, const SaveRequest& request) {
  const bool needs_loss = request.wants("loss") || request.wants("grad");
  if (needs_loss && ids.size(1) < 2)
    fail_input("one token has no next token", "--what", "give a prompt of two tokens or more");
  const at::AutoGradMode with_gradients(request.wants("grad"));
  TensorList list;
  Taps taps;
  add_taps(model, request, taps, list);
  ForwardOptions options;
  options.taps = &taps;
  const Tensor logits = model.forward(ids, options);
  list.add("input_ids", ids);
  if (request.wants("logits")) list.add("logits", logits);
  if (needs_loss) {
    const Tensor loss = next_token_loss(logits, ids);
    if (request.wants("loss")) list.add("loss", loss.reshape({1}));
    if (request.wants("grad")) {
      loss.backward();
      add_gradients(model, list);
    }
  }
  list.write(request.file);
}

}  // namespace openwork
