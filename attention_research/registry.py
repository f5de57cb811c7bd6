"""The registry of all kinds: one table per family, "kind" -> "module:Class". Modules are imported on demand.

A new variant needs one file and one line here. The line of an attention kind also names the families that define it,
and
the reasons why others refuse it. A module is imported only when a kind is built. Reading a config therefore does not
need JAX: its schema comes from the signatures of constructors, which are read from the source.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_LAYERS = "attention_research.layers"
ENCODER, CAUSAL, CROSS = "encoder_attention", "causal_attention", "cross_attention"
PROMPTED, PREFIX = "prompted_attention", "prefix_attention"


class Attention(NamedTuple):
    """A kind of attention: its class, the families that define it, and the reasons why other families refuse it.

    `instead` maps a family to the class of this kind in this family, if it differs from `target`.
    """

    target: str
    places: tuple[str, ...]
    refused: Mapping[str, str] = {}
    instead: Mapping[str, str] = {}


_BOTH = (ENCODER, CAUSAL)
_SELF = (*_BOTH, PROMPTED, PREFIX)
_DECODER = (CAUSAL, PROMPTED)
_BY_DISTANCE = {CROSS: "relative positions are distances within one sequence; source and target have none"}
_BY_PLACE = {CROSS: "it mixes positions of one sequence and does not attend to the tokens of a source"}
_LONG_RANGE = dict.fromkeys(
    (CAUSAL, CROSS), "it supports only self-attention of an encoder, as in the Long Range Arena"
)
_OF_STATE = {
    ENCODER: "its state only knows earlier positions",
    CROSS: "its state holds one sequence, and a target does not look up the tokens of a source in it",
}


def _state(target: str) -> Attention:
    """A self-attention with a state of constant size, for decoders."""
    return Attention(f"state.{target}", (CAUSAL, PROMPTED), _OF_STATE)


def _features(encoder: str, causal: str) -> Attention:
    """Attention to features, linear in the length: sums over all positions, or a state in a decoder."""
    refused = {CROSS: "it sums over the positions of one sequence; cross-attention to a source is not implemented"}
    return Attention(encoder, (ENCODER, CAUSAL, PROMPTED), refused, dict.fromkeys((CAUSAL, PROMPTED), causal))


_BACK = {ENCODER: "it goes back from the query to earlier positions; an encoder sees both sides", **_BY_DISTANCE}
_PAST = {
    ENCODER: "its queries choose among earlier positions; an encoder sees both sides",
    CROSS: "it chooses among earlier positions of one sequence, not among the tokens of a source",
}
_BY_WINDOW = {CROSS: "a window is a range of positions of one sequence"}
_ONLY_CAUSAL = "it is defined for causal attention only"
_OF_CELLS = {CAUSAL: "a cell holds positions after the query"}
_NO_ORDER = "positions of a source are neither before nor after positions of a target"
_ONE_STACK = {CROSS: "it mixes the values of the positions of one sequence"}

ATTENTION = {
    "standard": Attention("standard:StandardAttention", (*_SELF, CROSS)),
    "unscaled": Attention("unscaled:UnscaledAttention", (*_SELF, CROSS)),
    "relative": Attention("relative:RelativeAttention", _SELF, _BY_DISTANCE),
    "relative_keys": Attention("relative_keys:RelativeKeysAttention", _SELF, _BY_DISTANCE),
    "relative_values": Attention("relative_values:RelativeValuesAttention", _SELF, _BY_DISTANCE),
    "relative_bias": Attention("relative_bias:RelativeBiasAttention", _SELF, _BY_DISTANCE),
    "relative_keys_bias": Attention("relative_bias:RelativeKeysBiasAttention", _SELF, _BY_DISTANCE),
    # By the distance between positions of two sequences. Kinds of their own, so that the kinds above keep standard
    # attention to a source.
    **{
        f"cross_{kind}": Attention(target, (CROSS,), dict.fromkeys(_BOTH, f"it is attention to a source; use {kind}"))
        for kind, target in {
            "relative_keys": "relative_keys:RelativeKeysAttention",
            "relative_bias": "relative_bias:RelativeBiasAttention",
            "relative_keys_bias": "relative_bias:RelativeKeysBiasAttention",
        }.items()
    },
    "t5": Attention("t5:T5Attention", _SELF, _BY_DISTANCE, instead={PREFIX: "t5_two_sided:TwoSidedT5Attention"}),
    "t5_scaled": Attention("t5_scaled:ScaledT5Attention", _BOTH, _BY_DISTANCE),
    "alibi": Attention("alibi:AlibiAttention", _SELF, _BY_DISTANCE),
    "rotary": Attention("rotary:RotaryAttention", _SELF, _BY_DISTANCE),
    "positional": Attention("positional:PositionalAttention", _BOTH, _BY_DISTANCE),
    "linformer": Attention(
        "linformer:LinformerAttention",
        (ENCODER, CROSS),
        {
            CAUSAL: "Linformer projects keys and values over the whole length, so position i would see positions after "
            "i: it cannot be causal (Wang et al. 2020)"
        },
    ),
    "linformer_pooled": Attention("linformer_pooled:PooledLinformerAttention", (ENCODER, CROSS), _OF_CELLS),
    "linformer_convolved": Attention("linformer_convolved:ConvolvedLinformerAttention", (ENCODER, CROSS), _OF_CELLS),
    "ring": Attention("ring:RingAttention", (ENCODER, CAUSAL, CROSS)),
    "unmasked": Attention(
        "unmasked:UnmaskedAttention",
        (CAUSAL,),
        {
            ENCODER: "an encoder has no causal mask to remove; set it only for the decoder",
            CROSS: "attention to a source has no causal mask to remove",
        },
    ),
    "one_sided": Attention(
        "one_sided:OneSidedAttention",
        (ENCODER,),
        {CAUSAL: "self-attention of a decoder is already one-sided; use standard", CROSS: _NO_ORDER},
    ),
    "one_sided_relative_bias": Attention(
        "one_sided:OneSidedRelativeBias",
        (ENCODER,),
        {CAUSAL: "self-attention of a decoder is already one-sided; use relative_bias", CROSS: _NO_ORDER},
    ),
    "branched": Attention("branched:BranchedAttention", (ENCODER, CAUSAL, CROSS)),
    "branched_t5": Attention(
        "branched_t5:BranchedT5Attention",
        _BOTH,
        {CROSS: "relative positions are distances within one sequence; use branched"},
    ),
    # Scaled dot products with another normalization, scale, window or cache.
    "sink": Attention("sink:SinkAttention", (*_SELF, CROSS)),
    "softcap": Attention("softcap:SoftcapAttention", (*_SELF, CROSS)),
    "sigmoid": Attention("sigmoid:SigmoidAttention", (*_SELF, CROSS)),
    "query_key_l2": Attention("query_key_l2:QueryKeyL2Attention", (*_SELF, CROSS)),
    "temperature": Attention("temperature:TemperatureAttention", (*_SELF, CROSS)),
    "differential": Attention("differential:DifferentialAttention", (*_SELF, CROSS)),
    "gated": Attention("gated:GatedAttention", (*_SELF, CROSS)),
    "gated_rotary": Attention("gated:GatedRotaryAttention", _SELF, _BY_DISTANCE),
    "latent": Attention("latent:LatentAttention", _SELF, _BY_DISTANCE),
    "sliding_window": Attention("sliding_window:SlidingWindowAttention", _BOTH, _BY_WINDOW),
    "sliding_window_rotary": Attention("sliding_window:RotarySlidingWindowAttention", _BOTH, _BY_WINDOW),
    "streaming": Attention("streaming:StreamingAttention", (CAUSAL,), {ENCODER: _ONLY_CAUSAL, **_BY_WINDOW}),
    "transformer_xl": Attention(
        "transformer_xl:TransformerXLAttention", (CAUSAL, PROMPTED), {ENCODER: _ONLY_CAUSAL, **_BY_DISTANCE}
    ),
    "transformer_xl_memory": Attention(
        "transformer_xl_memory:SegmentedTransformerXL", (CAUSAL,), {ENCODER: _ONLY_CAUSAL, **_BY_DISTANCE}
    ),
    # Layers of one stack that differ from or depend on each other.
    "interleaved": Attention(
        "interleaved:InterleavedAttention",
        (CAUSAL,),
        {
            ENCODER: "its layers are self-attentions of a decoder",
            CROSS: "it lays out the self-attentions of a stack",
        },
    ),
    "value_residual": Attention("value_residual:ValueResidualAttention", (*_BOTH, PROMPTED), _ONE_STACK),
    "cross_layer": Attention("cross_layer:CrossLayerAttention", _BOTH, {**_ONE_STACK, **_BY_DISTANCE}),
    "yoco": Attention(
        "yoco:YOCOAttention",
        (CAUSAL,),
        {
            ENCODER: "it saves the cache of a decoder; an encoder has none",
            **_BY_DISTANCE,
        },
    ),
    "isab": Attention(
        "isab:InducedSetAttention",
        (ENCODER,),
        {
            CAUSAL: "its inducing points read the whole set, so position i would see positions after i: it cannot be "
            "causal (Lee et al. 2019)",
            CROSS: "its inducing points read the set that is attended to; to attend to another set, use standard",
        },
    ),
    # Other weights than a softmax, and other scores or outputs.
    "sparsemax": Attention("sparsemax:SparsemaxAttention", (*_SELF, CROSS)),
    "entmax15": Attention("entmax15:Entmax15Attention", (*_SELF, CROSS)),
    "entmax": Attention("entmax:EntmaxAttention", (*_SELF, CROSS)),
    "talking_heads": Attention("talking_heads:TalkingHeadsAttention", (*_SELF, CROSS)),
    "length_scaled": Attention("length_scaled:LengthScaledAttention", (*_SELF, CROSS)),
    "position_scaled": Attention("position_scaled:PositionScaledAttention", (*_SELF, CROSS)),
    "exclusive": Attention(
        "exclusive:ExclusiveAttention", _SELF, {CROSS: "a target position has no value of its own in a source"}
    ),
    "tensor_product": Attention("tensor_product:TensorProductAttention", _SELF, _BY_DISTANCE),
    "kerple": Attention("kerple:KerpleAttention", _SELF, _BY_DISTANCE),
    "scaled_rotary": Attention("scaled_rotary:ScaledRotaryAttention", _SELF, _BY_DISTANCE),
    "stick_breaking": Attention("stick_breaking:StickBreakingAttention", _DECODER, _BACK),
    "forgetting": Attention("forgetting:ForgettingAttention", _DECODER, _BACK),
    "forgetting_pro": Attention("forgetting_pro:ForgettingProAttention", _DECODER, _BACK),
    "fire": Attention("fire:FireAttention", _DECODER, _BACK),
    "contextual": Attention("contextual:ContextualAttention", _DECODER, _BACK),
    "xpos": Attention("xpos:XPosAttention", _DECODER, _BACK),
    "path": Attention("path:PathAttention", _DECODER, _BACK),
    "multi_token": Attention("multi_token:MultiTokenAttention", _DECODER, _BACK),
    "selective": Attention("selective:SelectiveAttention", _DECODER, _PAST),
    "moba": Attention("moba:MobaAttention", _DECODER, _PAST),
    "native_sparse": Attention("native_sparse:NativeSparseAttention", _DECODER, _PAST),
    "indexed": Attention("indexed:IndexedAttention", _DECODER, _PAST),
    # Self-attention that mixes neighbours or positions of a sequence, instead of or in addition to dot products.
    "lightweight_convolution": Attention("lightweight_convolution:LightweightConvolution", _BOTH, _BY_PLACE),
    "dynamic_convolution": Attention("dynamic_convolution:DynamicConvolution", _BOTH, _BY_PLACE),
    "dense_synthesizer": Attention("dense_synthesizer:DenseSynthesizer", _BOTH, _BY_PLACE),
    "dense_synthesizer_plus": Attention("dense_plus:DenseSynthesizerPlus", _BOTH, _BY_PLACE),
    "dense_synthesizer_plus_alpha": Attention("dense_plus_alpha:DenseSynthesizerPlusAlpha", _BOTH, _BY_PLACE),
    "factorized_synthesizer": Attention("factorized_synthesizer:FactorizedSynthesizer", _BOTH, _BY_PLACE),
    "low_rank_synthesizer": Attention("low_rank_synthesizer:LowRankSynthesizer", _BOTH, _BY_PLACE),
    "random_synthesizer": Attention("random_synthesizer:RandomSynthesizer", _BOTH, _BY_PLACE),
    "random_synthesizer_plus": Attention("random_plus:RandomSynthesizerPlus", _BOTH, _BY_PLACE),
    "random_synthesizer_plus_alpha": Attention("random_plus_alpha:RandomSynthesizerPlusAlpha", _BOTH, _BY_PLACE),
    "hyena": Attention("hyena:Hyena", _DECODER, {ENCODER: "its kernels reach earlier positions only", **_BY_PLACE}),
    # Self-attention with a state of constant size, or with one for each level of a tree.
    "retnet": _state("retnet:RetNet"),
    "gla": _state("gla:GatedLinearAttention"),
    "mamba": _state("mamba:Mamba"),
    "mamba2": _state("mamba2:Mamba2"),
    "deltanet": _state("deltanet:DeltaNet"),
    "gated_deltanet": _state("gated_deltanet:GatedDeltaNet"),
    "kda": _state("kda:KimiDeltaAttention"),
    "lightning": _state("lightning:LightningAttention"),
    "mlstm": _state("mlstm:MLSTM"),
    "rwkv7": _state("rwkv7:RWKV7"),
    "based": _state("based:BasedAttention"),
    "log_linear": _state("log_linear:LogLinearAttention"),
    # The variants of the Long Range Arena.
    "linear": _features("linear:LinearAttention", "state.linear:CausalLinearAttention"),
    "performer": _features("performer:PerformerAttention", "state.performer:CausalPerformer"),
    "block_local": Attention(
        "block_local:BlockLocalAttention",
        _BOTH,
        _BY_WINDOW,
        instead={CAUSAL: "causal_block_local:CausalBlockLocalAttention"},
    ),
    "bigbird": Attention("bigbird:BigBirdAttention", (ENCODER,), _LONG_RANGE),
    "reformer": Attention("reformer:ReformerAttention", (ENCODER,), _LONG_RANGE),
    "sinkhorn": Attention(
        "sinkhorn:SinkhornAttention",
        _BOTH,
        _BY_PLACE,
        instead={CAUSAL: "causal_sinkhorn:CausalSinkhornAttention"},
    ),
    "dot_synthesizer": Attention("dot_synthesizer:DotSynthesizer", (ENCODER,), _LONG_RANGE),
}


def _attentions(family: str) -> dict[str, str]:
    """The attention kinds that a family defines."""
    there = {kind: one for kind, one in ATTENTION.items() if family in one.places}
    return {kind: f"{_LAYERS}.attention.{one.instead.get(family, one.target)}" for kind, one in there.items()}


#: family -> kind -> "module:Class". The first kind of a family is its default.
FAMILIES: dict[str, dict[str, str]] = {
    "experiment": {
        "experiment": "attention_research.experiment:Experiment",
        "images": "attention_research.experiment:ImageExperiment",
        "images_and_words": "attention_research.experiment:ImageTextExperiment",
        "series": "attention_research.experiment:SeriesExperiment",
    },
    "task": {
        "translation": "attention_research.tasks.translation:Translation",
        "text_to_text": "attention_research.tasks.text_to_text:TextToText",
        "coverage": "attention_research.tasks.coverage:Coverage",
        "captioning": "attention_research.tasks.captioning:Captioning",
        "classification": "attention_research.tasks.classification:Classification",
        "rationale": "attention_research.tasks.rationale:Rationale",
        "answers": "attention_research.tasks.answers:Answers",
        "regression": "attention_research.tasks.regression:Regression",
        "position_classes": "attention_research.tasks.position_classes:PositionClasses",
    },
    "data": {
        "pairs": "attention_research.data.pairs:PairData",
        "files": "attention_research.data.files:FileData",
        "naming": "attention_research.data.naming:NamingData",
        "copying": "attention_research.data.copying:CopyingData",
        "agreement": "attention_research.data.copying:AgreementData",
        "longer": "attention_research.data.longer:LongerData",
        "scan": "attention_research.data.scan:ScanData",
        "blanks": "attention_research.data.blanks:BlanksData",
        "labelled": "attention_research.data.labelled:LabelledData",
        "listops": "attention_research.data.listops:ListOps",
        "pixels": "attention_research.data.pixels:Pixels",
        "collages": "attention_research.data.collage_captions:Collages",
        "collage_questions": "attention_research.data.collage_questions:CollageQuestions",
        "images": "attention_research.data.images:ImageData",
        "captions": "attention_research.data.captions:Captions",
        "caption_folder": "attention_research.data.caption_folder:CaptionFolder",
        "image_questions": "attention_research.data.image_questions:ImageQuestions",
        "pathfinder": "attention_research.data.pathfinder:Pathfinder",
        "placed_digits": "attention_research.data.placed_digits:PlacedDigits",
        "matching": "attention_research.data.matching:Matching",
        "generated_reviews": "attention_research.data.generated_reviews:GeneratedReviews",
        "recall": "attention_research.data.recall:Recall",
        "induction": "attention_research.data.induction:Induction",
        "associative_recall": "attention_research.data.associative_recall:AssociativeRecall",
        "equations": "attention_research.data.equations:Equations",
        "adding": "attention_research.data.adding:Adding",
        "copy_memory": "attention_research.data.copy_memory:CopyMemory",
        "text_to_text": "attention_research.data.text_to_text:TextToText",
        "text": "attention_research.data.text:TextData",
        "windows": "attention_research.data.windows:Windows",
        "text_files": "attention_research.data.text_files:TextFiles",
        "running_text": "attention_research.data.running_text:RunningText",
    },
    "objective": {
        "span_corruption": "attention_research.data.objectives.span_corruption:SpanCorruption",
        "prefix_language_model": "attention_research.data.objectives.prefix_language_model:PrefixLanguageModel",
        "language_model": "attention_research.data.objectives.language_model:LanguageModel",
        "bert_style": "attention_research.data.objectives.bert_style:BertStyle",
        "masked_tokens": "attention_research.data.objectives.masked_tokens:MaskedTokens",
        "deshuffling": "attention_research.data.objectives.deshuffling:Deshuffling",
    },
    "tokenizer": {
        "sentencepiece": "attention_research.data.tokenizer:SentencePiece",
        "mixed_scripts": "attention_research.data.mixed_scripts:MixedScripts",
        "words": "attention_research.data.words:Words",
        "bytes": "attention_research.data.byte_tokens:Bytes",
        "characters": "attention_research.data.characters:Characters",
        "from_run": "attention_research.data.from_run:FromRun",
        "hugging_face": "attention_research.data.hugging_face:HuggingFaceTokenizer",
    },
    "batching": {
        "buckets": "attention_research.data.batching:Buckets",
        "packed": "attention_research.data.batching:Packed",
    },
    "model": {
        "transformer": "attention_research.models.transformer:Transformer",
        "shared_transformer": "attention_research.models.shared_transformer:SharedTransformer",
        "transformer_decoder": "attention_research.models.decoder_only:TransformerDecoder",
        "language_model": "attention_research.models.language_model:LanguageModel",
        "transformer_encoder": "attention_research.models.encoder_only:TransformerEncoder",
        "conv_attention": "attention_research.models.copying.conv_attention:ConvAttention",
        "copy_attention": "attention_research.models.copying.copy_attention:CopyAttention",
        "pointer_generator": "attention_research.models.copying.pointer_generator:PointerGenerator",
        "recurrent_language_model": "attention_research.models.recurrent_language_model:RecurrentLanguageModel",
        "feed_forward_language_model": "attention_research.models.feed_forward_language_model:FeedForwardLanguageModel",
        "recurrent": "attention_research.models.recurrent.seq2seq:RecurrentSeq2Seq",
        "latent_alignment": "attention_research.models.recurrent.latent_alignment:LatentAlignment",
        "recurrent_captioner": "attention_research.models.captioning.recurrent_captioner:RecurrentCaptioner",
        "transformer_captioner": "attention_research.models.captioning.transformer_captioner:TransformerCaptioner",
        "text_classifier": "attention_research.models.classifiers.text_classifier:TextClassifier",
        "encoder_classifier": "attention_research.models.classifiers.encoder_classifier:EncoderClassifier",
        "image_classifier": "attention_research.models.image_classifier:ImageClassifier",
        "image_question_classifier": "attention_research.models.image_question_classifier:ImageQuestionClassifier",
        "pair_classifier": "attention_research.models.classifiers.pair_classifier:PairClassifier",
        "vision_transformer": "attention_research.models.vision_transformer:VisionTransformer",
        "cloze_classifier": "attention_research.models.classifiers.cloze_classifier:ClozeClassifier",
        "rationale": "attention_research.models.rationales.rationale:Rationale",
        "soft_attention_ratings": "attention_research.models.rationales.soft_attention:SoftAttentionRatings",
        "series": "attention_research.models.series.model:SeriesModel",
        "query_model": "attention_research.models.query_model:QueryModel",
    },
    "series_network": {
        "recurrent": "attention_research.models.series.recurrent:RecurrentNetwork",
        "temporal_convolution": "attention_research.models.series.temporal_convolution:TemporalConvolution",
        "transformer": "attention_research.models.series.transformer:TransformerNetwork",
    },
    "encoder": {
        "transformer": "attention_research.models.encoder:Encoder",
        "funnel": "attention_research.models.funnel_encoder:FunnelEncoder",
        "transparent": "attention_research.models.transparent_encoder:TransparentEncoder",
        "evolved": "attention_research.models.evolved_encoder:EvolvedEncoder",
        "perceiver": "attention_research.models.perceiver_encoder:PerceiverEncoder",
        "slots": "attention_research.models.slot_encoder:SlotEncoder",
    },
    "decoder": {
        "transformer": "attention_research.models.decoder:Decoder",
        "evolved": "attention_research.models.evolved_decoder:EvolvedDecoder",
    },
    # Only one kind so far.
    "causal_stack": {"transformer": "attention_research.models.causal_stack:CausalStack"},
    "prompted_stack": {
        "causal": "attention_research.models.prompted_stack:PromptedStack",
        "prefix": "attention_research.models.prefix_stack:PrefixStack",
    },
    "rationale_generator": {
        "independent": "attention_research.models.rationales.independent:IndependentGenerator",
        "sequential": "attention_research.models.rationales.sequential:SequentialGenerator",
        "random_words": "attention_research.models.rationales.random_words:RandomWords",
        "every_word": "attention_research.models.rationales.every_word:EveryWord",
    },
    "recurrent_encoder": {
        "unidirectional": "attention_research.models.recurrent.unidirectional:UnidirectionalEncoder",
        "bidirectional": "attention_research.models.recurrent.bidirectional:BidirectionalEncoder",
    },
    "recurrent_decoder": {
        "luong": "attention_research.models.recurrent.luong:LuongDecoder",
        "bahdanau": "attention_research.models.recurrent.bahdanau:BahdanauDecoder",
        "fixed_vector": "attention_research.models.recurrent.fixed_vector:FixedVectorDecoder",
    },
    "caption_decoder": {
        "show_attend_tell": "attention_research.models.recurrent.show_attend_tell:ShowAttendTell",
        "fixed_vector": "attention_research.models.recurrent.fixed_vector:FixedVectorDecoder",
    },
    "decoder_start": {
        "encoder_state": "attention_research.models.recurrent.starts:EncoderState",
        "projected": "attention_research.models.recurrent.starts:Projected",
        "zeros": "attention_research.models.recurrent.starts:Zeros",
    },
    "alignment_transition": {
        "independent": "attention_research.layers.alignment.transitions.independent:IndependentPositions",
        "monotonic": "attention_research.layers.alignment.transitions.monotonic:MonotonicPositions",
    },
    "alignment": {
        "global": "attention_research.layers.alignment.global_alignment:GlobalAlignment",
        "local_monotonic": "attention_research.layers.alignment.local_monotonic:LocalMonotonicAlignment",
        "local_predictive": "attention_research.layers.alignment.local_predictive:LocalPredictiveAlignment",
        "location": "attention_research.layers.alignment.location:LocationAlignment",
        "monotonic": "attention_research.layers.alignment.monotonic:MonotonicAlignment",
        "mocha": "attention_research.layers.alignment.mocha:MoChAAlignment",
        "last_state": "attention_research.layers.alignment.last_state:LastStateAlignment",
        "none": "attention_research.layers.alignment.none:NoAlignment",
    },
    "image_alignment": {
        "global": "attention_research.layers.alignment.global_alignment:GlobalAlignment",
        "hard": "attention_research.layers.alignment.hard:HardAlignment",
        "sca": "attention_research.layers.alignment.sca:SCAAlignment",
        "last_state": "attention_research.layers.alignment.last_state:LastStateAlignment",
    },
    "score": {
        "additive": "attention_research.layers.alignment.scores.additive:AdditiveScore",
        "dot": "attention_research.layers.alignment.scores.dot:DotScore",
        "scaled_dot": "attention_research.layers.alignment.scores.scaled_dot:ScaledDotScore",
        "cosine": "attention_research.layers.alignment.scores.cosine:CosineScore",
        "general": "attention_research.layers.alignment.scores.general:GeneralScore",
        "reduced_rank": "attention_research.layers.alignment.scores.reduced_rank:ReducedRankScore",
        "concat": "attention_research.layers.alignment.scores.concat:ConcatScore",
    },
    # Only one kind so far.
    "recurrent_vocabulary": {
        "source_and_target": "attention_research.layers.embeddings.source_and_target:SourceAndTargetVocabulary",
    },
    # Only one kind so far.
    "caption_vocabulary": {"target_only": "attention_research.layers.embeddings.target_only:TargetVocabulary"},
    "initialization": {
        "as_built": "attention_research.layers.initialization.as_built:AsBuilt",
        "uniform": "attention_research.layers.initialization.uniform:Uniform",
        "bahdanau": "attention_research.layers.initialization.bahdanau:BahdanauInitialization",
        "mesh_tensorflow": "attention_research.layers.initialization.mesh_tensorflow:MeshTensorFlow",
        "mesh_tensorflow_scaled": "attention_research.layers.initialization.mesh_tensorflow_scaled:MeshTFScaled",
        "fixup": "attention_research.layers.initialization.fixup:Fixup",
        "pytorch": "attention_research.layers.initialization.pytorch:PyTorchInitialization",
        "gpt2": "attention_research.layers.initialization.gpt2:GPT2Initialization",
    },
    "attention": {kind: f"{_LAYERS}.attention.{one.target}" for kind, one in ATTENTION.items()},
    **{family: _attentions(family) for family in (ENCODER, CAUSAL, PROMPTED, PREFIX, CROSS)},
    # Only one kind so far.
    "encoder_convolution": {
        "evolved": "attention_research.layers.convolution.evolved_encoder:EvolvedEncoderConvolution",
    },
    "causal_convolution": {
        "evolved": "attention_research.layers.convolution.evolved_decoder:EvolvedDecoderConvolution",
    },
    "positions": {
        "sinusoidal": "attention_research.layers.positions.sinusoidal:SinusoidalPositions",
        "sinusoidal_halves": "attention_research.layers.positions.sinusoidal_halves:SinusoidalHalves",
        "learned": "attention_research.layers.positions.learned:LearnedPositions",
        "learned_normed": "attention_research.layers.positions.learned_normed:LearnedNormedPositions",
        "concatenated": "attention_research.layers.positions.concatenated:ConcatenatedPositions",
        "conditional": "attention_research.layers.positions.conditional:ConditionalPositions",
        "none": "attention_research.layers.positions.none:NoPositions",
    },
    "feed_forward": {
        "dense": "attention_research.layers.feed_forward.dense:DenseFeedForward",
        "gated": "attention_research.layers.feed_forward.gated:GatedFeedForward",
        "gated_linear_unit": "attention_research.layers.feed_forward.gated_linear_unit:GatedLinearUnit",
        "shifted": "attention_research.layers.feed_forward.shifted:ShiftedFeedForward",
        "switch": "attention_research.layers.feed_forward.switch:SwitchFeedForward",
        "switch_released": "attention_research.layers.feed_forward.switch_released:ReleasedSwitchFeedForward",
        "mixture_of_experts": "attention_research.layers.feed_forward.mixture_of_experts:MixtureOfExperts",
        "product_key_memory": "attention_research.layers.feed_forward.product_key_memory:ProductKeyMemory",
    },
    "recurrent_cell": {
        "lstm": "attention_research.layers.recurrent.lstm:LSTMCell",
        "lstm_forget_bias": "attention_research.layers.recurrent.lstm_forget_bias:ForgetBiasLSTMCell",
        "gru": "attention_research.layers.recurrent.gru:GRUCell",
        "gru_reset_before": "attention_research.layers.recurrent.gru_reset_before:GRUResetBeforeCell",
        "vanilla": "attention_research.layers.recurrent.vanilla:VanillaCell",
        "rcnn": "attention_research.layers.recurrent.rcnn:RCNNCell",
    },
    "residual": {
        "plain": "attention_research.layers.residuals.plain:PlainResidual",
        "rezero": "attention_research.layers.residuals.rezero:ReZero",
        "scaled": "attention_research.layers.residuals.scaled:ScaledResidual",
        "gru_gate": "attention_research.layers.residuals.gate:GRUGate",
    },
    "layout": {
        "uniform": "attention_research.layers.layouts.uniform:UniformLayout",
        "every": "attention_research.layers.layouts.every:EveryLayout",
        "one": "attention_research.layers.layouts.one:OneLayout",
    },
    "stack": {
        "layers": "attention_research.layers.stack:Stack",
        "shared": "attention_research.layers.shared_stack:SharedStack",
        "reversible": "attention_research.layers.reversible_stack:ReversibleStack",
        "universal": "attention_research.layers.universal_stack:UniversalStack",
        "adaptive_universal": "attention_research.layers.adaptive_universal_stack:AdaptiveUniversalStack",
    },
    "norm": {
        "layer_norm": "attention_research.layers.norms.layer_norm:LayerNorm",
        "layer_norm_no_bias": "attention_research.layers.norms.layer_norm_no_bias:LayerNormNoBias",
        "layer_norm_simple": "attention_research.layers.norms.layer_norm_simple:SimpleLayerNorm",
        "detach_norm": "attention_research.layers.norms.detach_norm:DetachNorm",
        "rms_norm": "attention_research.layers.norms.rms_norm:RMSNorm",
        "partial_rms_norm": "attention_research.layers.norms.partial_rms_norm:PartialRMSNorm",
        "scalar_shift": "attention_research.layers.norms.scalar_shift:ScalarShift",
        "scalar_shift_scale": "attention_research.layers.norms.scalar_shift_scale:ScalarShiftScale",
    },
    "embedding": {
        "learned": "attention_research.layers.embeddings.learned:LearnedEmbedding",
        "random_frozen": "attention_research.layers.embeddings.random_frozen:RandomFrozenEmbedding",
        "from_file": "attention_research.layers.embeddings.from_file:FileEmbedding",
    },
    "pooling": {
        "mean": "attention_research.layers.pooling.mean:MeanPooling",
        "idf": "attention_research.layers.pooling.idf:IdfPooling",
        "tf_idf": "attention_research.layers.pooling.tf_idf:TfIdfPooling",
        "token_weight": "attention_research.layers.pooling.token_weight:TokenWeightPooling",
        "query": "attention_research.layers.pooling.query:QueryPooling",
        "self_attention": "attention_research.layers.pooling.self_attention:SelfAttentionPooling",
        "qkv": "attention_research.layers.pooling.qkv:QKVPooling",
        "pma": "attention_research.layers.pooling.pma:SeedPooling",
        "bidirectional_recurrent": "attention_research.layers.pooling.bidirectional_recurrent:BidirectionalPooling",
    },
    "image_features": {
        "cnn": "attention_research.layers.vision.cnn:ConvolutionalFeatures",
        "resnet": "attention_research.layers.vision.resnet:ResidualNetwork",
        "mobilenet_v2": "attention_research.layers.vision.mobilenet_v2:MobileNetV2",
    },
    "image_gate": {
        "none": "attention_research.layers.vision.gates.none:NoGate",
        "squeeze_excitation": "attention_research.layers.vision.gates.squeeze_excitation:SqueezeExcitation",
        "channel": "attention_research.layers.vision.gates.channel:ChannelGate",
        "spatial": "attention_research.layers.vision.gates.spatial:SpatialGate",
        "normalized_spatial": "attention_research.layers.vision.gates.normalized_spatial:NormalizedSpatialGate",
        "cbam": "attention_research.layers.vision.gates.cbam:CBAM",
        "normalized_cbam": "attention_research.layers.vision.gates.normalized_cbam:NormalizedCBAM",
        "sca": "attention_research.layers.vision.gates.sca:SCA",
    },
    "image_reader": {
        "cross_attention": "attention_research.layers.vision.readers.cross_attention:CrossAttentionReader",
        "pooled": "attention_research.layers.vision.readers.pooled:PooledReader",
    },
    "shortcut": {
        "identity": "attention_research.layers.vision.shortcuts.identity:IdentityShortcut",
        "projection": "attention_research.layers.vision.shortcuts.projection:ProjectionShortcut",
        "none": "attention_research.layers.vision.shortcuts.none:NoShortcut",
    },
    "vocabulary": {
        "shared": "attention_research.layers.embeddings.tied:TiedEmbeddings",
        "shared_with_bias": "attention_research.layers.embeddings.tied_with_bias:TiedEmbeddingsWithBias",
        "unscaled": "attention_research.layers.embeddings.unscaled:UnscaledVocabulary",
        "unscaled_no_bias": "attention_research.layers.embeddings.unscaled_no_bias:UnscaledNoBiasVocabulary",
        "bert": "attention_research.layers.embeddings.bert:BertVocabulary",
        "t5": "attention_research.layers.embeddings.t5:T5Vocabulary",
        "separate": "attention_research.layers.embeddings.separate:SeparateVocabulary",
        "untied": "attention_research.layers.embeddings.untied:UntiedVocabulary",
        "t5_untied_output": "attention_research.layers.embeddings.t5_untied_output:T5UntiedOutputVocabulary",
        "t5_untied_encoder": "attention_research.layers.embeddings.t5_untied_encoder:T5UntiedEncoderVocabulary",
        "t5_untied": "attention_research.layers.embeddings.t5_untied:T5UntiedVocabulary",
        "factorized": "attention_research.layers.embeddings.factorized:FactorizedVocabulary",
        "factorized_shared": "attention_research.layers.embeddings.factorized_tied:FactorizedTiedEmbeddings",
        "adaptive_input": "attention_research.layers.embeddings.adaptive_input:AdaptiveInputVocabulary",
        "adaptive_softmax": "attention_research.layers.embeddings.adaptive_softmax:AdaptiveSoftmaxVocabulary",
        "mixture_of_softmaxes": "attention_research.layers.embeddings.mixture_of_softmaxes:MixtureOfSoftmaxes",
    },
    # Families with one kind, because every section of a config needs a family. The trainer reads their settings.
    "training": {"standard": "attention_research.training.settings:Training"},
    "optimizer": {
        "adam": "attention_research.training.optimizers:Adam",
        "adamw": "attention_research.training.optimizers:AdamW",
        "sgd": "attention_research.training.optimizers:SGD",
        "adafactor": "attention_research.training.optimizers:Adafactor",
        "adadelta": "attention_research.training.optimizers:Adadelta",
        "rmsprop": "attention_research.training.optimizers:RMSProp",
        "muon": "attention_research.training.muon:Muon",
        "simplex": "attention_research.training.simplex:Simplex",
    },
    "schedule": {
        "noam": "attention_research.training.schedules:Noam",
        "constant": "attention_research.training.schedules:Constant",
        "cosine": "attention_research.training.schedules:Cosine",
        "inverse_sqrt": "attention_research.training.schedules:InverseSqrt",
        "linear": "attention_research.training.schedules:Linear",
        "step": "attention_research.training.schedules:Step",
    },
    "parallel": {"mesh": "attention_research.parallel.settings:Parallel"},
    "mesh": {"mesh": "attention_research.parallel.settings:Mesh"},
    "decoding": {
        "beam": "attention_research.decoding.beam:BeamSearch",
        "greedy": "attention_research.decoding.greedy:Greedy",
        "sampling": "attention_research.decoding.sampling:Sampling",
        "shrinking_beam": "attention_research.decoding.shrinking_beam:ShrinkingBeamSearch",
        "hugging_face_beam": "attention_research.decoding.hugging_face:HuggingFaceBeamSearch",
    },
    "evaluation": {
        "bleu": "attention_research.tasks.evaluation:BleuEvaluation",
        "compound_split_bleu": "attention_research.tasks.compound_split_bleu:CompoundSplitBleuEvaluation",
        "parseval": "attention_research.tasks.parseval:ParsevalEvaluation",
        "perplexity": "attention_research.tasks.perplexity:PerplexityEvaluation",
        "characters": "attention_research.tasks.characters:CharactersEvaluation",
        "programs": "attention_research.tasks.programs:ProgramEvaluation",
        "text_to_text": "attention_research.tasks.text_to_text_evaluation:TextToTextEvaluation",
        "label_likelihood": "attention_research.tasks.label_likelihood:LabelLikelihoodEvaluation",
        "naming": "attention_research.tasks.naming:NamingEvaluation",
        "error_rate": "attention_research.tasks.error_rate:ErrorRateEvaluation",
        "classification": "attention_research.tasks.classification:ClassificationEvaluation",
        "rationale": "attention_research.tasks.rationale_evaluation:RationaleEvaluation",
        "captions": "attention_research.tasks.captioning_evaluation:CaptioningEvaluation",
        "answers": "attention_research.tasks.answers:AnswerEvaluation",
        "regression": "attention_research.tasks.regression:RegressionEvaluation",
        "position_classes": "attention_research.tasks.position_classes:PositionClassEvaluation",
    },
}

#: (family, kind) -> the reason why the kind is not defined in this family, which is shown to the user.
REFUSED = {(family, kind): why for kind, one in ATTENTION.items() for family, why in one.refused.items()}


def locate(family: str, kind: str) -> tuple[str, str]:
    """Returns ("module", "Class") of a kind, without importing the module."""
    module, name = FAMILIES[family][kind].split(":")
    return module, name


def lookup(family: str, kind: str) -> Callable[..., Any]:
    """Imports the module of a kind and returns its class."""
    module, name = locate(family, kind)
    return getattr(importlib.import_module(module), name)
