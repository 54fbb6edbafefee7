"""Sentence vectors from minilm: Firth against sentence-transformers, plain transformers and ONNX Runtime, in one run.

Everybody gets the same texts and two threads and tokenises for himself; rounds are interleaved and the best of each counts.
The last rows compare with the machine itself: the rate of its matrix product at the model's own shapes.
    python -m benchmarks.embed [--quick] [--json]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.table import Row, show
from benchmarks.texts import real_texts
from firth import load
from firth.bundle import find
from firth.predict import TOKENS_PER_BATCH, Predictor

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

    tokenizer, model = AutoTokenizer.from_pretrained(find("minilm")), AutoModel.from_pretrained(find("minilm")).eval()

    @torch.inference_mode()
    def embed(texts: list[str]) -> np.ndarray:
        parts = []
        for start in range(0, len(texts), 32):
            batch = tokenizer(texts[start : start + 32], padding=True, truncation=True, max_length=256, return_tensors="pt")
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

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state

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
            vectors[picked] = _pooled(torch.from_numpy(hidden), torch.from_numpy(batch["attention_mask"])).numpy()
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
        x, w, b = torch.randn(TOKENS_PER_BATCH, rows), torch.randn(columns, rows), torch.randn(columns)
        seconds += min(_timed(lambda x=x, w=w, b=b: F.linear(x, w, b)) for _ in range(tries))
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

    return _timed(run) * tokens / (tokens // TOKENS_PER_BATCH * TOKENS_PER_BATCH)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def latencies(embed: Embedder, texts: list[str]) -> list[float]:
    return [_timed(lambda text=text: embed([text])) for text in texts]


def peak_memory(who: str, texts: int) -> float:
    """Megabytes at the most of a fresh process that only embeds."""
    command = [sys.executable, "-m", "benchmarks.embed", "--memory-of", who, "--texts", str(texts)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def main() -> None:
    """Run the comparison."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="fewer texts and rounds")
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--texts", type=int)
    arguments.add_argument("--memory-of", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    options = arguments.parse_args()
    count = options.texts or (256 if options.quick else 512)
    warnings.simplefilter("ignore")
    texts, source = real_texts(count)
    torch.set_num_threads(THREADS)
    if options.memory_of:
        embed = load("minilm", THREADS).embed if options.memory_of == "ours" else sentence_transformers()
        embed(texts)
        # Not getrusage: its peak is inherited from the process that started this one.
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        print(int(status["VmHWM"].split()[0]) / 1024)
        return
    predictor = load("minilm", THREADS)
    lengths = [min(256, len(row)) for row in predictor.bundle.tokenizer.encode(texts)]
    if not options.json:
        cpu = torch.backends.cpu.get_cpu_capability()
        print(
            f"{count} texts from {source}, {min(lengths)} to {max(lengths)} tokens, "
            f"mean {statistics.mean(lengths):.0f}; {THREADS} threads, {cpu}"
        )
    with tempfile.TemporaryDirectory() as folder:
        rivals = {
            "sentence-transformers": (sentence_transformers(), 1.4),
            "transformers, padded batches of 32": (transformers_plain(), 4.0),
            "ONNX Runtime fp32, sorted": (onnx_runtime(Path(folder)), 1.0),
        }
        mine: Embedder = predictor.embed
        expected = mine(texts)
        for name, (embed, _) in rivals.items():
            difference = float(np.abs(embed(texts) - expected).max())
            assert difference < 1e-5, f"{name} gives other vectors: {difference}"
        best: dict[str, float] = {}
        rates, loops, shares = [], [], []
        work, tokens = flops(predictor, lengths), sum(lengths)
        for _ in range(3 if options.quick else 7):
            before = gemm_rate(predictor)
            seconds = _timed(lambda: mine(texts))
            after = gemm_rate(predictor)
            loops.append(gemm_loop(predictor, tokens) / seconds)
            rates += [before, after]
            shares.append(work / seconds / ((before + after) / 2))
            best["ours"] = min(best.get("ours", seconds), seconds)
            for name, (embed, _) in rivals.items():
                seconds = _timed(lambda embed=embed: embed(texts))
                best[name] = min(best.get(name, seconds), seconds)
        speed = count / best["ours"]
        rows = [
            Row("texts a second", speed, count / best[name], name, best[name] / best["ours"], "texts/s", goal)
            for name, (_, goal) in rivals.items()
        ]
        own = work / best["ours"] / 1e9
        rows.append(
            Row(
                "arithmetic, best round",
                own,
                max(rates) / 1e9,
                "best of 10 matrix products, best round",
                own * 1e9 / max(rates),
                "GFLOP/s",
                0.85,
            )
        )
        rows.append(
            Row(
                "arithmetic, median of rounds",
                own,
                statistics.median(rates) / 1e9,
                "best of 10 matrix products, around the round",
                statistics.median(shares),
                "GFLOP/s",
                0.85,
            )
        )
        rows.append(
            Row(
                "time over all texts",
                1.0,
                statistics.median(loops),
                "the same matrix products alone, as long",
                statistics.median(loops),
                "of ours",
            )
        )
        single = texts[:100]
        pairs = [
            (
                statistics.median(latencies(mine, single)),
                statistics.median(latencies(rivals["sentence-transformers"][0], single)),
            )
            for _ in range(3)
        ]
        mine_ms, theirs_ms = min(a for a, _ in pairs) * 1e3, min(b for _, b in pairs) * 1e3
        rows.append(Row("one text at a time, p50", mine_ms, theirs_ms, "sentence-transformers", theirs_ms / mine_ms, "ms", 1.0))
    memory, theirs = peak_memory("ours", count), peak_memory("theirs", count)
    rows.append(Row("peak memory of a process", memory, theirs, "sentence-transformers", theirs / memory, "MB", 1.0))
    show(rows, options.json)


if __name__ == "__main__":
    main()
