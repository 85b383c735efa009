"""What is trained: a GPT-2 of some size, or a model of another family, and data for it of random words, sounds
and pictures, each sample as long as it may be."""
import json
import os
import random
import struct
import wave
from dataclasses import dataclass, field

TOKENS = 60000
SAMPLES = 64


@dataclass
class Shape:
    """Of a GPT-2, and of a batch."""
    layers: int
    width: int
    heads: int
    micro_batch: int
    vocabulary: int = 50257
    seq_len: int = 256
    kind = "text"
    flags = ()  # of train
    peer_flags = ()

    def config(self):
        return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
                "vocab_size": self.vocabulary, "n_positions": 1024, "n_embd": self.width,
                "n_layer": self.layers, "n_head": self.heads, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
                "attn_pdrop": 0.0}


@dataclass
class Family:
    """Any model, from its whole config; `kind` is one of data_flags."""
    kind: str
    micro_batch: int
    seq_len: int  # pictures: points a side
    values: dict
    flags: list = field(default_factory=list)
    peer_flags: list = field(default_factory=list)

    def config(self):
        return self.values


def text(work, shape):
    vocabulary = shape.config()["vocab_size"]
    path = work.path(f"tokens-{vocabulary}.bin")
    if not os.path.exists(path):
        random.seed(1)
        with open(path, "wb") as file:
            file.write(struct.pack(f"<{TOKENS}H", *(random.randrange(vocabulary) for _ in range(TOKENS))))
    return ["--data", path, "--seq-len", str(shape.seq_len)]


def letters(count):
    return "".join(random.choice("abcdefghij") for _ in range(count))


def write_rows(path, row):
    """Of row(i) a line."""
    with open(path, "w", encoding="utf-8") as file:
        for i in range(SAMPLES):
            file.write(json.dumps(row(i)) + "\n")


def classes(work, shape):
    path, labels = work.path("classes.jsonl"), list(shape.config()["label2id"])
    write_rows(path, lambda i: {"text": letters(shape.seq_len), "label": labels[i % len(labels)]})
    return ["--data", path, "--tokenizer", "bytes", "--max-length", str(shape.seq_len)]


def pairs(work, shape):
    path, length = work.path("pairs.jsonl"), str(shape.seq_len)
    write_rows(path, lambda i: {"source": letters(shape.seq_len), "target": letters(shape.seq_len)})
    return ["--data", path, "--tokenizer", "bytes", "--source-key", "source", "--target-key", "target",
            "--max-source-length", length, "--max-target-length", length]


