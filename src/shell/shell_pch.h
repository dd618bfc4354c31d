// The precompiled header of shell and cli: the shared one and the option parser, which every verb includes and
// which is the slowest header of all to read.
#pragma once
#include <CLI/CLI.hpp>

#include "torch_pch.h"
