"""Level 4: blocks of timm, torchvision and transformers, each wrapped in a `Model`."""

from __future__ import annotations

from playbook_suite.problem import Problem

MAPS = ("N = 64; C = 256; H = 56", "N = 2; C = 64; H = 14", "torch.randn(N, C, H, H)")
TOKENS = ("N = 32; T = 577; C = 768", "N = 2; T = 17; C = 64", "torch.randn(N, T, C)")
LONG = ("N = 16; T = 4096; C = 4096", "N = 2; T = 64; C = 1024", "torch.randn(N, T, C)")
TEXT = ("N = 8; T = 512; C = 1024", "N = 2; T = 16; C = 64", "torch.randn(N, T, C)")


def block(module: str, cls: str, made: str, kind: tuple[str, str, str], call: str = "self.block(x)") -> Problem:
    """One class of a package; `made` are the arguments of its constructor, `c` the channels."""
    sizes, small, inputs = kind
    init, before = f"self.block = {cls}({made})", f"from {module} import {cls}"
    name = f"{module.partition('.')[0]}_{cls.strip('_').lower()}"
    return Problem(name, sizes, small, call, inputs, init, "C", before=before)


def configured(model: str, cls: str, config: str, made: str, kind: tuple[str, str, str] = TEXT) -> Problem:
    """A class of transformers that takes a configuration."""
    one = block(f"transformers.models.{model}.modeling_{model}", cls, "config", kind)
    init = f"config = {config}({made})\n{one.init}"
    before = f"from transformers import {config}\n{one.before}"
    return Problem(one.name, one.sizes, one.small, one.forward, one.inputs, init, one.takes, before=before)


# fmt: off
PROBLEMS = (
    block("timm.layers", "Mlp", "c, 4 * c", TOKENS),
    block("timm.layers", "SwiGLU", "c, 4 * c", TOKENS),
    block("timm.layers", "LayerNorm2d", "c", MAPS),
    block("timm.layers", "SEModule", "c", MAPS),
    block("timm.layers", "EcaModule", "c", MAPS),
    block("timm.layers.cbam", "CbamModule", "c", MAPS),
    block("timm.models.vision_transformer", "Block", "c, num_heads=c // 64", TOKENS),
    block("timm.models.convnext", "ConvNeXtBlock", "c", MAPS),
    block("timm.models.resnet", "Bottleneck", "c, c // 4", MAPS),
    block("timm.models.mlp_mixer", "MixerBlock", "c, T", TOKENS),
    block("torchvision.models.googlenet", "Inception", "c, 64, 96, 128, 16, 32, 32", MAPS),
    block("torchvision.models.squeezenet", "Fire", "c, c // 4, c, c", MAPS),
    block("torchvision.models.mobilenetv2", "InvertedResidual", "c, c, 1, 4", MAPS),
    block("torchvision.ops", "SqueezeExcitation", "c, c // 4", MAPS),
    block("torchvision.models.densenet", "_DenseLayer", "c, 32, 4, 0.0", MAPS),
    configured("bert", "BertIntermediate", "BertConfig", "hidden_size=c, intermediate_size=4 * c"),
    configured("llama", "LlamaMLP", "LlamaConfig", "hidden_size=c, intermediate_size=4 * c"),
    configured("t5", "T5LayerFF", "T5Config", "d_model=c, d_ff=4 * c, dropout_rate=0.0, "
               "feed_forward_proj='gated-gelu'"),
    configured("vit", "ViTLayer", "ViTConfig", "hidden_size=c, intermediate_size=4 * c, num_attention_heads=c // 32, "
               "attn_implementation='sdpa'", TOKENS),
    block("transformers.models.llama.modeling_llama", "LlamaRMSNorm", "c", LONG),
)
