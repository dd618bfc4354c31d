"""Sparsify a small model with Hugging Face's Trainer: gates on every attention edge, their penalty in the loss, and a folder
that the program opens. A real run takes a real corpus and some thousand steps; this one shows the parts.

    python examples/sparsify_with_trainer.py --steps 200 --out sparse
    openwork run sparse "Once upon a time"
"""

import argparse
from pathlib import Path

import torch
from transformers import Trainer, TrainingArguments

import openwork

TEXT = Path(__file__).parent.parent / "tests" / "data" / "held_out.txt"


class SparseTrainer(Trainer):
    """Minimises (penalty + multiplier * loss) / (1 + multiplier); the multiplier holds the loss near the target."""

    target, multiplier, rate = 3.5, 1.0, 0.1

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(**inputs)
        above = min(max(outputs.loss.item() - self.target, -0.5), 0.5)
        self.multiplier *= float(torch.tensor(self.rate * above).exp())
        loss = (openwork.penalty(model) + self.multiplier * outputs.loss) / (1 + self.multiplier)
        return (loss, outputs) if return_outputs else loss


def blocks_of(text: str, name: str, context: int) -> list[dict[str, torch.Tensor]]:
    ids = torch.tensor(openwork.call("tokenize", name, text)["ids"])
    blocks = ids[: len(ids) // context * context].view(-1, context)
    return [{"input_ids": block, "labels": block} for block in blocks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="openwork-8m")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", default="sparse")
    options = parser.parse_args()

    model = openwork.add_gates(openwork.load(options.model), gate="idle", bias=5.0, idle=0.0)
    settings = TrainingArguments(
        output_dir=options.out, max_steps=options.steps, per_device_train_batch_size=8, learning_rate=3e-4,
        logging_steps=20, save_strategy="no", report_to=[],
    )  # fmt: skip
    SparseTrainer(model, settings, train_dataset=blocks_of(TEXT.read_text(), options.model, 128)).train()
    openwork.save(model, options.out)

    gates = openwork.gates_of(model)
    pairs = sum(active.shape[0] * active.shape[1] * 128 * 129 // 2 for active in gates.active.values())
    print(f"kept edges in the last batch: {sum(int(a.sum()) for a in gates.active.values()) / pairs:.2%}")


if __name__ == "__main__":
    main()
