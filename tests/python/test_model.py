"""openwork.Model: the program's numbers from Python, named activations without a copy, edits, results, interrupts, memory."""

import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from conftest import DATA

import openwork
import openwork.progress

PROMPT = "The city of Paris is the capital of"


@pytest.fixture(scope="module")
def dense():
    return openwork.Model("openwork-8m", device="cpu")


@pytest.fixture(scope="module")
def sparse():
    return openwork.Model("openwork-8m-sparse", device="cpu")


def test_the_next_tokens_are_the_programs(dense, program):
    wanted = program("run", "openwork-8m", PROMPT)["prompts"][0]
    run = dense.run(PROMPT)
    assert run.ids == [wanted["ids"]] and run.tokens == wanted["pieces"]
    for mine, theirs in zip(run.top(10), wanted["top"], strict=True):
        assert mine.token == theirs["token"] and mine.logit == pytest.approx(theirs["logit"], abs=1e-4)


def test_activations_come_by_name_and_without_a_copy(dense):
    pattern = "blocks.5.attn.hook_pattern"
    run = dense.run(PROMPT, read=[pattern, "hook_embed"])
    tokens = len(run.ids[0])
    assert run.keys() == [pattern, "hook_embed"]
    assert run[pattern].shape == (1, 8, tokens, tokens)
    torch.testing.assert_close(run[pattern].sum(-1), torch.ones(1, 8, tokens))
    assert run["blocks.0.hook_resid_pre"].shape == (1, tokens, 256)  # another pass
    weight = dense.parameters["transformer.wte.weight"]
    assert weight.data_ptr() == dense.parameters["transformer.wte.weight"].data_ptr()
    torch.testing.assert_close(run.logits, dense.run(run.ids[0]).logits, atol=1e-3, rtol=0)
    last = dense.run(torch.tensor(run.ids), last_only=True).logits
    torch.testing.assert_close(run.logits[:, -1:], last, atol=1e-3, rtol=0)


def test_what_is_written_to_a_model_is_its_own_alone():
    model, other = openwork.Model("openwork-8m", device="cpu"), openwork.Model("openwork-8m", device="cpu")
    before = model.run(PROMPT).logits
    model.parameters["transformer.ln_f.weight"].mul_(2)
    assert (model.run(PROMPT).logits - before).abs().max() > 0.1
    assert torch.equal(other.run(PROMPT).logits, before)
    assert torch.equal(openwork.Model("openwork-8m", device="cpu").run(PROMPT).logits, before)


def test_an_edit_in_place_leaves_the_positions_weights_alone(dense):
    before = dense.run(PROMPT).logits
    edited = dense.edit({"hook_pos_embed": lambda x: x.zero_()}).run(PROMPT).logits
    assert (edited - before).abs().max() > 0.1
    torch.testing.assert_close(edited, dense.edit({"hook_pos_embed": torch.zeros_like}).run(PROMPT).logits)
    assert torch.equal(dense.run(PROMPT).logits, before)


def test_gates_are_an_activation_of_a_gated_model(sparse):
    run = sparse.run(PROMPT, read=["blocks.0.attn.hook_gate", "blocks.0.attn.hook_pattern"])
    gate = run["blocks.0.attn.hook_gate"]
    assert sparse.gate == "idle" and set(gate.unique().tolist()) <= {0.0, 1.0}
    assert (run["blocks.0.attn.hook_pattern"][gate == 0] == 0).all()


def test_edits_replace_what_follows_and_read_what_was(dense):
    name, seen = "blocks.7.hook_attn_out", []
    edited = dense.edit({name: lambda x: x * 0, "blocks.2.hook_mlp_out": seen.append})
    run = edited.run(PROMPT, read=[name])
    assert run[name].abs().max() == 0 and len(seen) == 1
    assert not torch.allclose(run.logits, dense.run(PROMPT).logits)
    torch.testing.assert_close(dense.edit({name: 0}).run(PROMPT).logits, run.logits)
    same = dense.edit({name: dense.run(PROMPT)[name]}).run(PROMPT)
    torch.testing.assert_close(same.logits, dense.run(PROMPT).logits)


