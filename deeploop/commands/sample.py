"""Let a trained language model go on with a text.

deeploop sample MODEL_DIR --prompt "def main" --temperature 0.8 --top-k 50
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deeploop.errors import UserError

HELP = "let a trained language model go on with a text"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("model", metavar="MODEL_DIR", type=Path, help="holds model.safetensors and model.json")
    add("--prompt", default="", help="text to go on with; none starts a document")
    add("--tokens", type=int, help="how many new ones; as many as the context holds by default")
    add("--temperature", type=float, default=0.0, help="0 takes the most probable token (0)")
    add("--top-k", type=int, help="draw among so many most probable tokens only")
    add("--seed", type=int, default=0, help="of the draws (0)")
    add("--device", default="cpu", help="cpu or cuda (cpu)")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    import numpy as np
    import torch

    from deeploop.nn.folder import describe, open_model
    from deeploop.nn.generate import generate
    from deeploop.text.tokenizers import load_tokenizer

    if args.temperature < 0 or (args.top_k or 1) < 1 or (args.tokens or 1) < 1:
        raise UserError("--temperature is 0 or more, --top-k and --tokens are 1 or more")
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("--device cuda, but torch sees no GPU: use cpu")
    description = describe(args.model)
    tokenizer = load_tokenizer(description.tokenizer)
    model = open_model(args.model, args.device)
    (encoded,) = tokenizer.encode([args.prompt])
    known = [tokenizer.end_of_text, *encoded.tolist()]  # as every document began in training
    prompt = torch.tensor([known], device=args.device)
    new = args.tokens or max(1, description.window - len(known))
    vocabulary = min(tokenizer.vocab_size, description.config.backbone.vocab_size)
    drawn = generate(model, prompt, new, args.temperature, args.top_k, args.seed, vocabulary)
    made: list[int] = []
    for token in drawn:
        if token.item() == tokenizer.end_of_text:
            break
        made.append(int(token.item()))
    print(args.prompt + tokenizer.decode(np.array(made, dtype=np.uint16)))
    return 0
