// The precompiled header of every test that uses torch: the shared one and the test framework.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "torch_pch.h"
