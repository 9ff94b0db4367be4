"""Name formats of models that are not read, and say what is."""

from pathlib import Path

from chemspec.model.checkpoint import CheckpointError

READ = (
    "chemspec reads its own folders; checkpoints of OpenNMT-py (.pt), translation-transformer and Chemformer (.ckpt); "
    "folders of Hugging Face transformers with T5, BART, Marian, Pegasus, GPT-2, LLaMA, Mistral or Qwen2; and models "
    "built on torch.nn.Transformer, with a description in TOML (docs: models.md, 'Checkpoints of other programs')"
)
# By ending, or name of a file: the format, and what to do instead.
FORMATS = {
    ".onnx": ("ONNX", "take the checkpoint that it was exported from"),
    ".gguf": ("GGUF (llama.cpp)", "take the checkpoint that it was converted from"),
    ".h5": ("a file of Keras or TensorFlow", "save it in torch"),
    ".keras": ("a file of Keras", "save it in torch"),
    ".tflite": ("TensorFlow Lite", "take the checkpoint that it was converted from"),
    "saved_model.pb": ("a saved model of TensorFlow", "save it in torch"),
    ".msgpack": ("Flax", "save it in torch"),
    "model.bin": ("CTranslate2", "take the checkpoint that it was converted from"),
}
FAIRSEQ = (
    "fairseq",
    "convert it to Marian or BART of Hugging Face, if it is of that shape, or describe its network in torch",
)


def explain_unread_format(path: Path) -> None:
    """Raise CheckpointError for a file, or a folder with a file, of a format that is known and not read."""
    if path.is_dir() and (path / "model.safetensors").exists():
        return
    for file in [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []:
        if unread := FORMATS.get(file.name) or FORMATS.get(file.suffix.lower()):
            raise unread_format_error(file, *unread)


def unread_format_error(file: Path, name: str, remedy: str) -> CheckpointError:
    """Return the error for a file of a format that is not read."""
    return CheckpointError(f"{file} is {name}, which chemspec does not read: {remedy}. {READ}")
