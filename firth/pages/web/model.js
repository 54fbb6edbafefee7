// The model that the page holds: its sizes, and its weights by the layers that they belong to.

import { readArray } from "./data.js";

// Return the model, as a promise.
export async function readModel({ settings, tensors }) {
  const names = Object.keys(tensors);
  const arrays = await Promise.all(names.map((name) => readArray(tensors[name])));
  const numbers = new Map(names.map((name, at) => [name, arrays[at].whole]));
  const layer = (name) => ({
    weight: numbers.get(`${name}.weight`),
    bias: numbers.get(`${name}.bias`),
  });
  const block = (number) => ({
    qkv: layer(`blocks.${number}.attention.qkv`),
    out: layer(`blocks.${number}.attention.out`),
    attentionNorm: layer(`blocks.${number}.attention_norm`),
    up: layer(`blocks.${number}.up`),
    down: layer(`blocks.${number}.down`),
    norm: layer(`blocks.${number}.norm`),
  });
  const [vocab, width] = tensors["embedding.token.weight"].shape;
  const [inner] = tensors["blocks.0.up.weight"].shape;
  const depth = names.filter((name) => /^blocks\.\d+\.up\.weight$/.test(name)).length;
  return {
    ...settings,
    ...{ vocab, width, inner },
    table: numbers.get("embedding.token.weight"),
    position: numbers.get("embedding.position.weight"),
    norm: layer("embedding.norm"),
    layers: Array.from({ length: depth }, (_, number) => block(number)),
    head: {
      dense: layer("head.dense"),
      norm: layer("head.norm"),
      bias: numbers.get("head.bias"),
      activation: settings.headActivation,
    },
  };
}
