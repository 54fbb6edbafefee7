"""Whether `firth convert` reads what TensorFlow itself writes, to the bit.

The first command needs an environment with TensorFlow (tensorflow-cpu) and nothing of Firth's, the
second Firth's own:

    python benchmarks/convert.py write DIR
    python -m benchmarks.convert check DIR

The first writes three small BERTs with TensorFlow's Saver (format V2), with the arrays beside them:
in one file; in two files; with embeddings that are partitioned variables.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {"vocab_size": 101, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
CONFIG: dict[str, Any] = SIZES | {
    "intermediate_size": 64,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}
KINDS = ("whole", "sharded", "partitioned")


def shapes() -> dict[str, tuple[int, ...]]:
    """The tensors of a BERT as Google's program names them."""
    v, d, inner = CONFIG["vocab_size"], CONFIG["hidden_size"], CONFIG["intermediate_size"]
    found: dict[str, tuple[int, ...]] = {
        "bert/embeddings/word_embeddings": (v, d),
        "bert/embeddings/position_embeddings": (CONFIG["max_position_embeddings"], d),
        "bert/embeddings/token_type_embeddings": (CONFIG["type_vocab_size"], d),
        "cls/predictions/output_bias": (v,),
        "cls/seq_relationship/output_weights": (2, d),
        "cls/seq_relationship/output_bias": (2,),
    }
    dense = {"bert/pooler/dense": (d, d), "cls/predictions/transform/dense": (d, d)}
    norms = ["bert/embeddings/LayerNorm", "cls/predictions/transform/LayerNorm"]
    for number in range(CONFIG["num_hidden_layers"]):
        layer = f"bert/encoder/layer_{number}"
        for part in ("self/query", "self/key", "self/value", "output/dense"):
            dense[f"{layer}/attention/{part}"] = (d, d)
        dense[f"{layer}/intermediate/dense"] = (d, inner)
        dense[f"{layer}/output/dense"] = (inner, d)
        norms += [f"{layer}/attention/output/LayerNorm", f"{layer}/output/LayerNorm"]
    for name, shape in dense.items():
        found |= {f"{name}/kernel": shape, f"{name}/bias": shape[1:]}
    for name in norms:
        found |= {f"{name}/gamma": (d,), f"{name}/beta": (d,)}
    return found


def write(folder: Path) -> None:
    """Write a checkpoint of each kind with TensorFlow."""
    import tensorflow

    tf = tensorflow.compat.v1
    tf.disable_eager_execution()
    draw = np.random.default_rng(0)
    arrays = {name: draw.normal(size=shape).astype("f4") for name, shape in shapes().items()}
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words += [f"w{number}" for number in range(len(words), CONFIG["vocab_size"])]
    for kind in KINDS:
        place = folder / kind
        place.mkdir(parents=True)
        np.savez(place / "arrays.npz", **{name.replace("/", "|"): a for name, a in arrays.items()})
        (place / "bert_config.json").write_text(json.dumps(CONFIG))
        (place / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
        save(tf, kind, arrays, place / "bert_model.ckpt")
    print(f"written with TensorFlow {tensorflow.__version__}")


def save(tf: Any, kind: str, arrays: dict[str, Any], prefix: Path) -> None:
    """Save arrays as variables, with an optimizer's moments as training leaves them."""
    devices = ["/cpu:0", "/cpu:1"] if kind == "sharded" else ["/cpu:0"]
    with tf.Graph().as_default():
        steps = []
        for number, (name, array) in enumerate(arrays.items()):
            cut = None
            if kind == "partitioned" and name.endswith("_embeddings"):
                cut = tf.fixed_size_partitioner(2, axis=number % 2)
            with tf.device(devices[number % len(devices)]):
                variable = tf.get_variable(name, array.shape, tf.float32, partitioner=cut)
                moment = tf.get_variable(f"{name}/adam_m", array.shape, tf.float32)
                steps += assigned(tf, variable, array)
                steps.append(tf.assign(moment, np.ones_like(array)))
        tf.train.get_or_create_global_step()
        config = tf.ConfigProto(device_count={"CPU": len(devices)})
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            session.run(steps)
            saver = tf.train.Saver(sharded=kind == "sharded", write_version=tf.train.SaverDef.V2)
            saver.save(session, str(prefix))


def assigned(tf: Any, variable: Any, array: Any) -> list[Any]:
    """What gives a variable its values, part by part where it is partitioned."""
    if not hasattr(variable, "_get_partitions"):
        return [tf.assign(variable, array)]
    found = []
    for part in variable:
        offset = part._get_save_slice_info().var_offset
        place = tuple(
            slice(a, a + int(n)) for a, n in zip(offset, part.shape.as_list(), strict=True)
        )
        found.append(tf.assign(part, array[place]))
    return found


def check(folder: Path) -> None:
    """Convert each checkpoint and compare all that it holds with the arrays."""
    from safetensors.numpy import load_file

    import firth
    from firth.folders.tensorbundle import TensorBundle

    for kind in KINDS:
        place = folder / kind
        with np.load(place / "arrays.npz") as held:
            arrays = {name.replace("|", "/"): held[name] for name in held.files}
        bundle = TensorBundle(place / "bert_model.ckpt")
        for name, array in arrays.items():
            assert bundle.read(name).numpy().tobytes() == array.tobytes(), name
            assert (bundle.read(f"{name}/adam_m").numpy() == 1).all(), name
        converted = firth.convert(place, folder / f"{kind}-firth", force=True)
        assert converted.tensors == len(arrays), converted
        saved = load_file(folder / f"{kind}-firth" / "model.safetensors")
        expected = sorted(part(name, array) for name, array in arrays.items())
        assert sorted(array.tobytes() for array in saved.values()) == expected
        print(f"{kind}: {len(bundle.tensors)} tensors read, {len(saved)} of the folder, equal")


def part(name: str, array: Any) -> bytes:
    """What the folder holds of a tensor."""
    turned = array.T if name.endswith("/kernel") else array
    return np.ascontiguousarray(turned).tobytes()


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](Path(sys.argv[2]))
