#!/usr/bin/env python3
# ruff: noqa
"""Parameter and operation counts for every row of Table 1 of Narang et al. 2021 (arXiv 2102.11972).

Plain Python without dependencies. The formulas were written from a specification of the table; no code was copied.

Two independent sources are compared with the paper:
  * closed formulas below (`Model` objects): exact trainable parameters; exact contraction multiply-adds (MACs)
    of ONE forward pass over 128 sequences, 512 encoder + 114 decoder positions, embedding look-ups counted
    as one-hot matmuls (that is how Mesh TensorFlow's `gather` works);
  * MTF: numbers measured by building each model's graph with the original Mesh TensorFlow code
    (tensorflow/mesh @ da90793, gin settings of google-research/transformer_modifications):
    trainable parameters, `einsum_unique` of the forward graph, of forward+backward, and `All Variables`.

Usage: narang2021_counts.py [--csv FILE] [--check]     (--check: exit 1 unless every formula equals the measurement)
"""

import math, sys

D, H, DK, F, L, V = 768, 12, 64, 3072, 12, 32128  # V = 32000 pieces + 100 sentinels, padded to a multiple of 128
S, T, B = 512, 114, 128  # 65536 tokens / 512 = 128 packed sequences; targets_length = 114
BUCKETS = 32


class Model:
    """Accumulates parameters and forward MACs.  `m` MACs are per sequence, `u` are not batched."""

    def __init__(self, pos):
        self.pos, self.params, self.m, self.u = pos, 0, 0, 0
        self.rel_done = set()

    # -- building blocks ---------------------------------------------------------------------------------
    def p(self, n):
        self.params += n

    def mm(self, *dims):
        self.m += math.prod(dims)

    def ln(self, width=D, kind="ln", own=True):
        if own:
            self.p({"ln": 2, "rms": 1, "none": 0}[kind] * width)

    def dense(self, n, i, o, bias=False, own=True):
        if own:
            self.p(i * o + (o if bias else 0))
        self.mm(n, i, o)

    def rel(self, stack, heads, n):  # T5 bucketed bias, one table per stack (and head count)
        if self.pos:
            return
        if (stack, heads) not in self.rel_done:
            self.rel_done.add((stack, heads))
            self.p(heads * BUCKETS)
        self.u += heads * BUCKETS * n * n  # one-hot gather, no batch dimension, done in every layer

    def attn(self, stack, nq, nk, heads=H, dk=DK, self_attn=True, own=True):
        w = heads * dk
        if own:
            self.p(4 * D * w)
        self.mm(nq, D, w)
        self.mm(nk, D, w)
        self.mm(nk, D, w)
        self.mm(nq, nk, w)
        self.mm(nq, nk, w)
        self.mm(nq, w, D)
        if self_attn:
            self.rel(stack, heads, nq)

    def ffn(self, n, f=F, glu=False, bias=True, own=True, mult=1):
        for _ in range(2 if glu else 1):
            self.dense(n * mult, D, f, bias, own)
        self.dense(n * mult, f, D, bias, own)

    def lookup(self, n, rows, width):
        self.mm(n, rows, width)

    def pos_table(self, tables=1):  # learned absolute positions (Table 2 of the paper), 512 x D
        if self.pos:
            self.p(tables * 512 * D)
            self.lookup(S + T, 512, D)  # packed batches: one-hot gather, batched

    def total_macs(self):
        return B * self.m + self.u


def embed(M, kind="full", shared_logits=True, shared_encdec=True, e=128):
    """Input embedding(s) and output projection.  Returns nothing; adds to M."""
    M.pos_table(1 if shared_encdec else 2)
    if kind == "full":
        M.p(V * D * (1 if shared_encdec else 2))
        M.lookup(S + T, V, D)
        if not shared_logits:
            M.p(V * D)
        M.mm(T, D, V)
    elif kind == "factor":
        M.p(V * e + e * D)
        M.lookup(S + T, V, e)
        M.mm(S + T, e, D)
        if shared_logits:
            M.mm(T, D, e)
            M.mm(T, e, V)
        else:
            M.dense(T, D, V)
    elif kind == "adaptive_in":
        for n, e in ((2500, 768), (6000, 256), (23628, 64)):
            M.p(n * e + (e * D if e != D else 0))
            M.lookup(S + T, n, e)
            if e != D:
                M.mm(S + T, e, D)
                M.mm(T, D, e)
            M.mm(T, e, n)
    elif kind in ("adaptive_sm", "adaptive_sm_noproj"):
        proj = kind == "adaptive_sm"
        n = 2500 + 3  # head cluster also holds one class per tail cluster
        M.p(n * D)
        M.lookup(S + T, n, D)
        M.mm(T, D, n)
        tl = math.ceil(0.25 * T)  # 29 positions kept per tail cluster (length_projection_factor)
        for n, e in ((6000, 256), (23500, 64), (128, 768)):
            e = e if proj else D
            M.p(n * e + (e * D if e != D else 0))
            M.lookup(S + T, n, e)
            if e != D:
                M.mm(S + T, e, D)
            M.mm(T, T)  # cumsum as a matmul
            M.mm(T, tl, D)  # gather hidden states of this cluster
            if e != D:
                M.mm(tl, D, e)
            M.mm(tl, e, n)
    elif kind == "mos":
        K = 15
        M.p(V * D + K * D + K * D * D)
        M.lookup(S + T, V, D)
        M.mm(T, D, K)
        M.mm(T, D, D, K)
        M.mm(T, K, D, V)


