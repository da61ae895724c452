"""How well memories are found: on a folder with judgements, and on the user's own memories."""
