"""MPNet's distances: every layer, every weight of attention and every gradient as transformers has them."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import MPNetConfig, MPNetModel

from firth.folders.read import load
from firth.models.protocols import Encoder
from firth.nn.attention import attend, attend_stream
from firth.nn.ragged import groups
from tests.parity.test_bert import (
    SIZES,
    Padded,
    batch,
    check_body,
    close,
    close_weights,
    shake,
    write_words,
)

LENGTHS = [300, 300, 140, 129, 128, 17, 16, 9, 9, 8, 1]
DISTANCES = "encoder.relative_attention_bias.weight"


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pair(folder: Path, spread: float) -> tuple[Encoder, MPNetModel]:
    """A small network whose distances count, ours and theirs."""
    torch.manual_seed(0)
    theirs = MPNetModel(MPNetConfig(**SIZES, initializer_range=spread))
    shake(theirs, torch.Generator().manual_seed(1))
    with torch.no_grad():
        theirs.get_parameter(DISTANCES).normal_()
    theirs.save_pretrained(folder)
    write_words(folder)
    theirs = MPNetModel.from_pretrained(folder, attn_implementation="eager").eval()
    return load(folder).encoder, theirs


def asked() -> tuple[Padded, dict[str, Tensor]]:
    """A batch with texts that are longer than the farthest distance."""
    found = batch(LENGTHS, 60, torch.Generator().manual_seed(2), pad=1)
    given = {key: found.rectangle[key] for key in ("input_ids", "attention_mask")}
    return found, given


def test_layers_and_weights(tmp_path: Path) -> None:
    ours, theirs = pair(tmp_path / "given", 0.2)
    question, given = asked()
    with torch.inference_mode():
        reference = theirs(**given, output_hidden_states=True, output_attentions=True)
        check_body(ours(*question.stream, layers=True), reference, question)
        hidden = ours(*question.stream, layers=True, weights=True)
        check_body(hidden, reference, question)
        close_weights(hidden, reference.attentions, LENGTHS)
        close(hidden.pooled, reference.pooler_output)
        nothing = torch.zeros_like(ours.get_parameter("distance.table.weight"))
        ours.get_parameter("distance.table.weight").set_(nothing)
        without = ours(*question.stream).tokens
    assert (without - hidden.tokens).abs().max() > 0.1


def test_gradients(tmp_path: Path) -> None:
    ours, theirs = pair(tmp_path / "given", 0.1)
    question, given = asked()
    slope = torch.randn(
        len(question.stream[0]), ours.width, generator=torch.Generator().manual_seed(3)
    )
    ours.requires_grad_(True)
    (ours(*question.stream).tokens * slope).sum().backward()
    reference = theirs(**given).last_hidden_state[question.mask]
    (reference * slope).sum().backward()
    expected = theirs.get_parameter(DISTANCES).grad
    assert (expected != 0).any(1).sum() == 31  # no key after a query is 0 ahead of it
    for one, other in (
        (ours.get_parameter("distance.table.weight").grad, expected),
        (ours.table.grad, theirs.get_input_embeddings().weight.grad),
    ):
        assert (one - other).abs().max() <= 1e-4 * other.abs().max()


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_biases_of_our_own_passes(dropout: float) -> None:
    """Their gradient by finite differences, and without dropout their values step by step."""
    torch.manual_seed(0)
    layout = groups([3, 3, 2])
    qkv = torch.randn(8, 12, dtype=torch.float64, requires_grad=True)
    biases = [torch.randn(2, n, n, dtype=torch.float64, requires_grad=True) for n in (3, 2)]

    def run(qkv: Tensor, *biases: Tensor) -> Tensor:
        torch.manual_seed(1)
        return attend_stream(qkv, layout, 2, False, dropout, biases)

    assert torch.autograd.gradcheck(run, (qkv, *biases))
    if not dropout:
        q, k, v = qkv[6:].view(2, 3, 2, 2).permute(1, 2, 0, 3)
        values, _ = attend(q, k, v, bias=biases[1])
        close(run(qkv, *biases)[6:], values.transpose(0, 1).flatten(1))
