#include "train/ranks.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "train/environment.h"
#include "train/gloo.h"
#include "train/heartbeat.h"
#include "train/nccl.h"

namespace openwork {
namespace {

using std::chrono::milliseconds;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

constexpr milliseconds kJoin = std::chrono::minutes(5);  // machines of a job do not start at the same moment

milliseconds read_seconds(const char* name, milliseconds otherwise) {
  const char* const text = std::getenv(name);
  if (!text || !*text) return otherwise;
  double seconds = 0;
  const char* const end = text + std::string_view(text).size();
  const auto [stop, error] = std::from_chars(text, end, seconds);
  if (error != std::errc() || stop != end || !(seconds >= 0.1 && seconds <= 1e6)) {
    fail_input(fmt::format("{} is '{}'", name, printable(text, 40)), "environment",
               "give seconds, such as 45");
  }
  return milliseconds(static_cast<int64_t>(1000 * seconds));
}

// c10d writes its troubles, stack traces too, to standard error; one line is what people get here. Who wants
// them sets TORCH_CPP_LOG_LEVEL.
void silence_logs() {
  if (!std::getenv("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
}

// Where the ranks meet. torchrun keeps a store of its own at that address, and says so; a job it started
// again must not find the keys of the first attempt there.
StorePointer connect_store(const RankPlace& place, milliseconds join, bool second = false) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.timeout = join;
  const bool agent = is_set_to("TORCHELASTIC_USE_AGENT_STORE", "True");
  options.isServer = place.rank == 0 && !agent && !second;
  options.waitWorkers = !agent && !second;
  options.numWorkers = static_cast<size_t>(place.count);
  const char* const attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("openwork/{}", attempt ? attempt : "0"),
                                                c10::make_intrusive<c10d::TCPStore>(place.address, options));
}

}  // namespace

struct Ranks::State {
  StorePointer store;
  std::unique_ptr<Gloo> data,
      control;  // two, so that small messages need not wait in the order of large ones
  std::unique_ptr<Nccl> nccl;
  std::unique_ptr<Heartbeat> heartbeat;
  RankPlace place;

  // What c10d throws in a running job is a lost connection.
  template <typename Work>
  auto guarded(Work work) const {
    try {
      return work();
    } catch (const Error&) {
      throw;
    } catch (const std::exception&) {
      end_lost("another rank was lost", place.rank, place.count);
    }
  }

  // Begins an exchange, and waits for it, as guarded work.
  template <typename Begin>
  Wait start(Begin begin) const {
    return [this, wait = guarded([&]() -> Wait { return begin(); })] { guarded([&] { wait(); }); };
  }

  // Whether no GPU serves two ranks, and all have libnccl.
  bool has_own_gpus(const at::Device& device) {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    const bool able = device.is_cuda() && !is_set_to("OPENWORK_NCCL", "0") && Nccl::is_here();
    const std::string own = able ? fmt::format("{}:{}", host, static_cast<int>(device.index())) : "none";
    store->set(fmt::format("gpu/{}", place.rank), std::vector<uint8_t>(own.begin(), own.end()));
    std::set<std::string> seen;
    for (int rank = 0; rank < place.count; ++rank) {
      const std::vector<uint8_t> value = store->get(fmt::format("gpu/{}", rank));
      seen.emplace(value.begin(), value.end());
    }
    return !seen.contains("none") && static_cast<int>(seen.size()) == place.count;
  }