def encdec(
    M, L=L, heads=H, f=F, glu=False, bias=True, norm="ln", final="ln", scalars=0, share_enc=False, share_dec=False
):
    for stack, n, share in (("enc", S, share_enc), ("dec", T, share_dec)):
        for i in range(L):
            own = i == 0 or not share
            M.attn(stack, n, n, heads, own=own)
            M.ln(kind=norm, own=own)
            if stack == "dec":
                M.attn(stack, T, S, heads, self_attn=False, own=own)
                M.ln(kind=norm, own=own)
            M.ffn(n, f, glu, bias, own)
            M.ln(kind=norm, own=own)
            if own:
                M.p(scalars * (3 if stack == "dec" else 2))
        M.ln(kind=final)


def simple(**kw):
    ekw = {k[2:]: kw.pop(k) for k in list(kw) if k.startswith("e_")}

    def build(pos):
        M = Model(pos)
        embed(M, **ekw)
        encdec(M, **kw)
        return M

    return build


def fixup(pos):
    # no norms, no FFN biases; 1 shift + 1 scale per sublayer, 1 inner shift per FFN, final: enc shift+scale, dec shift
    M = Model(pos)
    embed(M)
    encdec(M, bias=False, norm="none", final="none", scalars=2)
    M.p(2 * L + 3)
    return M


def transparent(pos):
    M = Model(pos)
    embed(M)
    encdec(M)
    M.p((L + 1) * L)
    M.mm(L + 1, L, S, D)
    return M


def conv_attn(kind, f):
    def build(pos):
        M = Model(pos)
        embed(M)
        K = 9
        for stack, n in (("enc", S), ("dec", T)):
            for _ in range(L):
                M.dense(n, D, D, True)
                M.dense(n, D, D, True)  # GLU input projection
                if kind == "light":
                    M.p(K * D)  # one softmax-normalised filter per channel
                else:
                    for _ in range(K):
                        M.dense(n, D, D, True)  # dynamic filters from the layer input
                M.p(D)  # depthwise bias
                M.dense(n, D, D, True)
                M.dense(n, D, D, True)  # pointwise + output projection
                M.ln()
                if stack == "dec":
                    M.attn(stack, T, S, self_attn=False)
                    M.ln()
                M.ffn(n, f)
                M.ln()
            M.ln()
        return M

    return build


