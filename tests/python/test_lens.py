"""openwork.to_transformer_lens: the same logits and patterns in TransformerLens, gates as hooks."""

import pytest
import torch

pytest.importorskip("transformer_lens.model_bridge", reason="transformer_lens 3 or newer is not installed")

import openwork  # noqa: E402


@pytest.mark.parametrize("name", ["openwork-8m", "openwork-8m-sparse"])
def test_logits_and_patterns_are_the_cores(name):
    ids = torch.tensor([[(37 * n * n + 11) % 8192 for n in range(40)]])
    bridge = openwork.to_transformer_lens(name)
    with torch.no_grad():
        logits, cache = bridge.run_with_cache(ids)
    pattern = "blocks.3.attn.hook_pattern"
    run = openwork.Model(name, device="cpu").run(ids, read=[pattern])
    torch.testing.assert_close(logits, run.logits, atol=2e-3, rtol=0)
    torch.testing.assert_close(cache[pattern], run[pattern], atol=1e-4, rtol=0)
