"""Export a trained language model to a Hugging Face folder.

To open it:

    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = AutoModelForCausalLM.from_pretrained("OUT", trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained("OUT")
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deeploop.errors import UserError

HELP = "export a trained language model to a Hugging Face folder"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", metavar="MODEL_DIR", type=Path, help="holds model.safetensors")
    parser.add_argument("out", metavar="OUT", type=Path, help="new folder")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.nn.folder import describe

    describe(args.model)
    if args.out.exists() and any(args.out.iterdir()):
        raise UserError(f"{args.out} is not empty: name a new folder")
    from deeploop.nn.hugging_face import export

    export(args.model, args.out)
    print(args.out)
    return 0