def speech(work, shape):
    """Noise of half the positions' length; what is behind it is silence, and computed alike."""
    for i in range(SAMPLES // 4):
        with wave.open(work.path(f"{i}.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(random.randbytes(160 * 2 * shape.config()["max_source_positions"]))
    path = work.path("speech.jsonl")
    write_rows(path, lambda i: {"audio": f"{i % (SAMPLES // 4)}.wav", "text": letters(shape.seq_len)})
    return ["--data", path, "--tokenizer", "bytes", "--max-target-length", str(shape.seq_len)]


def pictures(work, shape):
    """CIFAR-10's records: a label, and 32 x 32 points of three colours; enlarged."""
    path = work.path("data_batch_1.bin")
    with open(path, "wb") as file:
        for i in range(SAMPLES):
            file.write(bytes([i % 10]) + random.randbytes(3072))
    return ["--data", path, "--picture-size", str(shape.seq_len), "--augment", "none"]


def data_flags(work, shape):
    """Those of `train`, whose files are written."""
    return {"text": text, "classes": classes, "pairs": pairs, "speech": speech, "pictures": pictures}[shape.kind](
        work, shape)


def llama(tiny, **changes):
    width, layers = (64, 2) if tiny else (768, 12)
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 512 if tiny else 32000,
            "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": width // 32 if tiny else 12,
            "num_key_value_heads": 2 if tiny else 4, "intermediate_size": width * 8 // 3,
            "max_position_embeddings": 2048, "tie_word_embeddings": False} | changes


def families(tiny):
    """{name: Family} of about the sizes that the families' base models have."""
    width, layers, vocabulary = (64, 2, 512) if tiny else (768, 12, 0)
    length = 64 if tiny else 128
    adapters = ["--lora-r", "16", "--lora-alpha", "32", "--lora-targets", "all-linear"]
    labels = {"id2label": {"0": "bad", "1": "good"}, "label2id": {"bad": 0, "good": 1}}
    encoder = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": width // 64,
               "intermediate_size": 4 * width}
    return {
        "llama": Family("text", 4, 2 * length, llama(tiny)),
        "llama, adapters": Family("text", 4, 2 * length, llama(tiny), adapters, ["--lora"]),
        "qwen3": Family("text", 4, 2 * length, llama(
            tiny, model_type="qwen3", architectures=["Qwen3ForCausalLM"], head_dim=64)),
        "gpt_neox": Family("text", 4, 2 * length, encoder | {
            "model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "vocab_size": vocabulary or 50304,
            "max_position_embeddings": 2048, "rotary_pct": 0.25, "tie_word_embeddings": False}),
        "opt": Family("text", 4, 2 * length, {
            "model_type": "opt", "architectures": ["OPTForCausalLM"], "vocab_size": vocabulary or 50272,
            "hidden_size": width, "word_embed_proj_dim": width, "num_hidden_layers": layers,
            "num_attention_heads": width // 64, "ffn_dim": 4 * width, "max_position_embeddings": 2048, "dropout": 0.0}),
        "bert": Family("classes", 2 if tiny else 16, length, encoder | labels | {
            "model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": vocabulary or 30522,
            "max_position_embeddings": 512, "type_vocab_size": 2, "pad_token_id": 0}),
        "t5": Family("pairs", 2 if tiny else 8, length, {
            "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": vocabulary or 32128,
            "d_model": 64 if tiny else 512, "d_kv": 64, "d_ff": 4 * width if tiny else 2048,
            "num_layers": layers // 2, "num_decoder_layers": layers // 2, "num_heads": 1 if tiny else 8,
            "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1, "is_encoder_decoder": True}),
        "bart": Family("pairs", 2 if tiny else 8, length, {
            "model_type": "bart", "architectures": ["BartForConditionalGeneration"], "vocab_size": vocabulary or 50265,
            "d_model": width, "encoder_layers": layers // 2, "decoder_layers": layers // 2,
            "encoder_attention_heads": width // 64, "decoder_attention_heads": width // 64,
            "encoder_ffn_dim": 4 * width, "decoder_ffn_dim": 4 * width, "max_position_embeddings": 1024,
            "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
            "forced_eos_token_id": 2, "is_encoder_decoder": True}),
        "whisper": Family("speech", 2, 32 if tiny else 96, {
            "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"],
            "vocab_size": vocabulary or 51865, "d_model": 64 if tiny else 512, "num_mel_bins": 80,
            "encoder_layers": layers // 2, "decoder_layers": layers // 2, "encoder_attention_heads": 1 if tiny else 8,
            "decoder_attention_heads": 1 if tiny else 8, "encoder_ffn_dim": 4 * width if tiny else 2048,
            "decoder_ffn_dim": 4 * width if tiny else 2048, "max_source_positions": 100 if tiny else 1500,
            "max_target_positions": 448, "dropout": 0.0, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
            "decoder_start_token_id": 1, "is_encoder_decoder": True}),
        "resnet": Family("pictures", 4 if tiny else 8, 64 if tiny else 224, {
            "model_type": "resnet", "architectures": ["ResNetForImageClassification"],
            "embedding_size": 16 if tiny else 64, "hidden_sizes": [16, 32] if tiny else [256, 512, 1024, 2048],
            "depths": [1, 1] if tiny else [3, 4, 6, 3], "layer_type": "bottleneck", "num_labels": 10}),
    }
