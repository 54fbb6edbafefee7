"""Text in: tokenizers, sentences and corpora, without torch."""