  void open_nccl(const at::Device& device) {
    Nccl::Id id{};
    if (place.rank == 0) {
      id = Nccl::make_id();
      store->set("nccl", std::vector<uint8_t>(id.begin(), id.end()));
    }
    const std::vector<uint8_t> value = store->get("nccl");
    if (value.size() != id.size()) end_lost("the first rank's NCCL id is not whole", place.rank, place.count);
    std::copy(value.begin(), value.end(), id.begin());
    nccl = std::make_unique<Nccl>(device, place.rank, place.count, id);
  }
};

Ranks::Ranks() = default;

Ranks::Ranks(const RankPlace& place) : place_(place) {
  if (place.count == 1) return;
  std::signal(SIGPIPE, SIG_IGN);  // a lost rank is an error to report, not the end of whoever writes to it
  silence_logs();
  state_ = std::make_unique<State>();
  state_->place = place;
  const milliseconds join = read_seconds("OPENWORK_JOIN_TIMEOUT", kJoin);
  const milliseconds silence = read_seconds("OPENWORK_RANK_TIMEOUT", std::chrono::seconds(45));
  try {
    state_->store = connect_store(place, join);
    state_->data = std::make_unique<Gloo>(state_->store, "data", place, join);
    state_->control = std::make_unique<Gloo>(state_->store, "control", place, join);
    state_->heartbeat =
        std::make_unique<Heartbeat>(connect_store(place, join, true), place.rank, place.count, silence);
  } catch (const std::exception&) {
    fail(fmt::format("the {} ranks did not meet within {:.0f} s", place.count,
                     std::chrono::duration<double>(join).count()),
         fmt::format("{}:{}", place.address, place.port),
         "check that all are started, MASTER_ADDR and MASTER_PORT, and that the port is free");
  }
}

// Without leave() something went wrong, and closing connections would wait for ranks that may be gone.
Ranks::~Ranks() {
  if (!state_) return;
  state_->heartbeat.reset();
  static_cast<void>(state_.release());
}

void Ranks::use_device(const at::Device& device) {
  if (!state_) return;
  const bool own = state_->guarded([&] { return state_->has_own_gpus(device); });
  if (own) state_->guarded([&] { state_->open_nccl(device); });
}

const char* Ranks::transport() const {
  return !state_ ? "none" : state_->nccl ? "nccl" : "gloo";
}

Ranks::Wait Ranks::start_sum(const at::Tensor& tensor) {
  if (!state_) return [] {};
  if (state_->nccl && tensor.is_cuda()) return state_->nccl->start_sum(tensor);
  return state_->start([&] { return state_->data->start_sum(tensor); });
}

Ranks::Wait Ranks::start_scatter_sum(const at::Tensor& whole) {
  if (!state_) return [] {};
  if (state_->nccl && whole.is_cuda()) return state_->nccl->start_scatter_sum(whole);
  return state_->start([&] { return state_->data->start_scatter_sum(whole); });
}

Ranks::Wait Ranks::start_gather(const at::Tensor& whole) {
  if (!state_) return [] {};
  if (state_->nccl && whole.is_cuda()) return state_->nccl->start_gather(whole);
  return state_->start([&] { return state_->data->start_gather(whole); });
}

void Ranks::sum_in_order(const at::Tensor& tensor) {
  if (!state_) return;
  const at::NoGradGuard no_grad;
  const at::Tensor all = at::empty({count(), tensor.numel()}, tensor.options());
  all.select(0, rank()).copy_(tensor.view({-1}));
  start_gather(all.view({-1}))();
  at::Tensor sum = tensor.view({-1});
  sum.copy_(all.select(0, 0));
  for (int other = 1; other < count(); ++other) sum.add_(all.select(0, other));
}

Ranks::Wait Ranks::start_max(const at::Tensor& host) {
  if (!state_) return [] {};
  return state_->start([&] { return state_->control->start_max(host); });
}

void Ranks::broadcast(const at::Tensor& tensor) {
  if (!state_) return;
  if (state_->nccl && tensor.is_cuda()) return state_->nccl->broadcast(tensor);
  state_->guarded([&] { state_->data->broadcast(tensor); });
}

bool Ranks::decide(bool answer) {
  const at::Tensor message = at::tensor({static_cast<int64_t>(answer)}, at::kLong);
  broadcast(message);
  return message.item<int64_t>() != 0;
}

std::pair<int64_t, int64_t> Ranks::share(int64_t items) const {
  return {items * place_.rank / place_.count, items * (place_.rank + 1) / place_.count};
}

void Ranks::run_first(const std::function<void()>& work) {
  if (is_first()) work();
  barrier();
}

void Ranks::barrier() {
  if (state_) start_max(at::zeros({1}, at::kDouble))();
}

void Ranks::leave() {
  if (!state_) return;
  barrier();
  state_->heartbeat.reset();
  barrier();
  state_.reset();
}

}  // namespace openwork
