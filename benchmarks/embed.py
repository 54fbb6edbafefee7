"""Sentence vectors from minilm: Firth against sentence-transformers, plain transformers and ONNX Runtime, in one run.

Everybody gets the same texts and two threads and tokenises for himself; rounds are interleaved and the best of each counts.
The last rows compare with the machine itself: the rate of its matrix product at the model's own shapes.
    python -m benchmarks.embed [--quick] [--json]
"""

import argparse
import os
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.contender import Contender, answering, peak_memory, timed
from benchmarks.table import Row, show
from benchmarks.texts import real_texts
from firth import load
from firth.base.threads import keep_heap
from firth.folders.find import find
from firth.nn.linear import product
from firth.predictor import Predictor
from firth.tasks.encoded import TOKENS_PER_BATCH

os.environ["HF_HUB_OFFLINE"] = "1"
THREADS = 2
Embedder = Callable[[list[str]], np.ndarray]


def sentence_transformers() -> Embedder:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(find("minilm")), device="cpu")
    return lambda texts: model.encode(texts, batch_size=32, show_progress_bar=False)


def _pooled(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return F.normalize(mean, dim=1)


def transformers_plain() -> Embedder:
    """Batches of 32 as the texts come, padded to the longest: what most people write."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = (
        AutoTokenizer.from_pretrained(find("minilm")),
        AutoModel.from_pretrained(find("minilm")).eval(),
    )

    @torch.inference_mode()
    def embed(texts: list[str]) -> np.ndarray:
        parts = []
        for start in range(0, len(texts), 32):
            batch = tokenizer(
                texts[start : start + 32],
                padding=True,
                truncation=True,
                max_length=256,
                return_tensors="pt",
            )
            parts.append(_pooled(model(**batch).last_hidden_state, batch["attention_mask"]))
        return torch.cat(parts).numpy()

    return embed


def onnx_runtime(folder: Path) -> Embedder:
    """fp32, all graph optimisations, batches of 32 sorted by length."""
    import onnxruntime
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = (
        AutoTokenizer.from_pretrained(find("minilm")),
        AutoModel.from_pretrained(find("minilm"), attn_implementation="eager").eval(),
    )
    names = ["input_ids", "attention_mask", "token_type_ids"]

    class Body(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(
            self,
            input_ids: torch.Tensor,
            attention_mask: torch.Tensor,
            token_type_ids: torch.Tensor,
        ) -> torch.Tensor:
            return self.model(
                input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
            ).last_hidden_state

    ones = torch.ones(2, 8, dtype=torch.long)
    path = folder / "minilm.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        axes = {name: {0: "texts", 1: "tokens"} for name in (*names, "hidden")}
        torch.onnx.export(
            Body(),
            (ones, ones, ones * 0),
            path,
            input_names=names,
            output_names=["hidden"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def embed(texts: list[str]) -> np.ndarray:
        encoded = tokenizer(texts, truncation=True, max_length=256)["input_ids"]
        order = sorted(range(len(texts)), key=lambda i: -len(encoded[i]))
        vectors = np.empty((len(texts), 384), np.float32)
        for start in range(0, len(order), 32):
            picked = order[start : start + 32]
            batch = tokenizer.pad({"input_ids": [encoded[i] for i in picked]}, return_tensors="np")
            feed = {
                "input_ids": batch["input_ids"],
                "attention_mask": batch["attention_mask"],
                "token_type_ids": batch["input_ids"] * 0,
            }
            hidden = session.run(None, feed)[0]
            vectors[picked] = _pooled(
                torch.from_numpy(hidden), torch.from_numpy(batch["attention_mask"])
            ).numpy()
        return vectors

    return embed


def shapes(predictor: Predictor) -> list[tuple[int, int]]:
    s = predictor.bundle.encoder.settings
    return [(s.width, 3 * s.width), (s.width, s.width), (s.width, s.inner), (s.inner, s.width)]


def flops(predictor: Predictor, lengths: list[int]) -> float:
    """Two for each linear weight and token, and attention; real tokens only."""
    s = predictor.bundle.encoder.settings
    linear = 2 * sum(rows * columns for rows, columns in shapes(predictor))
    return float(s.depth * sum(linear * n + 4 * n * n * s.width for n in lengths))


@torch.inference_mode()
def gemm_rate(predictor: Predictor, tries: int = 10) -> float:
    """The best of ten matrix products at each of the model's shapes and its token budget, in FLOP/s."""
    seconds = work = 0.0
    for rows, columns in shapes(predictor):
        x, w, b = (
            torch.randn(TOKENS_PER_BATCH, rows),
            torch.randn(columns, rows),
            torch.randn(columns),
        )
        seconds += min(timed(lambda x=x, w=w, b=b: product(x, w, b)) for _ in range(tries))
        work += 2 * TOKENS_PER_BATCH * rows * columns
    return work / seconds


@torch.inference_mode()
def gemm_loop(predictor: Predictor, tokens: int) -> float:
    """Seconds for the model's matrix products alone over so many tokens, with its own weights: what nothing can beat."""
    encoder = predictor.bundle.encoder
    s = encoder.settings
    narrow, wide = torch.randn(TOKENS_PER_BATCH, s.width), torch.randn(TOKENS_PER_BATCH, s.inner)

    def run() -> None:
        for _ in range(tokens // TOKENS_PER_BATCH):
            for block in encoder.blocks:
                for layer, x in (
                    (block.attention.qkv, narrow),
                    (block.attention.out, narrow),
                    (block.up, narrow),
                    (block.down, wide),
                ):
                    layer(x)

    return timed(run) * tokens / (tokens // TOKENS_PER_BATCH * TOKENS_PER_BATCH)


def serve(name: str, texts: list[str]) -> None:
    """Answer the questions of the comparing process, one a line."""
    answers = answering()
    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as folder:
        if name == OURS:  # as on the command line
            keep_heap()
        predictor = load("minilm", THREADS) if name == OURS else None
        embed: Embedder = predictor.embed if predictor else CONTENDERS[name](Path(folder))
        questions: dict[str, Callable[[], float]] = {
            "round": lambda: timed(lambda: embed(texts)),
            "one": lambda: (
                statistics.median(timed(lambda text=text: embed([text])) for text in texts[:100])
                * 1e3
            ),
            "memory": peak_memory,
        }
        if predictor:
            lengths = [
                min(predictor.bundle.length, len(row))
                for row in predictor.bundle.tokenizer.encode(texts)
            ]
            questions["flops"] = lambda: flops(predictor, lengths)
            questions["gemm"] = lambda: gemm_rate(predictor)
            questions["loop"] = lambda: gemm_loop(predictor, sum(lengths))
        for line in sys.stdin:
            what, _, path = line.strip().partition(" ")
            answer = (
                float(np.save(path, embed(texts)) is None) if what == "save" else questions[what]()
            )
            print(answer, file=answers, flush=True)


OURS = "ours"
CONTENDERS: dict[str, Callable[[Path], Embedder]] = {
    "sentence-transformers": lambda _: sentence_transformers(),
    "transformers, padded batches of 32": lambda _: transformers_plain(),
    "ONNX Runtime fp32, sorted": onnx_runtime,
}
GOALS = {
    "sentence-transformers": 1.4,
    "transformers, padded batches of 32": 4.0,
    "ONNX Runtime fp32, sorted": 1.0,
}


def compare(count: int, rounds: int) -> list[Row]:
    """Run everybody in turn, round after round, and keep the best of each."""
    everybody = {
        name: Contender("benchmarks.embed", name, "--texts", str(count))
        for name in (OURS, *CONTENDERS)
    }
    ours = everybody[OURS]
    with tempfile.TemporaryDirectory() as folder:
        for number, contender in enumerate(everybody.values()):  # which also warms up
            contender.ask(f"save {folder}/{number}.npy")
        vectors = [np.load(f"{folder}/{number}.npy") for number in range(len(everybody))]
    for name, theirs in zip(CONTENDERS, vectors[1:], strict=True):
        assert np.abs(theirs - vectors[0]).max() < 1e-5, f"{name} gives other vectors"
    memory = {name: contender.ask("memory") for name, contender in everybody.items()}
    work = ours.ask("flops")
    times: dict[str, list[float]] = {name: [] for name in everybody}
    rates, loops, shares = [], [], []
    for _ in range(rounds):
        for name, contender in everybody.items():
            before = ours.ask("gemm") if name == OURS else 0.0
            times[name].append(contender.ask("round"))
            if name == OURS:
                rates += [before, ours.ask("gemm")]
                shares.append(work / times[OURS][-1] / statistics.mean(rates[-2:]))
                loops.append(ours.ask("loop") / times[OURS][-1])
    best = {name: min(seconds) for name, seconds in times.items()}
    rows = [
        Row(
            "texts a second",
            count / best[OURS],
            count / best[name],
            name,
            best[name] / best[OURS],
            "texts/s",
            goal,
        )
        for name, goal in GOALS.items()
    ]
    own = work / best[OURS] / 1e9
    top, middle = max(rates) / 1e9, statistics.median(rates) / 1e9
    rows.append(
        Row(
            "arithmetic, best against best",
            own,
            top,
            "best of 10 matrix products",
            own / top,
            "GFLOP/s",
            0.85,
        )
    )
    rows.append(
        Row(
            "arithmetic, median round",
            own,
            middle,
            "best of 10 around that round",
            statistics.median(shares),
            "GFLOP/s",
            0.85,
        )
    )
    loop = statistics.median(loops)
    rows.append(
        Row("time for all texts", 1.0, loop, "its matrix products alone, as many", loop, "of ours")
    )
    rival = everybody["sentence-transformers"]
    pairs = [(ours.ask("one"), rival.ask("one")) for _ in range(3)]
    mine, theirs = (min(side) for side in zip(*pairs, strict=True))
    rows.append(
        Row(
            "one text at a time, p50",
            mine,
            theirs,
            "sentence-transformers",
            theirs / mine,
            "ms",
            1.0,
        )
    )
    mine, theirs = memory[OURS], memory["sentence-transformers"]
    rows.append(Row("peak memory", mine, theirs, "sentence-transformers", theirs / mine, "MB", 1.0))
    return rows


def main() -> None:
    """Run the comparison."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="fewer texts and rounds")
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--texts", type=int)
    arguments.add_argument("--contender", choices=[OURS, *CONTENDERS], help=argparse.SUPPRESS)
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    count = options.texts or (256 if options.quick else 512)
    texts, source = real_texts(count)
    if options.contender:
        serve(options.contender, texts)
        return
    if not options.json:
        cpu = torch.backends.cpu.get_cpu_capability()
        print(
            f"{count} texts from {source}; {THREADS} threads, {cpu}; the best of interleaved rounds, a process each"
        )
    show(compare(count, rounds=3 if options.quick else 9), options.json)


if __name__ == "__main__":
    main()
