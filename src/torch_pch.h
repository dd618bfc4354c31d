// The precompiled header shared by every target that uses torch: heavy, never-changing includes that most
// files need. What few files need stays out (torch/library.h, autograd): templates that a header leaves
// pending are instantiated again in every file that uses it.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>
