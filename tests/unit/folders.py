"""Sound model folders, small enough to be made ten thousand times, as bytes by file name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as pack_tensors

from firth.families.attention import AttentionSettings
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.counts import NGramSettings, Sentences
from firth.models.elmo import Elmo, ElmoSettings
from firth.models.ffnn import Ffnn, FfnnSettings
from firth.models.gpt import Gpt, GptSettings
from firth.models.marian import Marian, MarianSettings
from firth.models.ngram import NGram
from firth.models.rnn import Rnn, RnnSettings
from firth.models.seq2seq import Seq2Seq, Seq2SeqSettings
from firth.models.t5 import T5, T5Settings
from firth.models.transformer import Transformer, TransformerSettings
from firth.tasks.head import make_head
from firth.text.tokenizer import Tokenizer

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "b",
    "c",
    "##a",
    "##b",
    "the",
    ".",
    "cat",
    "##s",
]
Folder = dict[str, Any]  # file name -> bytes, or a function that makes something else there


def body(family: str, prefix: str = "") -> dict[str, tuple[int, ...]]:
    """Names and shapes of a body of width 8 with one layer, as Hugging Face writes them."""
    v, d, inner, length = len(PIECES), 8, 16, 16
    if family == "distilbert":
        layer, parts = (
            "transformer.layer.0.",
            ["attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"],
        )
        norms, wide = ["sa_layer_norm", "output_layer_norm"], ("ffn.lin1", "ffn.lin2")
    else:
        layer = "encoder.layer.0."
        parts = [
            *(f"attention.self.{part}" for part in ("query", "key", "value")),
            "attention.output.dense",
        ]
        norms, wide = (
            ["attention.output.LayerNorm", "output.LayerNorm"],
            ("intermediate.dense", "output.dense"),
        )
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (v, d),
        "embeddings.position_embeddings.weight": (length, d),
    }
    if family != "distilbert":
        found |= {
            "embeddings.token_type_embeddings.weight": (2, d),
            "pooler.dense.weight": (d, d),
            "pooler.dense.bias": (d,),
        }
    for name in ["embeddings.LayerNorm", *(layer + norm for norm in norms)]:
        found |= {f"{name}.weight": (d,), f"{name}.bias": (d,)}
    for name in parts:
        found |= {f"{layer}{name}.weight": (d, d), f"{layer}{name}.bias": (d,)}
    found |= {
        f"{layer}{wide[0]}.weight": (inner, d),
        f"{layer}{wide[0]}.bias": (inner,),
        f"{layer}{wide[1]}.weight": (d, inner),
        f"{layer}{wide[1]}.bias": (d,),
    }
    return {prefix + name: shape for name, shape in found.items()}


def head() -> dict[str, tuple[int, ...]]:
    transform = "cls.predictions.transform."
    names = {
        f"{transform}dense.weight": (8, 8),
        f"{transform}dense.bias": (8,),
        f"{transform}LayerNorm.weight": (8,),
        f"{transform}LayerNorm.bias": (8,),
    }
    return {**names, "cls.predictions.bias": (len(PIECES),)}


BERT_CONFIG = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": len(PIECES),
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "initializer_range": 0.02,
    "pad_token_id": 0,
    "tie_word_embeddings": True,
}
DISTIL_CONFIG = {
    "model_type": "distilbert",
    "architectures": ["DistilBertModel"],
    "vocab_size": len(PIECES),
    "dim": 8,
    "n_layers": 1,
    "n_heads": 2,
    "hidden_dim": 16,
    "max_position_embeddings": 16,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation": "gelu",
    "initializer_range": 0.02,
    "pad_token_id": 0,
}


def words() -> str:
    """A tokenizer.json for the pieces."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(
        models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(PIECES[:5])
    return tokenizer.to_str()


def random_tensors(shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    maker = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=maker) for name, shape in shapes.items()}


