"""What the settings that many kinds share do. A setting of one kind is described in the docstring of its class.

`config.meanings` reads this table for a setting that the docstring of the class does not name.
"""

from __future__ import annotations

SHARED: dict[str, str] = {
    # Sections of a whole config.
    "task": "The task: the loss that is minimized.",
    "data": "The data set, its tokenizer and its batches.",
    "model": "The model.",
    "training": "The steps, the batch size, the seed, the optimizer, the checkpoints and the logging.",
    "parallel": "How a training step is executed on several devices.",
    "decoding": "How outputs are generated.",
    # Sizes.
    "width": "The width of the hidden states (d_model).",
    "num_layers": "The number of layers.",
    "num_heads": "The number of attention heads.",
    "head_width": "The width of each attention head; none is width / num_heads.",
    "max_length": "The maximum number of positions of a sequence, in tokens.",
    "vocabulary_size": "The number of tokens in the vocabulary, special tokens included.",
    "num_classes": "The number of classes.",
    "channels": "The number of channels of an image: 1 (grey) or 3 (colour).",
    "side": "The height and the width of an image, in pixels.",
    "hidden_width": "The width of the hidden layer (d_ff).",
    "embedding_width": "The width of the token embeddings.",
    "rank": "The rank of the factorization.",
    # Numbers and regularization.
    "dtype": "The type of the activations. Parameters are always float32.",
    "dropout_rate": "The probability with which dropout zeroes a value in training.",
    "use_bias": "Whether the linear projections have biases.",
    "epsilon": "A small number that is added to a denominator, for numerical stability.",
    "b1": "The decay rate of the average of the gradients.",
    "b2": "The decay rate of the average of the squared gradients.",
    # Parts of a model.
    "encoder": "The encoder.",
    "decoder": "The decoder.",
    "embedding": "The table of token embeddings.",
    "vocabulary": "The token embeddings and the output layer over the vocabulary.",
    "positions": "The position encodings.",
    "self_attention": "The self-attention of each layer.",
    "cross_attention": "The attention from the decoder to the encoder's output.",
    "feed_forward": "The feed-forward network of each layer.",
    "expert": "The feed-forward network of each expert.",
    "norm": "The normalization layers.",
    "residual": "How a branch is added to its input.",
    "convolution": "The convolutions of each layer.",
    "cell": "The recurrent cell of each layer.",
    "alignment": "The attention of the decoder.",
    "start": "The initial state of the decoder.",
    "score": "The alignment score of a query and a key.",
    "pooling": "How the states of a sequence are reduced to one vector.",
    "features": "The network that computes the features of an image.",
    "initialization": "How the parameters are initialized.",
    "activation": "The activation function of the hidden layer.",
    # Stacks of layers.
    "steps": "The residual branches of a layer, each as the names of its steps in order.",
    "final_norm": "Whether a norm follows the last layer, as a pre-norm stack needs.",
    "layout": "Which layers differ from the others.",
    "stack": "Whether each layer has its own weights.",
    "unroll": "Whether the layers are unrolled instead of scanned: slower to compile, sometimes faster to run.",
    "remat": "Whether the activations of a layer are computed again in the backward pass, which saves memory.",
    # Relative positions.
    "num_buckets": "The number of buckets of the relative position bias.",
    "max_distance": "The distance from which all relative positions share the last bucket.",
    # Data.
    "name": "The name of a data set; `attention-research list datasets` lists those of the package.",
    "tokenizer": "The tokenizer, which makes the vocabulary.",
    "batching": "How examples become batches of fixed shapes.",
    "model_type": "The algorithm that builds the vocabulary: byte-pair encoding or a unigram model.",
    "train_examples": "The number of training examples.",
    "held_out": "The number of validation examples, and of test examples.",
    "grid": "An image has grid x grid cells.",
    "min_objects": "The smallest number of objects in a picture.",
    "max_objects": "The largest number of objects in a picture.",
    "clutter": "The fraction of the empty cells that hold a grey fragment of a digit.",
    "boundaries": "The lengths to which sequences are padded; each sequence takes the smallest that fits.",
    # Training, evaluation and decoding.
    "warmup_steps": "The number of updates over which the learning rate increases linearly.",
    "split": "The split of the data that is evaluated: train, validation or test.",
    "batch_size": "The number of examples in a batch.",
    "examples": "The number of examples that are evaluated, a fixed random selection of the split; none: all.",
    "average": "The number of newest checkpoints whose parameters are averaged before the evaluation.",
    "extra_length": "An output may be this many tokens longer than its source.",
}
