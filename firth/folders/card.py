"""The model card: a page for people in every saved folder."""

from firth.folders.bundle import Bundle

DOES = {
    None: "an encoder",
    "pretrain": "an encoder with the heads of pretraining",
    "fill": "a model that fills blanks",
    "continue": "a language model",
    "translate": "an encoder-decoder",
    "bidirectional": "a forward and a backward language model",
}


def model_card(bundle: Bundle) -> str:
    """Return the page."""
    name = DOES.get(bundle.kind, f"a model for the task {bundle.kind!r}").capitalize()
    reads = "reads texts of any length"
    if bundle.length:
        reads = f"reads {bundle.length} tokens of a text"
    page = f"# {name}\n\nSaved by Firth. {bundle.record.card(bundle.model)}, {reads}.\n\n"
    if bundle.features:
        layers = ", ".join(map(str, bundle.features.layers))
        reader = "a biLSTM with a head" if bundle.features.bilstm else "a head"
        mixed = f" as {bundle.features.mix}" if bundle.features.mix.learned else ""
        page += (
            f"The encoder was not taught: {reader} reads its layers {layers}{mixed}. transformers "
            "opens the folder as an encoder (`AutoModel`) and leaves the weights `firth.*` aside. "
            "Its classes with a head refuse the folder, because that head would be untrained.\n\n"
        )
    theirs = ""
    if bundle.record.layout.bare:
        theirs = " or, unchanged, with transformers"
        theirs += " or sentence-transformers" if bundle.sentence else ""
    page += f"Open it with `firth.load(folder)`{theirs}. "
    page += (
        "`firth.json` holds the sha256 of every file; Firth checks them when it opens the folder.\n"
    )
    return page