def sound_folders() -> dict[str, Folder]:
    """One of each kind that Firth opens, as bytes by file name."""
    special = {
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
    }
    shared = {
        "tokenizer.json": words().encode(),
        "tokenizer_config.json": json.dumps(
            {
                "tokenizer_class": "BertTokenizerFast",
                "do_lower_case": True,
                "model_max_length": 16,
                **special,
            }
        ).encode(),
        "special_tokens_map.json": json.dumps(special).encode(),
        "vocab.txt": "".join(piece + "\n" for piece in PIECES).encode(),
    }
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    sentence = {
        "modules.json": json.dumps(
            [
                {
                    "idx": i,
                    "name": str(i),
                    "path": path,
                    "type": f"sentence_transformers.models.{kind}",
                }
                for i, (kind, path) in enumerate(modules)
            ]
        ).encode(),
        "1_Pooling/config.json": json.dumps(
            {
                "word_embedding_dimension": 8,
                "pooling_mode_cls_token": False,
                "pooling_mode_mean_tokens": True,
            }
        ).encode(),
        "sentence_bert_config.json": json.dumps(
            {"max_seq_length": 12, "do_lower_case": False}
        ).encode(),
        "config_sentence_transformers.json": json.dumps(
            {"prompts": {}, "default_prompt_name": None}
        ).encode(),
    }
    roberta = {
        **BERT_CONFIG,
        "model_type": "roberta",
        "architectures": ["RobertaModel"],
        "pad_token_id": 1,
    }

    def whole(config: dict[str, Any], shapes: dict[str, tuple[int, ...]], *more: Folder) -> Folder:
        weights = {
            "config.json": json.dumps(config).encode(),
            "model.safetensors": pack_tensors(random_tensors(shapes), {"format": "pt"}),
        }
        return {**shared, **weights, **{name: data for part in more for name, data in part.items()}}

    shards = pack_tensors(random_tensors({k: v for k, v in body("bert").items() if "encoder" in k}))
    rest = pack_tensors(
        random_tensors({k: v for k, v in body("bert").items() if "encoder" not in k})
    )
    split = whole(BERT_CONFIG, {}, {"model-1.safetensors": shards, "model-2.safetensors": rest})
    del split["model.safetensors"]
    table = {
        k: "model-1.safetensors" if "encoder" in k else "model-2.safetensors" for k in body("bert")
    }
    split["model.safetensors.index.json"] = json.dumps(
        {"metadata": {}, "weight_map": table}
    ).encode()
    old = whole(BERT_CONFIG, body("bert"))
    del old["tokenizer.json"]  # a vocabulary alone
    return {
        "sentence": whole(BERT_CONFIG, body("bert"), sentence),
        "masked": whole(
            {**BERT_CONFIG, "architectures": ["BertForMaskedLM"]},
            {**body("bert", "bert."), **head()},
        ),
        "distilbert": whole(DISTIL_CONFIG, body("distilbert")),
        "roberta": whole(roberta, body("roberta")),
        "split": split,
        "old": old,
    }