def small_task(folder, dense):
    """Three prompts of equal length as a task's file, and what its metric reads: ids, answer, wrong."""
    words = [("The city of Paris is the capital of", " the", " a"), ("One, two, three, four, one, two,", " three", " four"),
             ("Mary and John went out; John and", " Mary", " John")]  # fmt: skip
    reads = [(dense.encode(text)[-7:], dense.encode(answer)[-1], dense.encode(wrong)[-1]) for text, answer, wrong in words]
    rows = [{"clean": ids, "corrupt": ids, "answer": answer, "wrong": wrong} for ids, answer, wrong in reads]
    file = folder / "task.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file, reads


def test_an_ablated_head_loses_what_an_edit_takes_away(dense, program, tmp_path):
    """The effect of L5H1 by ablate with zero ablation, by the program, and by an edit of hook_z read by hand."""
    file, reads = small_task(tmp_path, dense)
    result = dense.ablate(file, ablation="zero", only="L5H1", figure=False)
    wanted = program("ablate", "openwork-8m", "--task", file, "--ablation", "zero", "--only", "L5H1", "--device", "cpu")

    def metric(model):
        logits = [(model.run(ids).logits[0, -1], answer, wrong) for ids, answer, wrong in reads]
        return sum((row[answer] - row[wrong]).item() for row, answer, wrong in logits) / len(logits)

    keep = torch.ones(8)
    keep[1] = 0
    edited = dense.edit({"blocks.5.attn.hook_z": lambda z: z * keep[:, None]})  # [1, T, H, d]
    lost = metric(dense) - metric(edited)
    assert [part.name for part in result.parts] == ["L5H1"] and abs(lost) > 1e-3
    assert result.parts[0].effect == pytest.approx(wanted["parts"][0]["effect"], abs=1e-5)
    assert result.parts[0].effect == pytest.approx(lost, abs=1e-4)
    assert result.clean_metric == pytest.approx(metric(dense), abs=1e-4)


def test_ablate_gives_the_programs_numbers_a_table_and_a_figure(dense, program):
    result = dense.ablate("copy", prompts=2)
    wanted = program("ablate", "openwork-8m", "--task", "copy", "--prompts", 2, "--device", "cpu")
    assert result.clean_metric == pytest.approx(wanted["clean_metric"], abs=1e-4)
    for name in ("effects", "intervals"):
        mine, theirs = torch.tensor(getattr(result, name)), torch.tensor(wanted[name])
        torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=0)
    assert torch.tensor(result.effects).abs().max() > 0.1
    assert result.protocol.model.name == "openwork-8m"
    rows = list(result.rows())
    assert len(rows) == 64 and rows[9]["part"] == "L1H1"
    assert result.figure()._repr_svg_().lstrip().startswith("<?xml")
    assert result.figure()._repr_png_()[1:4] == b"PNG"
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert isinstance(result.to_frame(), pandas.DataFrame)


def test_heads_stats_circuit_and_trace_are_objects(dense, sparse, tmp_path):
    heads = dense.heads("Mary and John went out; John gave a drink to", sparse)
    assert [model.name for model in heads.models] == ["openwork-8m", "openwork-8m-sparse"]
    assert heads.figure().save(tmp_path / "heads.pdf").read_bytes()[:4] == b"%PDF"
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("The rain fell on the town, and the town slept on.\nOne, two, three, four, one, two, three,\n")
    stats = dense.stats(prompts, sparse, no_interactions=True)
    assert len(list(stats.rows())) == 128 and stats.comparisons[0].rows and stats.figures
    circuit = dense.circuit("copy", sparse, prompts=2)
    assert circuit.models[1].heads_at_threshold > 0 and circuit.figure().svg()
    trace = dense.trace("Mary and John went", sparse, max_nodes=200)
    assert trace.models[0].targets[0].token and list(trace.rows()) and trace.figure().svg()
    loss = dense.evaluate(DATA / "held_out.txt", sparse, context=64, blocks=4)
    assert loss.models[1].kept_edges < loss.models[0].kept_edges == 1


def test_compare_makes_the_page(dense, sparse):
    result = dense.compare(sparse, task="none", no_trace=True, no_interactions=True, generate=0)
    assert result.findings and "<html" in result.page().read_text()
    assert result.view()._repr_html_().startswith("<iframe srcdoc=")
    folder = result.folder
    del result
    assert not folder.exists()  # a folder nobody named goes with the result


def test_sparsify_trains_and_opens(dense, tmp_path):
    result = dense.sparsify(DATA / "held_out.txt", out=tmp_path / "run", held_out="0.2", context=32, batch_tokens=64, steps=2)
    assert result.sparse.kept_edges < 1 and result.base.kept_edges == 1
    assert result.model(device="cpu").gate == "idle"
    assert list(result.rows())


