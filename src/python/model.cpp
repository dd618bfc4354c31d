#include "python/model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "analyze/prompts.h"
#include "base/error.h"
#include "io/model_store.h"
#include "model/generate.h"
#include "model/save.h"
#include "python/bindings.h"
#include "python/tensor.h"
#include "shell/open.h"
#include "text/tokenizer_files.h"

namespace nb = nanobind;

namespace openwork {
namespace {

CommonOptions make_options(const std::string& device, const std::string& dtype, const std::string& bos) {
  CommonOptions options;
  options.device = device, options.dtype = dtype, options.bos = bos;
  return options;
}

// The Python function's answer: a tensor of the same shape, or None where it only looked.
Tensor replace_by(const nb::callable& function, const Tensor& activation, const std::string& name) {
  const nb::gil_scoped_acquire gil;
  const nb::object answer = function(activation);
  if (answer.is_none()) return activation;
  Tensor replaced;
  if (!nb::try_cast(answer, replaced))
    fail_input(fmt::format("a replacement is a {}", nb::type_name(answer.type()).c_str()), name,
               "return a tensor, or None to leave it");
  return replaced.to(activation.options());
}

}  // namespace

CoreModel::CoreModel(const std::string& name, const std::string& device, const std::string& dtype,
                     const std::string& bos)
    : name_(name), options_(make_options(device, dtype, bos)), model_(open_model(name, options_)) {
  options_.device = model_.device().str();
}

const Tokenizer& CoreModel::tokenizer() {
  if (!tokenizer_) tokenizer_ = open_tokenizer(name_);
  return *tokenizer_;
}

std::vector<int64_t> CoreModel::encode(const std::string& text) {
  std::vector<int64_t> ids = beginning_tokens(tokenizer(), options_);
  const std::vector<int32_t> encoded = tokenizer().encode(text);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  return encode_prompts({.texts = {}, .ids = {ids}, .description = {}}, std::nullopt, {}, model_.config())
      .ids.front();
}

std::vector<std::string> CoreModel::pieces(const std::vector<int64_t>& ids) {
  std::vector<std::string> texts;
  for (const int64_t id : ids) {
    const int32_t one[] = {static_cast<int32_t>(id)};
    texts.push_back(tokenizer().decode(one));
  }
  return texts;
}

std::string CoreModel::decode(const std::vector<int64_t>& ids) {
  return tokenizer().decode(std::vector<int32_t>(ids.begin(), ids.end()));
}

std::pair<Tensor, CoreModel::Activations> CoreModel::run(const std::vector<std::vector<int64_t>>& ids,
                                                         const std::vector<std::string>& read,
                                                         const std::vector<Replacement>& replace,
                                                         bool last_only) const {
  const int64_t layers = model_.config().layers;
  Activations saved;
  for (const std::string& name : read) saved.emplace_back(name, Tensor());
  Taps taps;
  for (const auto& [name, function] : replace) {
    taps.replace(parse_activation_name(name, layers), [&name, &function](const Tensor& activation) {
      return replace_by(function, activation, name);
    });
  }
  for (auto& [name, tensor] : saved)
    taps.read(parse_activation_name(name, layers),
              [&tensor](const Tensor& activation) { tensor = activation; });
  ForwardOptions options;
  options.taps = read.empty() && replace.empty() ? nullptr : &taps;
  options.last_only = last_only;
  const nb::gil_scoped_release computing;
  const at::NoGradGuard no_grad;
  const TokenPrompts prompts =
      encode_prompts({.texts = {}, .ids = ids, .description = {}}, std::nullopt, {}, model_.config());
  const Tensor logits = model_.forward(batch_of(prompts, model_.device()), options);
  for (const auto& [name, tensor] : saved) {
    if (!tensor.defined())
      fail_input(fmt::format("no activation '{}'", name), model_.config().architecture,
                 "this architecture does not have it: see Model.activation_names");
  }
  return {logits, std::move(saved)};
}

std::vector<int64_t> CoreModel::generate(const std::vector<int64_t>& ids, int64_t tokens, double temperature,
                                         int64_t top_k, uint64_t seed) const {
  const nb::gil_scoped_release computing;
  GenerateOptions options;
  options.tokens = tokens, options.temperature = temperature, options.top_k = top_k, options.seed = seed;
  return openwork::generate(model_, ids, options, [](int64_t) {
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });
}

std::vector<std::string> CoreModel::activation_names() const {
  std::vector<std::string> names;
  for (int site = 0; site <= static_cast<int>(Site::kFinalNormalized); ++site) {
    const std::string first = to_string({static_cast<Site>(site), 0});
    const int64_t layers = first.starts_with("blocks.") ? model_.config().layers : 1;
    for (int64_t layer = 0; layer < layers; ++layer)
      names.push_back(to_string({static_cast<Site>(site), layer}));
  }
  return names;
}

std::string CoreModel::config() const {
  return json_text(make_config(model_.config(), model_.dtype()));
}

CoreModel::Activations CoreModel::parameters() const {
  return model_.parameters();
}

void bind_model(nb::module_& module) {
  nb::class_<CoreModel>(module, "Model", "A transformer of the C++ core")
      .def(nb::init<const std::string&, const std::string&, const std::string&, const std::string&>(),
           nb::arg("name"), nb::arg("device") = "auto", nb::arg("dtype") = "fp32", nb::arg("bos") = "auto",
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("name", &CoreModel::name)
      .def_prop_ro("device", [](const CoreModel& self) { return self.transformer().device().str(); })
      .def_prop_ro("layers", [](const CoreModel& self) { return self.transformer().config().layers; })
      .def_prop_ro("heads", [](const CoreModel& self) { return self.transformer().config().heads; })
      .def_prop_ro(
          "gate",
          [](const CoreModel& self) { return std::string(gate_name(self.transformer().config().gate)); })
      .def("encode", &CoreModel::encode, nb::arg("text"))
      .def("pieces", &CoreModel::pieces, nb::arg("ids"))
      .def("decode", &CoreModel::decode, nb::arg("ids"))
      .def("run", &CoreModel::run, nb::arg("ids"), nb::arg("read"), nb::arg("replace"), nb::arg("last_only"))
      .def("generate", &CoreModel::generate, nb::arg("ids"), nb::arg("tokens"), nb::arg("temperature"),
           nb::arg("top_k"), nb::arg("seed"))
      .def("activation_names", &CoreModel::activation_names)
      .def("config", &CoreModel::config)
      .def("parameters", &CoreModel::parameters);
  module.def(
      "copy_tokenizer",
      [](const std::string& model, const std::string& folder) {
        copy_tokenizer(locate_model(model).path, folder);
      },
      nb::arg("model"), nb::arg("folder"));
}

}  // namespace openwork
