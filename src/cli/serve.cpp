// openwork serve: the live viewer. Opens the models once and answers until it is told to stop.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/progress.h"
#include "cli/verbs.h"
#include "serve/http_server.h"
#include "serve/model_backend.h"
#include "serve/service.h"
#include "shell/open.h"
#include "shell/open_traced.h"
#include "shell/version.h"
#include "train/stop.h"

namespace openwork {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);  // how often a signal is looked for

struct ServeOptions {
  CommonOptions common;
  std::vector<std::string> models;
  serve::HttpSettings http;
  serve::ServiceSettings service;
  bool prompt_given = false;
};

std::vector<TracedModel> open_served_models(const ServeOptions& options) {
  std::vector<std::string> names = options.models;
  if (names.empty()) names = {"openwork-8m", "openwork-8m-sparse"};
  check_models(names);
  const std::vector<FeatureFolder> transcoders = choose_transcoders({}, names);
  std::vector<TracedModel> models;
  for (size_t n = 0; n < names.size(); ++n) {
    TracedModel& model = models.emplace_back(open_traced_model(names, n, transcoders, options.common));
    model.tokenizer = open_tokenizer(names[n]);
    model.beginning = beginning_tokens(*model.tokenizer, options.common);
    model.copy_begins = options.common.bos != "no";
    if (options.prompt_given)
      serve::tokenise(model, options.service.prompt);  // refuses what no page could show
  }
  return models;
}

void run_serve(ServeOptions& options) {
  apply_common_options(options.common);
  options.service.program = fmt::format("openwork {}", kVersion);
  const StopSignals signals;
  serve::ModelBackend backend(open_served_models(options));
  serve::Service service(backend, options.service);
  serve::HttpServer server([&](const serve::ServiceRequest& request) { return service.handle(request); },
                           options.http);
  service.warm_up();
  server.start();
  print_result(options.common, server.address());
  std::fflush(stdout);
  write_json_result(
      options.common,
      {{"address", server.address()}, {"port", server.port()}, {"protocol", make_protocol(options.common)}});
  set_quiet(true);  // bars of work that others asked for
  while (signals.seen() == 0 && server.running()) std::this_thread::sleep_for(kLook);
  service.stop();
  server.stop();
}

}  // namespace

void add_serve_verb(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* verb = add_verb(app, "serve");
  verb->add_option("MODEL", options->models, "models to show side by side (openwork-8m openwork-8m-sparse)")
      ->type_name("");
  verb->add_option("--port", options->http.port, "0 takes any that is free")
      ->type_name("N")
      ->check(between(0, 65535))
      ->capture_default_str();
  verb->add_option(
          "--host", options->http.host,
          "address to listen on; beyond this machine a token is wanted, which the printed address has")
      ->type_name("H")
      ->capture_default_str();
  verb->add_option("--allow-host", options->http.allow_hosts, "another name that this machine is reached by")
      ->type_name("NAME");
  verb->add_option("--run", options->service.run_folder,
                   "a training folder whose metrics.jsonl is shown; no other folder is read")
      ->type_name("DIR");
  verb->add_option("--prompt", options->service.prompt, "what the page opens on")->type_name("TEXT");
  add_common_options(*verb, options->common);
  verb->footer(
      "Prints its address and answers until SIGINT or SIGTERM.\n"
      "Examples:\n"
      "  openwork serve\n"
      "  openwork serve smollm2-135m smollm2-135m-sparse --port 0\n"
      "  openwork serve --run runs/sparse-8m\n"
      "  openwork serve --host 0.0.0.0 --allow-host gpu-box.lan");
  verb->callback([options, verb] {
    options->prompt_given = is_given(*verb, "--prompt");
    run_serve(*options);
  });
}

}  // namespace openwork