def test_a_model_of_a_folder_that_nobody_named_keeps_it(dense):
    model = dense.sparsify(DATA / "held_out.txt", held_out="0.2", context=32, batch_tokens=64, steps=2).model(device="cpu")
    folder = model._made_by.folder
    assert model.run("The city").tokens and folder.exists()
    del model
    assert not folder.exists()


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda m: openwork.Model("openwork-9m"), "openwork-9m"),
        (lambda m: openwork.Model("openwork-8m", device="tpu"), "tpu"),
        (lambda m: openwork.Model("openwork-8m", dtype="fp8"), "fp8"),
        (lambda m: openwork.Model("openwork-8m", bos="perhaps"), "perhaps"),
        (lambda m: m.run(""), "empty"),
        (lambda m: m.run([]), "empty"),
        (lambda m: m.run([1, 2, 99999]), "99999"),
        (lambda m: m.run([1, 2, 2**70]), "whole numbers"),
        (lambda m: m.run([1, 0.5]), "whole numbers"),
        (lambda m: m.run([0.5]), "a prompt is a float"),
        (lambda m: m.run(None), "a prompt is a NoneType"),
        (lambda m: m.run(b"text"), "a prompt is a bytes"),
        (lambda m: m.run("\ud800"), "no text"),
        (lambda m: m.run(torch.zeros(1, 2)), "torch.float32"),
        (lambda m: m.run(torch.zeros(1, 1, 2, dtype=torch.long)), r"\[1, 1, 2\]"),
        (lambda m: m.run([[1, 2], [1]]), "equal length"),
        (lambda m: m.run([5] * 600), "context"),
        (lambda m: m.run(PROMPT, read=[5]), "no text"),
        (lambda m: m.run(PROMPT, read="blocks.99.attn.hook_z"), "unknown activation"),
        (lambda m: m.run(PROMPT, read="blocks.0.attn.hook_rot_q"), "does not have it"),
        (lambda m: m.edit({"hook_embed": lambda x: x[:, :1]}).run(PROMPT), "shape"),
        (lambda m: m.edit({"hook_embed": torch.zeros(3)}).run(PROMPT), r"shape \[3\]"),
        (lambda m: m.edit({"hook_embed": "x"}).run(PROMPT), "give a function"),
        (lambda m: m.edit({"nothing": 0}).run(PROMPT), "unknown activation"),
        (lambda m: m.edit([1]), "edits are a list"),
        (lambda m: m.edit({"hook_embed": lambda x: "x"}).run(PROMPT), "return a tensor"),
        (lambda m: m.ablate("nothing"), "nothing"),
        (lambda m: m.ablate("copy", ablation="other"), "other"),
        (lambda m: m.heads("text", colour="red"), "--colour"),
        (lambda m: m.evaluate([]), "no text to read"),
        (lambda m: m.evaluate("nowhere.txt"), "nowhere.txt"),
        (lambda m: m.compare(), "nothing to compare"),
        (lambda m: openwork.call("nothing"), "unknown verb"),
    ],
)
def test_bad_input_is_the_programs_one_line(dense, call, line):
    with pytest.raises(openwork.InputError, match=line) as caught:
        call(dense)
    assert "\n" not in str(caught.value) and str(caught.value).count("; ") >= 2


def test_an_exception_in_an_edit_comes_out(dense):
    def fail(_):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        dense.edit({"hook_embed": fail}).run(PROMPT)
    dense.run(PROMPT)


def test_ctrl_c_stops_a_sweep_and_the_process_goes_on(dense, monkeypatch):
    """The signal comes when the sweep has told of its beginning; it must stop before its end, however slow the machine is."""
    before, begun, bars = signal.getsignal(signal.SIGINT), threading.Event(), []

    class Bar:
        def __init__(self, name, unit, total):
            self.name, self.n, self.total = name, 0, total
            bars.append(self)

        def refresh(self):
            begun.set()

        def set_postfix_str(self, text, refresh): ...
        def close(self): ...

    monkeypatch.setattr(openwork.progress, "_make_bar", Bar)
    monkeypatch.setenv("OPENWORK_PROGRESS", "1")
    sender = threading.Thread(target=lambda: begun.wait(300) and os.kill(os.getpid(), signal.SIGINT))
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        dense.ablate("copy", prompts=120, figure=False)
    sender.join()
    assert bars and bars[-1].n < bars[-1].total, [vars(bar) for bar in bars]
    assert signal.getsignal(signal.SIGINT) is before
    assert dense.run(PROMPT).logits.isfinite().all()


