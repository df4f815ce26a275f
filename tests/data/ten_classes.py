"""Ten ordinary classes, as people write them, without inputs."""

from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F

@dataclass
class GPTConfig:
    block_size: int = 256
    vocab_size: int = 1000
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 128
    dropout: float = 0.0
    bias: bool = True

class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head = config.n_head
        self.n_embd = config.n_embd
    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))

class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, d_model)
        self.pos = nn.Embedding(max_len, d_model)
    def forward(self, ids):
        b, t = ids.shape
        return self.tok(ids) + self.pos(torch.arange(t, device=ids.device))

class Rotary(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        inv = 1.0 / (10000 ** (torch.arange(0, head_dim, 2).float() / head_dim))
        self.register_buffer("inv", inv)
    def forward(self, q, k):
        t = torch.arange(q.shape[2], device=q.device).float()
        f = torch.outer(t, self.inv)
        cos, sin = torch.cat([f, f], -1).cos(), torch.cat([f, f], -1).sin()
        def rot(x):
            a, b = x.chunk(2, -1)
            return torch.cat([-b, a], -1)
        return q * cos + rot(q) * sin, k * cos + rot(k) * sin

class PatchEmbed(nn.Module):
    def __init__(self, img_size=96, patch=16, in_chans=3, dim=192):
        super().__init__()
        self.img_size = img_size
        self.proj = nn.Conv2d(in_chans, dim, patch, patch)
        self.pos = nn.Parameter(torch.zeros(1, (img_size // patch) ** 2, dim))
    def forward(self, x):
        B, C, H, W = x.shape
        assert H == self.img_size and W == self.img_size, "wrong image size"
        return self.proj(x).flatten(2).transpose(1, 2) + self.pos

class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduction=16):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(nn.Linear(channels, channels // reduction), nn.ReLU(), nn.Linear(channels // reduction, channels), nn.Sigmoid())
    def forward(self, x):
        b, c, _, _ = x.shape
        return x * self.fc(self.pool(x).view(b, c)).view(b, c, 1, 1)

class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim, heads=8, dim_head=64):
        super().__init__()
        inner = heads * dim_head
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim, inner, bias=False)
        self.out = nn.Linear(inner, query_dim)
    def forward(self, x, context):
        q, k, v = self.to_q(x), self.to_k(context), self.to_v(context)
        B, N, _ = q.shape
        q, k, v = (t.view(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2) for t in (q, k, v))
        a = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
        return self.out((a @ v).transpose(1, 2).reshape(B, N, -1))

class TopKGate(nn.Module):
    def __init__(self, d_model, num_experts, k=2):
        super().__init__()
        self.k = k
        self.w = nn.Parameter(torch.randn(d_model, num_experts) * 0.02)
    def forward(self, x):
        logits = x @ self.w
        top, idx = logits.topk(self.k, -1)
        return torch.zeros_like(logits).scatter(-1, idx, top.softmax(-1))

class Tagger(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, tagset_size):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, batch_first=True)
        self.out = nn.Linear(hidden_dim, tagset_size)
    def forward(self, sentence):
        h, _ = self.lstm(self.emb(sentence))
        return F.log_softmax(self.out(h), -1)

class UpBlock(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, 2, 2)
        self.conv = nn.Sequential(nn.Conv2d(in_channels, out_channels, 3, padding=1), nn.BatchNorm2d(out_channels), nn.ReLU())
    def forward(self, x1, x2):
        x1 = self.up(x1)
        dy, dx = x2.size(2) - x1.size(2), x2.size(3) - x1.size(3)
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([x2, x1], 1))

class SmoothLoss(nn.Module):
    def __init__(self, smoothing=0.1):
        super().__init__()
        self.s = smoothing
    def forward(self, logits, target):
        lp = F.log_softmax(logits, -1)
        nll = -lp.gather(-1, target.unsqueeze(1)).squeeze(1)
        return ((1 - self.s) * nll + self.s * -lp.mean(-1)).mean()
