"""Use the store as a program that knows nothing of it: python use.py NAME [REVISION]. Prints what is found, as JSON."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

from gguf import GGUFReader
from huggingface_hub import hf_hub_download, snapshot_download
from safetensors.numpy import load_file
from transformers import AutoConfig, AutoModel, AutoTokenizer

name, revision = (*sys.argv[1:], "main")[:2]


def answer(tokens):
    """Return the least and the greatest that the model says of tokens, by real PyTorch; None without it."""
    if not find_spec("torch"):
        return None
    import torch  # noqa: PLC0415

    model, loading = AutoModel.from_pretrained(name, revision=revision, output_loading_info=True)
    assert not loading["missing_keys"], loading
    assert not loading["unexpected_keys"], loading
    with torch.no_grad():
        said = model(torch.tensor([tokens])).last_hidden_state
    return [said.min().item(), said.max().item()]


if name.startswith("datasets/"):
    path = hf_hub_download(name.partition("/")[2], "train.csv", repo_type="dataset")
    found = {"rows": Path(path).read_text(encoding="utf-8").split()}
elif name == "acme/llama":
    (tensor,) = GGUFReader(Path(snapshot_download(name)) / "tiny.gguf").tensors
    found = {"weight": float(tensor.data[0])}
else:
    weights = load_file(hf_hub_download(name, "model.safetensors", revision=revision))
    tokens = AutoTokenizer.from_pretrained(name, revision=revision)("root only").input_ids
    found = {
        "weight": float(weights["pooler.dense.weight"][0][0]),
        "hidden": AutoConfig.from_pretrained(name, revision=revision).hidden_size,
        "tokens": tokens,
        "answer": answer(tokens),
        "snapshot": snapshot_download(name, revision=revision),
    }
sys.stdout.write(f"{json.dumps(found)}\n")