def evolved(pos):
    M = Model(pos)
    embed(M)

    def sep(n, k, i, o):
        M.p(k * i + i)
        M.dense(n, i, o, True)  # depthwise k x 1 (bias) + pointwise (bias)

    for _ in range(L // 2):
        M.dense(S, D, D, True)
        M.dense(S, D, D, True)
        M.ln()  # GLU
        M.dense(S, D, 4 * D)  # 1x1 conv, ReLU, no bias
        M.p(3 * D * (D // 2))  # 3x1 conv D -> D/2 (counted as conv, not einsum)
        M.ln(4 * D)
        sep(S, 9, 4 * D, D // 2)
        M.ln()
        M.attn("enc", S, S)
        M.ln()
        M.ffn(S)
        M.ln()
    M.ln()
    for _ in range(L // 2):
        M.attn("dec", T, T, 2 * H)
        M.attn("dec", T, S, self_attn=False)
        M.ln()
        sep(T, 11, D, 2 * D)
        sep(T, 7, D, D // 2)
        M.ln(2 * D)
        sep(T, 7, 2 * D, D)
        M.ln()
        M.attn("dec", T, T)
        M.ln()
        M.attn("dec", T, S, self_attn=False)
        M.ln()
        M.ffn(T)
        M.ln()
    M.ln()
    return M


def synth(mode):
    h, dk, ml, r = 8, 128, 512, 16  # class defaults: 8 heads of 128 (NOT 12 x 64), max_length 512, rank 16
    w = h * dk

    def build(pos):
        M = Model(pos)
        embed(M)
        for stack, n in (("enc", S), ("dec", T)):
            for _ in range(L):
                plus = "plus" in mode
                if plus:
                    M.dense(n, D, w)
                    M.dense(n, D, w)
                    M.dense(n, D, w)
                    M.mm(n, n, w)  # q, k, v, qk
                elif mode == "dense":
                    M.dense(n, D, w)
                    M.dense(n, D, w)  # q, kv
                else:
                    M.dense(n, D, w)  # kv only
                if "dense" in mode:
                    M.p(dk * ml)
                    M.mm(n, h, dk, ml)  # pi: relu(q) -> 512 logits
                if "random" in mode:
                    M.p(ml * h * ml)  # R
                if mode == "factorized":
                    M.p(2 * r * h * ml)  # R1, R2
                if "alpha" in mode:
                    M.p(1)
                M.mm(n, n, w)
                M.dense(n, w, D)
                # synthesizer layers keep relative_attention_type = bias_shared even with learned positions;
                # then the positions are per example (packed) and the bias gather is batched
                if (stack, h) not in M.rel_done:
                    M.rel_done.add((stack, h))
                    M.p(h * BUCKETS)
                if M.pos:
                    M.m += h * BUCKETS * n * n
                else:
                    M.u += h * BUCKETS * n * n
                M.ln()
                if stack == "dec":
                    M.attn(stack, T, S, self_attn=False)
                    M.ln()
                M.ffn(n)
                M.ln()
            M.ln()
        return M

    return build


def universal(pos):
    M = Model(pos)
    embed(M, shared_logits=False)
    steps = 2 + 24 + 2
    for stack, n in (("enc", S), ("dec", T)):
        for i in range(steps):
            own = i == 0

            def gate():  # GRU-like gate after each sublayer
                M.ln(own=own)  # one LayerNorm shared inside the gate
                for _ in range(3):
                    M.dense(n, 2 * D, D, True, own)

            M.ln(own=own)
            M.attn(stack, n, n, own=own)
            gate()
            if stack == "dec":
                M.ln(own=own)
                M.attn(stack, T, S, self_attn=False, own=own)
                gate()
            M.ln(own=own)
            M.ffn(n, own=own)
            gate()
        M.p(24 * D)
        M.ln()  # step embedding, final LayerNorm
    return M


def moe(hidden, top, cap_enc, cap_dec, groups=32):
    E = 32

    def build(pos):
        M = Model(pos)
        embed(M)

        def layer(n, cf):
            tokens = B * n
            g = max(1, tokens // 1024)
            while g % groups or tokens % g:
                g += 1  # number of groups: multiple of data-parallel size
            size = tokens // g
            cap = max(4, min(size, int(size * cf / E)))
            M.p(D * E + 2 * E * D * hidden)
            u = tokens * D * E  # router
            u += top * g * size * size * E  # cumsum for position_in_expert
            u += 2 * tokens * E * cap * D  # dispatch and combine einsums
            u += 2 * E * g * cap * D * hidden  # experts
            M.u += u

        for stack, n, cf in (("enc", S, cap_enc), ("dec", T, cap_dec)):
            for i in range(L):
                M.attn(stack, n, n)
                M.ln()
                if stack == "dec":
                    M.attn(stack, T, S, self_attn=False)
                    M.ln()
                if i % 4 == 3:
                    layer(n, cf)
                else:
                    M.ffn(n)
                M.ln()
            M.ln()
        return M

    return build


def funnel(pos):
    M = Model(pos)
    M_n = S
    # not packed, so learned positions are a slice (no gather)
    if pos:
        M.p(512 * D)
    M.p(V * D)
    M.lookup(S + T, V, D)
    M.mm(T, D, V)
    n = S
    for block in range(3):
        for i in range(4):
            M.attn("enc", n, n)
            M.ln(kind="rms")
            if block > 0 and i == 0:
                n //= 2  # mean-pool by 2 after the first self-attention
            M.ffn(n)
            M.ln(kind="rms")
    M.ln(kind="rms")
    for _ in range(L):
        M.attn("dec", T, T)
        M.ln()
        M.attn("dec", T, n, self_attn=False)
        M.ln()
        M.ffn(T)
        M.ln()
    M.ln()
    return M


def weighted(pos):
    M = Model(pos)
    embed(M)
    for stack, n in (("enc", S), ("dec", T)):
        for _ in range(L):
            M.attn(stack, n, n)
            M.p(2 * H)
            M.ffn(n, mult=H)
            M.ln()  # kappa, alpha; FFN applied per head
            if stack == "dec":
                M.attn(stack, T, S, self_attn=False)
                M.p(2 * H)
                M.ffn(n, mult=H)
                M.ln()
        M.ln()
    return M


def pkm(heads=4, key=128, nkeys=512, knn=32):
    def build(pos):
        M = Model(pos)
        embed(M)
        for stack, n in (("enc", S), ("dec", T)):
            for i in range(L):
                M.attn(stack, n, n)
                M.ln()
                if stack == "dec":
                    M.attn(stack, T, S, self_attn=False)
                    M.ln()
                if stack == "dec" and i == L - 2:
                    M.p(heads * 2 * nkeys * (key // 2) + nkeys**2 * D)  # sub-keys, values
                    M.dense(T, D, heads * key, True)
                    M.p(2 * (key // 2))  # query (+bias), query LayerNorm
                    M.mm(T, heads, 2, key // 2, nkeys)
                    M.mm(T, heads, knn, nkeys**2, D)  # value look-up as one-hot matmul (!)
                    # index look-up (T*heads*knn*knn^2) and weighted sum (T*heads*knn*D): 3.3e9 per batch, an operand
                    # spans every dimension, so the measurement files them under elementwise products, not contractions
                else:
                    M.ffn(n)
                M.ln()
            M.ln()
        return M

    return build


fact = dict(e_kind="factor", e_shared_logits=False)
factsh = dict(e_kind="factor", e_shared_logits=True)
bs = dict(share_enc=True, share_dec=True)
GLU = simple(f=2048, glu=True)
# row name (as printed), paper params M, paper ops T, builder, key into MTF, notes
ROWS = [
    ("Vanilla Transformer", 223, 11.1, simple(), "base"),
    ("GeLU", 223, 11.1, simple(), "gelu"),
    ("Swish", 223, 11.1, simple(), "swish"),
    ("ELU", 223, 11.1, simple(), "elu"),
    ("GLU", 223, 11.1, GLU, "glu"),
    ("GeGLU", 223, 11.1, GLU, "geglu"),
    ("ReGLU", 223, 11.1, GLU, "reglu"),
    ("SeLU", 223, 11.1, simple(), "selu"),
    ("SwiGLU", 223, 11.1, GLU, "swiglu"),
    ("LiGLU", 223, 11.1, GLU, "liglu"),
    ("Sigmoid", 223, 11.1, simple(), "sigmoid"),
    ("Softplus", 223, 11.1, simple(), "softplus"),
    ("RMS Norm", 223, 11.1, simple(norm="rms", final="rms"), "rms_norm"),
    ("Rezero", 223, 11.1, simple(norm="none", final="none", scalars=1), "rezero"),
    ("Rezero + LayerNorm", 223, 11.1, simple(scalars=1), "rezero_layer_norm"),
    ("Rezero + RMS Norm", 223, 11.1, simple(norm="rms", final="rms", scalars=1), "rezero_rms_norm"),
    ("Fixup", 223, 11.1, fixup, "fixup"),
    ("24 layers, $d_f = 1536, H = 6$", 224, 11.1, simple(L=24, f=1536, heads=6), "depth_24l"),
    ("18 layers, $d_f = 2048, H = 8$", 223, 11.1, simple(L=18, f=2048, heads=8), "depth_18l"),
    ("8 layers, $d_f = 4608, H = 18$", 223, 11.1, simple(L=8, f=4608, heads=18), "depth_8l"),
    ("6 layers, $d_f = 6144, H = 24$", 223, 11.1, simple(L=6, f=6144, heads=24), "depth_6l"),
    ("Block sharing", 65, 11.1, simple(e_shared_logits=False, **bs), "block_sharing"),
    ("+ Factorized embeddings", 45, 9.4, simple(**fact, **bs), "block_sharing_factorized_embed"),
    ("+ Factorized & shared embeddings", 20, 9.1, simple(**factsh, **bs), "block_sharing_factorized_embed_shared"),
    ("Encoder only block sharing", 170, 11.1, simple(e_shared_logits=False, share_enc=True), "block_sharing_enc"),
    ("Decoder only block sharing", 144, 11.1, simple(e_shared_logits=False, share_dec=True), "block_sharing_dec"),
    ("Factorized Embedding", 227, 9.4, simple(**fact), "factorized_embed"),
    ("Factorized & shared embeddings", 202, 9.1, simple(**factsh), "factorized_embed_shared"),
    ("Tied encoder/decoder input embeddings", 248, 11.1, simple(e_shared_logits=False), "untied_decoder_softmax"),
    ("Tied decoder input and output embeddings", 248, 11.1, simple(e_shared_encdec=False), "untied_encoder_decoder"),
    ("Untied embeddings", 273, 11.1, simple(e_shared_logits=False, e_shared_encdec=False), "untied_embeddings"),
    ("Adaptive input embeddings", 204, 9.2, simple(e_kind="adaptive_in"), "adaptive_input_embeddings"),
    ("Adaptive softmax", 204, 9.2, simple(e_kind="adaptive_sm"), "adaptive_softmax"),
    (
        "Adaptive softmax without projection",
        223,
        10.8,
        simple(e_kind="adaptive_sm_noproj"),
        "adaptive_softmax_no_projection",
    ),
    ("Mixture of softmaxes", 232, 16.3, simple(e_kind="mos"), "mixture_of_softmax"),
    ("Transparent attention", 223, 11.1, transparent, "transparent_attention"),
    ("Dynamic convolution", 257, 11.8, conv_attn("dynamic", 512), "dynamic_convolution"),
    ("Lightweight convolution", 224, 10.4, conv_attn("light", F), "lightweight_convolution"),
    ("Evolved Transformer", 217, 9.9, evolved, "evolved_transformer"),
    ("Synthesizer (dense)", 224, 11.4, synth("dense"), "synthesizer_de"),
    ("Synthesizer (dense plus)", 243, 12.6, synth("dense_plus"), "synthesizer_dep"),
    ("Synthesizer (dense plus alpha)", 243, 12.6, synth("dense_plus_alpha"), "synthesizer_depa"),
    ("Synthesizer (factorized)", 207, 10.1, synth("factorized"), "synthesizer_fr"),
    ("Synthesizer (random)", 254, 10.1, synth("random"), "synthesizer_r"),
    ("Synthesizer (random plus)", 292, 12.0, synth("random_plus"), "synthesizer_rp"),
    ("Synthesizer (random plus alpha)", 292, 12.0, synth("random_plus_alpha"), "synthesizer_rpa"),
    ("Universal Transformer", 84, 40.0, universal, "universal_transformer"),
    ("Mixture of experts", 648, 11.7, moe(1536, 2, 2.0, 1.25), "mixture_of_experts"),
    ("Switch Transformer", 1100, 11.7, moe(3072, 1, 1.2, 1.25), "switch_transformer"),
    ("Funnel Transformer", 223, 1.9, funnel, "funnel_transformer"),
    ("Weighted Transformer", 280, 71.0, weighted, "weighted_transformer"),
    ("Product key memory", 421, 386.6, pkm(), "product_key_memory"),
]
# Rows whose Ops column needs a factor or another positional setting than "relative bias, batch 128".
OPS_SCALE = {"Funnel Transformer": 0.25}  # 1.9T = 7.77T / 4, i.e. a (micro)batch of 32 sequences
OPS_POS = {"Weighted Transformer"}  # its gin re-includes vanilla_transformer.gin (learned positions)

# measured: key: (rel: params, einsum fwd, einsum fwd+bwd, all variables, contractions fwd), (pos: same)
MTF = {
    "base": (
        (223043328, 11073223439712, 33236188053600, 223669888, 11065180145664),
        (223435776, 11103453457152, 33326897604096, 224062848, 11095419912192),
    ),
    "gelu": (
        (223043328, 11082084955488, 33262772600928, 223669888, 11065180145664),
        (223435776, 11112314972928, 33353482151424, 224062848, 11095419912192),
    ),
    "swish": (
        (223043328, 11076177278304, 33248003407968, 223669888, 11065180145664),
        (223435776, 11106407295744, 33338712958464, 224062848, 11095419912192),
    ),
    "elu": (
        (223043328, 11073223439712, 33233234215008, 223669888, 11065180145664),
        (223435776, 11103453457152, 33323943765504, 224062848, 11095419912192),
    ),
    "glu": (
        (223067904, 11075192665440, 33243080343648, 223737472, 11065180145664),
        (223460352, 11105422682880, 33333789894144, 224130432, 11095419912192),
    ),
    "geglu": (
        (223067904, 11081100342624, 33258834149472, 223737472, 11065180145664),
        (223460352, 11111330360064, 33349543699968, 224130432, 11095419912192),
    ),
    "reglu": (
        (223067904, 11075192665440, 33241111117920, 223737472, 11065180145664),
        (223460352, 11105422682880, 33331820668416, 224130432, 11095419912192),
    ),
    "selu": (
        (223043328, 11073223439712, 33233234215008, 223669888, 11065180145664),
        (223435776, 11103453457152, 33323943765504, 224062848, 11095419912192),
    ),
    "swiglu": (
        (223067904, 11077161891168, 33248988020832, 223737472, 11065180145664),
        (223460352, 11107391908608, 33339697571328, 224130432, 11095419912192),
    ),
    "liglu": (
        (223067904, 11075192665440, 33239141892192, 223737472, 11065180145664),
        (223460352, 11105422682880, 33329851442688, 224130432, 11095419912192),
    ),
    "sigmoid": (
        (223043328, 11073223439712, 33239141892192, 223669888, 11065180145664),
        (223435776, 11103453457152, 33329851442688, 224062848, 11095419912192),
    ),
    "softplus": (
        (223043328, 11073223439712, 33233234215008, 223669888, 11065180145664),
        (223435776, 11103453457152, 33323943765504, 224062848, 11095419912192),
    ),
    "rms_norm": (
        (222995712, 11073223439712, 33234628387936, 223574656, 11065180145664),
        (223388160, 11103453457152, 33325337938432, 223967616, 11095419912192),
    ),
    "rezero": (
        (222948156, 11071488963936, 33229305153888, 223479544, 11065180145664),
        (223340604, 11101718981376, 33320014704384, 223872504, 11095419912192),
    ),
    "rezero_layer_norm": (
        (223043388, 11074834838880, 33241022251104, 223670008, 11065180145664),
        (223435836, 11105064856320, 33331731801600, 224062968, 11095419912192),
    ),
    "rezero_rms_norm": (
        (222995772, 11074834838880, 33241022251104, 223574776, 11065180145664),
        (223388220, 11105064856320, 33331731801600, 223967736, 11095419912192),
    ),
    "fixup": (
        (222856083, 11071539295584, 33229456148832, 223295398, 11065180145664),
        (223248531, 11101769313024, 33320165699328, 223688358, 11095419912192),
    ),
    "depth_24l": (
        (223153536, 11079678785472, 33257152286400, 224037760, 11065180145664),
        (223546368, 11109899053824, 33347852087808, 224431488, 11095419912192),
    ),
    "depth_18l": (
        (223098368, 11076451112592, 33246670170000, 223853696, 11065180145664),
        (223491072, 11106676255488, 33337374845952, 224247168, 11095419912192),
    ),
    "depth_8l": (
        (223006848, 11071071657792, 33229199976000, 223547776, 11065180145664),
        (223398912, 11101304924928, 33319912776192, 223939968, 11095419912192),
    ),
    "depth_6l": (
        (222988800, 11069995766832, 33225705937200, 223487104, 11065180145664),
        (223380480, 11100230658816, 33316420362240, 223878528, 11095419912192),
    ),
    "block_sharing": (
        (65882880, 11073223439712, 33236188053600, 66001664, 11065180145664),
        (66275328, 11103453457152, 33326897604096, 66394624, 11095419912192),
    ),
    "block_sharing_factorized_embed": (
        (45419264, 9433514816864, 28317062185056, 45538304, 9425471522816),
        (45811712, 9463744834304, 28407771735552, 45931264, 9455711289344),
    ),
    "block_sharing_factorized_embed_shared": (
        (20744960, 9134909732192, 27421246931040, 20831104, 9126866438144),
        (21137408, 9165139749632, 27511956481536, 21224064, 9157106204672),
    ),
    "block_sharing_enc": (
        (169784832, 11073223439712, 33236188053600, 170216192, 11065180145664),
        (170177280, 11103453457152, 33326897604096, 170609152, 11095419912192),
    ),
    "block_sharing_dec": (
        (143815680, 11073223439712, 33236188053600, 144162560, 11065180145664),
        (144208128, 11103453457152, 33326897604096, 144555520, 11095419912192),
    ),
    "factorized_embed": (
        (227254016, 9433514816864, 28317062185056, 227913728, 9425471522816),
        (227646464, 9463744834304, 28407771735552, 228306688, 9455711289344),
    ),
    "factorized_embed_shared": (
        (202579712, 9134909732192, 27421246931040, 203206528, 9126866438144),
        (202972160, 9165139749632, 27511956481536, 203599488, 9157106204672),
    ),
    "untied_decoder_softmax": (
        (247717632, 11073223439712, 33236188053600, 248377088, 11065180145664),
        (248110080, 11103453457152, 33326897604096, 248770048, 11095419912192),
    ),
    "untied_encoder_decoder": (
        (247717632, 11073223439712, 33236188053600, 248377088, 11065180145664),
        (248503296, 11103453457152, 33326897604096, 249164544, 11095419912192),
    ),
    "untied_embeddings": (
        (272391936, 11073223439712, 33236188053600, 273084288, 11065180145664),
        (273177600, 11103453457152, 33326897604096, 273871744, 11095419912192),
    ),
    "adaptive_input_embeddings": (
        (203582976, 9229939379040, 27706334910048, 205748532, 9221895604224),
        (203975424, 9260169396480, 27797044460544, 206141492, 9252135370752),
    ),
    "adaptive_softmax": (
        (203675392, 9202535447520, 27623784109024, 205833655, 9194810600960),
        (204067840, 9232765464960, 27714493659520, 206226615, 9225050367488),
    ),
    "adaptive_softmax_no_projection": (
        (223045632, 10826536369120, 32495786873824, 223674499, 10818811522560),
        (223438080, 10856766386560, 32586496424320, 224067459, 10849051289088),
    ),
    "mixture_of_softmax": (
        (231902208, 16243156432224, 48760688748384, 232563328, 16235113138176),
        (232294656, 16273386449664, 48851398298880, 232956288, 16265352904704),
    ),
    "transparent_attention": (
        (223043484, 11081075176800, 33259743265188, 223670200, 11073031882752),
        (223435932, 11111305194240, 33350452815684, 224063160, 11103271649280),
    ),
    "dynamic_convolution": (
        (256269312, 11753513429760, 35280707802624, 257300608, 11738095288320),
        (256662528, 11785021041408, 35375230637568, 257695104, 11769602899968),
    ),
    "lightweight_convolution": (
        (223300608, 10430193740544, 31299179884032, 224184448, 10414775599104),
        (223693824, 10461701352192, 31393702718976, 224578944, 10446283210752),
    ),
    "evolved_transformer": (
        (216344064, 9894399285600, 29697529648224, 217356160, 9868806368256),
        (216735744, 9925208058624, 29789966028288, 217747584, 9899620171776),
    ),
    "synthesizer_de": (
        (224615936, 11360789863776, 34096241018976, 225239168, 11352500416512),
        (225009152, 11500879829760, 34514034648576, 225633664, 11491352248320),
    ),
    "synthesizer_dep": (
        (243490304, 12549730344288, 37663062460512, 244156544, 12541440897024),
        (243883520, 12689820310272, 38080856090112, 244551040, 12680292728832),
    ),
    "synthesizer_depa": (
        (243490328, 12556492184928, 37683347982480, 244156592, 12541440897024),
        (243883544, 12696582150912, 38101141612080, 244551088, 12680292728832),
    ),
    "synthesizer_fr": (
        (207314432, 10100486970720, 30315955193952, 211025024, 10092195950592),
        (207707648, 10240576936704, 30733748823552, 211419520, 10231047782400),
    ),
    "synthesizer_r": (
        (254500352, 10100485397856, 30314343008352, 255261824, 10092195950592),
        (254893568, 10240575363840, 30732136637952, 255656320, 10231047782400),
    ),
    "synthesizer_rp": (
        (292249088, 12045608557920, 36149712488544, 293096576, 12037319110656),
        (292642304, 12185698523904, 36567506118144, 293491072, 12176170942464),
    ),
    "synthesizer_rpa": (
        (292249112, 12049015891680, 36159934489872, 293096624, 12037319110656),
        (292642328, 12189105857664, 36577728119472, 293491120, 12176170942464),
    ),
    "universal_transformer": (
        (83633664, 40121269743072, 120446850494688, 83843072, 40028317427712),
        (84026112, 40149796301568, 120532475665920, 84236032, 40056866734080),
    ),
    "mixture_of_experts": (
        (647841024, 11665937426016, 34985874625632, 649430656, 11656954890240),
        (648233472, 11696167443456, 35076584176128, 649823616, 11687194656768),
    ),
    "switch_transformer": (
        (1100825856, 11704321488678, 35115420716838, 1103005312, 11695776122880),
        (1101218304, 11734551506118, 35206130267334, 1103398272, 11726015889408),
    ),
    "funnel_transformer": (
        (223024128, 7767694275936, 23312013557856, 223631488, 7762637604864),
        (223416576, 7767006358272, 23309960160768, 224024448, 7761954865152),
    ),
    "weighted_transformer": (
        (279676512, 70913336063328, 212795604778080, 365118784, 70888168998912),
        (280068960, 70943566080768, 212886314328576, 365511744, 70918408765440),
    ),
    "product_key_memory": (
        (420303488, 387050271454560, 1161167298886752, 421837440, 387038866163712),
        (420695936, 387080501472000, 1161258008437248, 422230400, 387069105930240),
    ),
}


def main():
    args = sys.argv[1:]
    bad, lines, nfl, nround, nops = 0, [], 0, 0, 0
    head = (
        "row",
        "paper",
        "params (rel. bias)",
        "params (learned pos)",
        "P?",
        "dP(M)",
        "paperT",
        "MAC fwd",
        "ein fwd",
        "train/3",
        "O?",
        "dO(T)",
    )
    for name, pp, po, build, key in ROWS:
        R, P = build(False), build(True)
        for M, ref in ((R, MTF[key][0]), (P, MTF[key][1])):
            if M.params != ref[0] or M.total_macs() != ref[4]:
                bad += 1
                print("MISMATCH", name, "pos" if M.pos else "rel", M.params, ref[0], M.total_macs(), ref[4])
        ok = lambda x: ("r" if round(x / 1e6) == pp else "") + ("f" if int(x / 1e6) == pp else "")
        a, b = ok(R.params), ok(P.params)
        if pp == 1100:
            a, b = ("s" if R.params // 10**8 == 11 else ""), ("s" if P.params // 10**8 == 11 else "")
        flag = ("rel:%s" % a if a else "") + (" " if a and b else "") + ("pos:%s" % b if b else "")
        res = min((R.params / 1e6 - pp, P.params / 1e6 - pp), key=abs)
        sc = OPS_SCALE.get(name, 1.0)
        ref = MTF[key][1 if name in OPS_POS else 0]
        mac, fwd, tr = ref[4] * sc / 1e12, ref[1] * sc / 1e12, ref[2] * sc / 3e12
        of = ("F" if round(fwd, 1) == po else "") + ("T" if round(tr, 1) == po else "")
        nops += bool(of)
        nfl += bool(flag)
        lines.append(
            (
                name,
                "%dM" % pp,
                "%d" % R.params,
                "%d" % P.params,
                flag or "NO",
                "%+.2f" % (R.params / 1e6 - pp),
                "%.1f" % po,
                "%.3f" % mac,
                "%.3f" % fwd,
                "%.3f" % tr,
                of or "NO",
                "%+.2f" % (tr - po),
            )
        )
    w = [max(len(r[i]) for r in [head] + lines) for i in range(len(head))]
    for r in [head] + lines:
        print("  ".join(c.ljust(x) if i == 0 else c.rjust(x) for i, (c, x) in enumerate(zip(r, w))))
    print(
        "\nP?: r = equals the paper when rounded, f = when floored; rel/pos = with relative bias / with learned positions;"
    )
    print("    s = 1.1e9 to two digits.  dP: relative-bias count minus paper.  dO: train/3 minus paper.")
    print("O?: F = forward einsum_unique, T = (forward+backward einsum_unique)/3, rounded to 0.1T, equals the paper.")
    print("    Funnel is scaled by 1/4 (batch 32); Weighted uses learned positions, as its gin file says.")
    single = lambda i, f: sum(
        f(MTF[k][i][0] / 1e6) == pp or (pp == 1100 and MTF[k][i][0] // 10**8 == 11) for _, pp, _, _, k in ROWS
    )
    print(
        "params under ONE convention: rel rounded %d, rel floored %d, pos rounded %d, pos floored %d of %d; "
        "max |dP| %.2fM (rel)"
        % (
            single(0, round),
            single(0, int),
            single(1, round),
            single(1, int),
            len(ROWS),
            max(abs(MTF[k][0][0] / 1e6 - pp) for _, pp, _, _, k in ROWS),
        )
    )
    print(
        "rows %d; params reproduced to the printed digit %d; ops reproduced to the printed digit %d; formula/measurement mismatches %d"
        % (len(ROWS), nfl, nops, bad)
    )
    if "--csv" in args:
        import csv

        with open(args[args.index("--csv") + 1], "w", newline="") as f:
            c = csv.writer(f)
            c.writerow(head)
            c.writerows(lines)
    return 1 if bad and "--check" in args else 0


if __name__ == "__main__":
    sys.exit(main())
