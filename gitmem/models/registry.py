"""The models that git mem knows by name, with their source, size and checksum.

No figure here is a guess: sizes and checksums are those of the publisher's hub for the pinned
commit, as public projects recorded them (2026-11).
"""

from typing import NamedTuple

LANGUAGE, EMBEDDING = "language", "embedding"


class Known(NamedTuple):
    """`kind` is its use; `size` is in bytes."""

    name: str
    kind: str
    repository: str
    revision: str
    file: str
    size: int
    sha256: str
    about: str
    licence: str = "Apache-2.0"

    def url(self, hub: str = "") -> str:
        """The file's address; `hub` names a mirror with the same paths."""
        hub = (hub or "https://huggingface.co").rstrip("/")
        return f"{hub}/{self.repository}/resolve/{self.revision}/{self.file}"


MODELS = (
    Known("qwen3-0.6b", LANGUAGE, "Qwen/Qwen3-0.6B-GGUF",
          "23749fefcc72300e3a2ad315e1317431b06b590a", "Qwen3-0.6B-Q8_0.gguf",
          639_446_688, "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
          "the default: small, several languages"),
    Known("qwen3-1.7b", LANGUAGE, "Qwen/Qwen3-1.7B-GGUF",
          "90862c4b9d2787eaed51d12237eafdfe7c5f6077", "Qwen3-1.7B-Q8_0.gguf",
          1_834_426_016, "061b54daade076b5d3362dac252678d17da8c68f07560be70818cace6590cb1a",
          "surer, three times as slow"),
    Known("qwen3-4b", LANGUAGE, "Qwen/Qwen3-4B-GGUF",
          "bc640142c66e1fdd12af0bd68f40445458f3869b", "Qwen3-4B-Q4_K_M.gguf",
          2_497_280_256, "7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5",
          "for machines with a fast processor"),
    Known("qwen2.5-coder-0.5b", LANGUAGE, "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
          "ebb2015119c907b064c512bf053e945850b5875f", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
          491_400_064, "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
          "the smallest; trained on code"),
    Known("qwen3-embedding-0.6b", EMBEDDING, "Qwen/Qwen3-Embedding-0.6B-GGUF",
          "370f27d7550e0def9b39c1f16d3fbaa13aa67728", "Qwen3-Embedding-0.6B-Q8_0.gguf",
          639_150_592, "06507c7b42688469c4e7298b0a1e16deff06caf291cf0a5b278c308249c3e439",
          "vectors of 1024 numbers, many languages"),
    Known("all-minilm-l6-v2", EMBEDDING, "second-state/All-MiniLM-L6-v2-Embedding-GGUF",
          "544f204f2eaa2d71361ffc74d6df7170285b286a", "all-MiniLM-L6-v2-Q8_0.gguf",
          25_008_064, "263215c3cadd6e16740741a7624ab4cbb6c8e777688bd5331ecfbf5681c2f8ed",
          "vectors of 384 numbers, English, fast"),
)  # fmt: skip
DEFAULT = "qwen3-0.6b"


def find(name: str) -> Known | None:
    low = name.lower()
    return next((m for m in MODELS if m.name == low), None)
