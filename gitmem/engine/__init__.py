"""The cache and the search in it: disposable, made from the notes."""
