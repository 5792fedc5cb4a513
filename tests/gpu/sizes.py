"""The models that are measured, and the fastest a device could run them.

The limit is counted from the layers, not from our kernels: every tensor that crosses the border of a matrix product is
read or written once at two bytes a number (four on the CPU), everything between products is fused, and weights are read
once a batch. A block is a few regions, each with FLOPs, bytes and exponentials; a region takes the longest of the three
at the measured ceilings (product, copy, exp), and regions follow one another. Per token, in units of the width D, they move
  ViL           proj_up 5, mixer 8 (gates 2, then x, z in, h out, convolution made again), proj_down 4
  Vim           in_proj 7 (two streams), x_proj 2, scan 6, out_proj 3
  ViR           qkv 4, mixer 4, proj 3, fc1 5, fc2 6;  VisionLLaMA the same with 1 + 8/3 and 2 + 8/3 at the end
The mixer of ViL and ViR takes the cheaper of its parallel form (the triangle only) and chunks of 64. A training step is
three times the products' FLOPs and bytes, and 3.5, 3.3 and 3 times the mixer's FLOPs, bytes and exps; then AdamW reads and
writes a weight in four bytes, its gradient and two moments: 28 bytes.
"""
import dataclasses, math


@dataclasses.dataclass(frozen=True)
class Model:
    name: str  # a preset
    family: str
    dim: int
    depth: int
    heads: int
    patch: int = 16
    channels: int = 3
    classes: int = 1000


MODELS = {m.name: m for m in (
    Model("vil_tiny", "vil", 192, 24, 4), Model("vil_small", "vil", 384, 24, 4), Model("vil_base", "vil", 768, 24, 4),
    Model("vim_tiny", "vim", 192, 24, 1), Model("vim_small", "vim", 384, 24, 1), Model("vim_base", "vim", 768, 24, 1),
    Model("vir_base_patch16_224", "vir", 768, 12, 12), Model("vir_large_patch16_224", "vir", 1024, 24, 16),
    Model("visionllama_base", "vllama", 768, 12, 12), Model("visionllama_large", "vllama", 1024, 24, 16),
    Model("vil_nano", "vil", 64, 6, 4, 4, 1, 10), Model("vim_nano", "vim", 64, 6, 1, 4, 1, 10),
    Model("vir_nano", "vir", 64, 4, 4, 4, 1, 10), Model("vllama_nano", "vllama", 64, 4, 4, 4, 1, 10))}


@dataclasses.dataclass
class Region:
    flop: float
    numbers: float       # activations read and written, per image
    weights: float = 0   # read once a batch
    exps: float = 0
    mixer: bool = False


def swiglu_width(dim, multiple=256):
    return -(-(8 * dim // 3) // multiple) * multiple


def matrix(tokens, dim, units, columns):
    """A product of [tokens, dim] with dim x (columns * dim)."""
    return Region(2 * tokens * dim * dim * columns, units * dim * tokens, columns * dim * dim)


def causal(tokens, width, heads, chunk=64):
    """Parallel or in chunks: scores and their product with values; in chunks, states of width/heads squared as well."""
    head = width / heads
    return min(2 * tokens * tokens * width, tokens * (2 * min(chunk, tokens) * width + 4 * head * width))


def block(m, tokens):
    t, d = tokens, m.dim
    if m.family == "vil":
        small = 180 * d * t  # convolution 36 D, q, k, v in blocks of four 48 D, gates 96 D
        mixer = Region(causal(t, 2 * d, m.heads) + small, 8 * d * t, 0, 3 * d * t, True)
        return [matrix(t, d, 5, 4), mixer, matrix(t, d, 4, 2)]
    if m.family == "vim":
        rank, states, inner = math.ceil(d / 16), 16, 2 * d
        low = Region(2 * 2 * t * inner * (2 * rank + 2 * states), 2 * d * t, 2 * inner * (2 * rank + 2 * states))
        steps = 2 * inner * t  # of both directions; 16 decays, softplus and silu each
        scan = Region(2 * 3 * states * steps + 16 * steps, 6 * d * t, 0, (states + 3) * steps, True)
        return [matrix(t, d, 7, 4), low, scan, matrix(t, d, 3, 2)]
    if m.family == "vir":
        mixer = Region(causal(t, d, m.heads), 4 * d * t, 0, 0, True)
        return [matrix(t, d, 4, 3), mixer, matrix(t, d, 3, 1), matrix(t, d, 5, 4), matrix(t, d, 6, 4)]
    hidden = swiglu_width(d, 16 if m.channels == 1 else 256) / d
    mixer = Region(4 * t * t * d, 4 * d * t, 0, m.heads * t * t, True)
    return [matrix(t, d, 4, 3), mixer, matrix(t, d, 3, 1), matrix(t, d, 1 + hidden, 2 * hidden),
            matrix(t, d, 2 + hidden, hidden)]


def regions(m, image):
    patches = (image // m.patch) ** 2
    tokens = patches + (m.family != "vil")  # the others have a class token
    pixels = m.channels * m.patch ** 2
    embed = Region(2 * patches * pixels * m.dim, patches * (pixels + m.dim), pixels * m.dim)
    pooled = m.dim * (2 if m.family == "vil" else 1)
    head = Region(2 * pooled * m.classes, pooled + m.classes, pooled * m.classes)
    return [embed, head] + m.depth * block(m, tokens)


def limit(m, image, batch, train, ceilings):
    """The least seconds a batch can take; ceilings: FLOP/s "product", bytes/s "copy", exponentials/s "exp"."""
    size, total = 2 if ceilings.get("device") == "cuda" else 4, 0.0
    for r in regions(m, image):
        flops, moved, exps = ((3.5, 3.3, 3) if r.mixer else (3, 3, 3)) if train else (1, 1, 1)
        total += max(flops * batch * r.flop / ceilings["product"],
                     moved * size * (batch * r.numbers + r.weights) / ceilings["copy"],
                     exps * batch * r.exps / ceilings["exp"])
        total += 28 * r.weights / ceilings["copy"] if train else 0
    return total
