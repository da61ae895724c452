"""Sentence vectors from the packaged encoder: its file, its tokenizer, its arithmetic."""


class EncoderDamaged(Exception):
    """The encoder's file is missing, cut short or not an encoder."""

    hint = "reinstall git mem; memories are not affected"
