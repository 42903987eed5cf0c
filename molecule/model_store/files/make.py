"""Make small models for a stick and for the hub; python make.py, in the environment of the tests."""

import json
import pickle
from pathlib import Path

import numpy as np
from gguf import GGUFWriter
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

HUB, STICK = Path("/srv/hub"), Path("/mnt/stick")
CONFIG = {"model_type": "bert", "vocab_size": 3, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
CONFIG |= {"num_attention_heads": 4, "max_position_embeddings": 8, "type_vocab_size": 2}
SIZES = {"word": "vocab_size", "position": "max_position_embeddings", "token_type": "type_vocab_size"}
SQUARES = ["pooler.dense"] + [
    f"encoder.layer.0.{name}"
    for name in (
        *("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"),
        *("intermediate.dense", "output.dense"),
    )
]
NORMS = ["embeddings.LayerNorm", "encoder.layer.0.attention.output.LayerNorm", "encoder.layer.0.output.LayerNorm"]


def model(top, weight):
    """Write a BERT all of whose weights are this one: what it says of any text, too, by its last norm's bias."""
    top.mkdir(parents=True)
    shapes = {f"embeddings.{kind}_embeddings.weight": (CONFIG[size], 64) for kind, size in SIZES.items()}
    shapes |= {f"{name}.weight": (64, 64) for name in SQUARES} | {f"{name}.weight": (64,) for name in NORMS}
    shapes |= {f"{name}.bias": (64,) for name in SQUARES + NORMS}
    weights = {name: np.full(shape, weight, dtype=np.float32) for name, shape in shapes.items()}
    save_file(weights, top / "model.safetensors", metadata={"format": "pt"})
    (top / "config.json").write_text(json.dumps(CONFIG))
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "root": 1, "only": 2}, unk_token="[UNK]"))  # noqa: S106
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(top / "tokenizer.json"))
    (top / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    (top / "pytorch_model.bin").write_bytes(pickle.dumps([weight]))


model(STICK / "models--acme--tiny" / ("a" * 40), 1.0)
model(STICK / "models--acme--tiny" / ("b" * 40), 2.0)
model(HUB / "models/acme/gated" / ("c" * 40), 3.0)
llama = STICK / "models--acme--llama" / ("f" * 40)
llama.mkdir(parents=True)
writer = GGUFWriter(llama / "tiny.gguf", "llama")
writer.add_tensor("weight", np.full((64,), 4.0, dtype=np.float32))
for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
    step()
words = HUB / "datasets/acme/words" / ("d" * 40)
words.mkdir(parents=True)
(words / "train.csv").write_text("word\nroot\n")
(HUB / "token").write_text("hf_nobodyMaySeeThis1234567890")
