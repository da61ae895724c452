"""Sentence vectors from the packaged encoder: its file, its tokenizer, its arithmetic."""
