// Work on a GPU that is done again and again over the same memory, recorded once and started as a whole from then on (a
// CUDA graph): the host spends a few microseconds on a pass of thousands of kernels, and the GPU waits less between them.
//   auto recorder = make_recorder(device);                       // null where nothing can be recorded
//   auto recording = recorder->record([&] { ...compute... });    // computes nothing yet
//   recording->play();                                           // computes, behind what the device has been given
// The work reads and writes where it did when it was recorded: give it new numbers by copying them there. Kernels of
// gated_attention get their seed by value; play() says what stands for each seed that was recorded.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <unordered_map>

namespace openwork {

using NewSeeds = std::unordered_map<int64_t, int64_t>;  // by the recorded one; one that is not there stays

class Recording {
 public:
  virtual ~Recording() = default;
  virtual void play(const NewSeeds& seeds) = 0;
  void play() { play({}); }
};

// Of one device. Its recordings share their memory, so that one may write over what another has left but for tensors
// that somebody still holds: play one after the other.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // Whether memory is free for what a pass like those before would take beside all that is held now.
  virtual bool has_room() = 0;
  // Fails (c10::Error) where the work waits for the device; nothing was computed then, and the device goes on. Work that
  // is recorded should have run before, so that what is made at a first use is there.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) = 0;
};

std::unique_ptr<Recorder> make_recorder(const at::Device& device);

}  // namespace openwork
