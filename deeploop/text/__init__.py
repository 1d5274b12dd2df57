"""Text: corpora, tokenizers, token shards and the loader that reads them."""