@pytest.mark.parametrize("call", [lambda m: m.run(PROMPT), lambda m: m.ablate("copy", prompts=1, only="L0H0", figure=False)], ids=["run", "ablate"])
def test_other_threads_run_while_it_computes(dense, monkeypatch, call):
    """Python is told never to take the GIL from a thread that has it: another thread counts only if the core lets go of it."""
    monkeypatch.setenv("OPENWORK_PROGRESS", "0")
    counted, stop = 0, threading.Event()

    def count():
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0)  # lets the other thread have its turn

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    thread = threading.Thread(target=count)
    try:
        thread.start()
        before, calls = counted, 0
        while counted == before and calls < 200:
            call(dense)
            calls += 1
        after = counted
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert after > before


class Mallinfo(ctypes.Structure):
    """glibc's struct mallinfo2."""

    names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in names]


def memory_in_use():
    """Bytes that are allocated and not freed, and Python's objects: unlike resident memory, no matter what was freed before."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    gc.collect()
    now = mallinfo()
    return now.uordblks + now.hblkhd, sys.getallocatedblocks()


def test_a_thousand_runs_keep_memory_flat(dense):
    ids = dense.encode(PROMPT)

    def runs(count):
        for _ in range(count):
            dense.run(ids, read=["blocks.5.attn.hook_pattern", "blocks.7.hook_resid_post"])

    runs(100)
    before = memory_in_use()
    runs(1000)
    grown, objects = (now - then for now, then in zip(memory_in_use(), before, strict=True))
    assert grown < 100_000 and objects < 500  # a leak of a hundred bytes, or of half an object, in each run


def test_generation_is_the_programs(dense, program):
    wanted = program("run", "openwork-8m", PROMPT, "--generate", 12)["prompts"][0]["generated"]["text"]
    assert dense.generate(PROMPT, 12) == wanted


def test_a_closed_stream_is_no_crash(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)  # nobody reads what is written: every write fails
    code = "import sys, openwork; openwork.Model('openwork-8m', device='cpu').ablate('copy', prompts=2); open(sys.argv[1], 'w').close()"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "done")], stdout=writing, stderr=writing, check=False)
    os.close(writing)
    assert (tmp_path / "done").exists()


def test_call_reaches_every_verb(program):
    assert openwork.call("inspect", "openwork-8m").config == program("inspect", "openwork-8m")["config"]
    names = {model.name for model in openwork.models()}
    assert {"openwork-8m", "openwork-8m-sparse"} <= names


def test_a_pass_costs_little_beyond_the_cores(dense, monkeypatch):
    """What Python adds to a pass: one call of the core, none of whose tensors is copied, and less than half a millisecond.

    The core is one that answers at once, and time is the thread's own: what the machine does besides is not measured.
    """
    ids = dense.encode(PROMPT)
    answer = dense._core.run([ids], ["hook_embed"], [], False)
    calls = []

    class Recorded:
        def run(self, *arguments):
            calls.append(arguments)
            return answer

    monkeypatch.setattr(dense, "_core", Recorded())
    run = dense.run(ids, read="hook_embed")
    assert calls == [([ids], ["hook_embed"], [], False)]
    assert run.logits is answer[0] and run["hook_embed"] is answer[1][0][1]

    def seconds_of_a_run(count=200):
        started = time.thread_time()
        for _ in range(count):
            dense.run(ids, read="hook_embed")
        return (time.thread_time() - started) / count

    assert min(seconds_of_a_run() for _ in range(5)) < 5e-4


def test_json_is_what_the_program_writes(dense, program):
    mine = dense.evaluate(DATA / "held_out.txt", context=64, blocks=2).json()
    theirs = program("eval", "openwork-8m", "--data", DATA / "held_out.txt", "--context", 64, "--blocks", 2, "--device", "cpu")
    assert mine.keys() == theirs.keys() and mine["models"][0].keys() == theirs["models"][0].keys()
    assert mine["models"][0]["nats_per_token"] == pytest.approx(theirs["models"][0]["nats_per_token"], rel=1e-6)
    assert mine["protocol"]["threads"] == theirs["protocol"]["threads"] == torch.get_num_threads()
