// The precompiled header shared by every target that uses torch: the heavy, never-changing includes.
// ATen rather than torch/torch.h: it compiles in a quarter of the time and holds all that is used here.
#pragma once
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>