def language_models() -> dict[str, tuple[Any, str | None, tuple[str, ...]]]:
    """One of each kind of language model: the model, what it does, and its labels."""
    marks = {"vocab": len(PIECES), "start": 2, "end": 3}
    small = GptSettings(**marks, width=8, depth=1, heads=2, inner=16, length=16)
    rows = Sentences(
        np.array([10, 12, 13, 11, 3, 10, 12, 11, 3, 5, 6, 3, 5, 7, 3]), np.array([5, 4, 3, 3])
    )
    classes = {"output": "classes", "cutoffs": (3, 8)}
    sides = {"width": 8, "depth": 1, "heads": 2, "inner": 16}
    both = {**sides, "length": 16}
    second = {"head_width": 5, "gated": True, "scaled": False, "own_output": True}
    return {
        "gpt": (Gpt(small), "continue", ()),
        "gpt bare": (Gpt(small), None, ()),
        "gpt classes": (Gpt(small), "classify", ("no", "yes")),
        "gpt tags": (Gpt(small), "tag", ("O", "B-x", "I-x")),
        "tanh": (Rnn(RnnSettings(**marks, width=8, cell="tanh", depth=1)), "continue", ()),
        "gru": (
            Rnn(RnnSettings(**marks, width=8, cell="gru", output="sampled", tied=True)),
            "continue",
            (),
        ),
        "lstm": (Rnn(RnnSettings(**marks | {"end": None}, width=16, **classes)), "continue", ()),
        "rnn classes": (
            Rnn(
                RnnSettings(
                    **marks, width=8, inputs=6, cell="gru", output="none", bidirectional=True
                )
            ),
            "classify",
            ("no", "yes"),
        ),
        "ffnn": (
            Ffnn(FfnnSettings(**marks, width=4, inner=6, order=3, direct=True)),
            "continue",
            (),
        ),
        "ffnn classes": (
            Ffnn(FfnnSettings(**marks, width=4, inner=16, order=3, **classes)),
            "continue",
            (),
        ),
        "elmo": (Elmo(ElmoSettings(**marks, width=8)), "bidirectional", ()),
        "elmo classes": (
            Elmo(ElmoSettings(**marks, width=16, depth=1, **classes)),
            "bidirectional",
            (),
        ),
        "seq2seq": (Seq2Seq(Seq2SeqSettings(**marks, width=8, tied=False)), "translate", ()),
        "attention": (Seq2Seq(AttentionSettings(**marks, width=8, cell="gru")), "translate", ()),
        "transformer": (
            Transformer(TransformerSettings(**marks, **both, norm="pre", decoder_depth=2)),
            "translate",
            (),
        ),
        "marian": (Marian(MarianSettings(**marks, **both, pad=2)), "translate", ()),
        "t5": (T5(T5Settings(**marks, **sides, head_width=3, decoder_depth=2)), "translate", ()),
        "t5 1.1": (T5(T5Settings(**marks, **sides, **second)), "translate", ()),
        "ngram": (NGram.fit([rows], NGramSettings(**marks, order=3)), "continue", ()),
    }


FAMILIES = {
    Gpt: "gpt2",
    Elmo: "firth-elmo",
    Rnn: "firth-rnn",
    Ffnn: "firth-ffnn",
    NGram: "firth-ngram",
    Transformer: "firth-transformer",
    Marian: "marian",
    T5: "t5",
}
PAIR_KINDS = ["seq2seq", "attention", "transformer", "marian", "t5", "t5 1.1"]
LANGUAGE_KINDS = [
    "gpt",
    "gpt bare",
    "gpt classes",
    "gpt tags",
    "tanh",
    "gru",
    "lstm",
    "rnn classes",
    "ffnn",
    "ffnn classes",
    "elmo",
    "elmo classes",
    "ngram",
    *PAIR_KINDS,
]


def language_folders(place: Path) -> dict[str, Folder]:
    """The same as folders that Firth wrote, as bytes by file name."""
    (place / "tokenizer.json").write_text(words())
    tokenizer = Tokenizer.open(place)
    torch.manual_seed(0)
    found = {}
    for kind, (model, does, labels) in language_models().items():
        has_head = isinstance(model, Gpt | Elmo) or labels
        head = make_head(does, model, labels) if has_head else None
        family = FAMILIES.get(type(model), f"firth-{kind}")
        folder = save(Bundle(model, tokenizer, family, does, head, labels), place / kind)
        found[kind] = {path.name: path.read_bytes() for path in folder.iterdir()}
    return found


def write(folder: Path, content: Folder) -> Path:
    """Put a folder on disk; content that is callable makes its own file."""
    folder.mkdir(parents=True)
    for name, data in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(data):
            data(path)
        else:
            path.write_bytes(data)
    return folder
